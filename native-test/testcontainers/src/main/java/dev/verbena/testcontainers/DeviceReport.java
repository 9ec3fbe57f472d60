package dev.verbena.testcontainers;

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a script in a container has to say about the RDMA devices there: the output of three
 * commands, read here because a shell reads badly.
 */
final class DeviceReport {
    /** Prints the report. {@code rdma link} names the interface of Ethernet devices only. */
    static final String SCRIPT =
            """
            rdma link
            ip -oneline address show scope global
            for verbs in /sys/class/infiniband_verbs/uverbs*; do
                [ ! -e "$verbs/ibdev" ] || echo "file ${verbs##*/} $(cat "$verbs/ibdev")"
            done
            for net in /sys/class/infiniband/*/device/net/*; do
                [ ! -e "$net" ] || echo "interface $net"
            done
            """;

    private static final String FOLDER = "/dev/infiniband/";
    private static final Pattern LINK =
            Pattern.compile(
                    "link (?<device>[^/ ]+)/\\d+ .*?\\bstate (?<state>\\S+)(?:.* netdev (?<net>\\S+))?.*");
    private static final Pattern ADDRESS =
            Pattern.compile("\\d+:\\s+(?<net>[^\\s@]+)\\S*\\s+inet6?\\s+(?<address>[^/\\s]+).*");
    private static final Pattern FILE = Pattern.compile("file (?<file>\\S+) (?<device>\\S+)");
    private static final Pattern INTERFACE =
            Pattern.compile(
                    "interface /sys/class/infiniband/(?<device>[^/]+)/device/net/(?<net>\\S+)");

    /** A device whose link is up. */
    record Device(String name, InetAddress address, List<String> files) {}

    private final List<String> active = new ArrayList<>();
    private final Map<String, String> interfaces = new LinkedHashMap<>();
    private final Map<String, List<String>> addresses = new LinkedHashMap<>();
    private final Map<String, String> files = new LinkedHashMap<>();

    private DeviceReport(String output) {
        output.lines().map(String::strip).forEach(this::read);
    }

    /** The devices whose link is up and whose interface has an address, in order of their names. */
    static List<Device> devices(String output) {
        DeviceReport report = new DeviceReport(output);
        return report.active.stream()
                .filter(report::usable)
                .distinct()
                .sorted()
                .map(report::device)
                .toList();
    }

    private void read(String line) {
        Matcher matcher;
        if ((matcher = LINK.matcher(line)).matches()) {
            if (matcher.group("state").equals("ACTIVE")) {
                active.add(matcher.group("device"));
                if (matcher.group("net") != null) {
                    interfaces.putIfAbsent(matcher.group("device"), matcher.group("net"));
                }
            }
        } else if ((matcher = ADDRESS.matcher(line)).matches()) {
            addresses
                    .computeIfAbsent(matcher.group("net"), net -> new ArrayList<>())
                    .add(matcher.group("address"));
        } else if ((matcher = FILE.matcher(line)).matches()) {
            files.put(matcher.group("device"), FOLDER + matcher.group("file"));
        } else if ((matcher = INTERFACE.matcher(line)).matches()) {
            interfaces.putIfAbsent(matcher.group("device"), matcher.group("net"));
        }
    }

    private boolean usable(String device) {
        return files.containsKey(device) && addresses.containsKey(interfaces.get(device));
    }

    private Device device(String name) {
        String address =
                addresses.get(interfaces.get(name)).stream()
                        .min(Comparator.comparing(text -> text.contains(":")))
                        .orElseThrow();
        return new Device(
                name, InetAddress.ofLiteral(address), List.of(files.get(name), FOLDER + "rdma_cm"));
    }
}
