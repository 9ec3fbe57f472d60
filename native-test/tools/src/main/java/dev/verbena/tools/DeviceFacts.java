package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.AdapterInfo;
import dev.verbena.GidChoice;
import dev.verbena.Port;
import dev.verbena.VerbenaException;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A device as {@code devices} and {@code doctor} show it.
 *
 * @param name as {@code ibv_devices} prints it
 * @param firmware its version, or null when the kernel does not know one
 * @param hardware vendor, part and version, or null when the device could not be asked
 * @param nodeGuid as the kernel prints it, or null
 * @param interfaces the network interfaces of each port, by its number
 * @param ports empty when the device could not be opened
 * @param chosen the GID that queue pairs would have, or null when no link is up
 * @param problem why the device cannot be used, or null
 */
record DeviceFacts(
        String name,
        String firmware,
        Hardware hardware,
        String nodeGuid,
        List<Port> ports,
        Map<Integer, List<String>> interfaces,
        GidChoice chosen,
        String problem) {
    private static final int GIGA_DIGITS = 9;
    private static final Path DEVICES = Path.of("/sys/class/infiniband");

    /**
     * Of {@link AdapterInfo}.
     *
     * @param vendor the IEEE's number
     * @param part the vendor's number
     * @param version of the hardware
     */
    record Hardware(int vendor, int part, int version) {
        @Override
        public String toString() {
            return "vendor 0x%04x, part %d, hardware version %d".formatted(vendor, part, version);
        }

        private static Hardware of(Adapter adapter) {
            try {
                AdapterInfo info = adapter.info();
                return new Hardware(info.vendorId(), info.vendorPartId(), info.hardwareVersion());
            } catch (VerbenaException e) {
                return null; // it creates objects to find the limits, which may fail
            }
        }
    }

    /** Asks an open device. */
    static DeviceFacts of(Adapter adapter) {
        String name = adapter.name();
        List<Port> ports = adapter.ports();
        GidChoice chosen = null;
        String problem = null;
        if (ports.stream().anyMatch(Port::active)) {
            try {
                chosen = adapter.gid();
            } catch (VerbenaException e) {
                problem = e.getMessage();
            }
        }
        return new DeviceFacts(
                name,
                attribute(name, "fw_ver"),
                Hardware.of(adapter),
                attribute(name, "node_guid"),
                ports,
                ports.stream()
                        .collect(
                                Collectors.toMap(
                                        Port::number,
                                        port -> interfaces(DEVICES.resolve(name), port))),
                chosen,
                problem);
    }

    /** A device that cannot be opened. */
    static DeviceFacts unusable(String name, String problem) {
        return new DeviceFacts(
                name,
                attribute(name, "fw_ver"),
                null,
                attribute(name, "node_guid"),
                List.of(),
                Map.of(),
                null,
                problem);
    }

    /**
     * The network interfaces of a port: of its GIDs, or on InfiniBand those of IPoIB.
     *
     * @param device its folder in /sys
     */
    static List<String> interfaces(Path device, Port port) {
        Path table = device.resolve("ports/" + port.number() + "/gid_attrs/ndevs");
        List<String> ofGids =
                port.gids().stream()
                        .map(gid -> attribute(table.resolve(Integer.toString(gid.index()))))
                        .filter(Objects::nonNull)
                        .distinct()
                        .toList();
        return ofGids.isEmpty() ? ofFunction(device.resolve("device/net"), port) : ofGids;
    }

    /** Those of the PCI function; dev_port counts its ports from 0. */
    private static List<String> ofFunction(Path net, Port port) {
        String wanted = Integer.toString(port.number() - 1);
        try (Stream<Path> all = Files.list(net)) {
            return all.filter(each -> wanted.equals(attribute(each.resolve("dev_port"))))
                    .map(each -> each.getFileName().toString())
                    .sorted()
                    .toList();
        } catch (IOException | UncheckedIOException e) {
            return List.of(); // a software device has no function, and containers may have no /sys
        }
    }

    private static String attribute(String device, String file) {
        return attribute(DEVICES.resolve(device).resolve(file));
    }

    private static String attribute(Path file) {
        try {
            String text = Files.readString(file).strip();
            return text.isEmpty() ? null : text;
        } catch (IOException e) {
            return null; // not all drivers have it, and containers may have no /sys
        }
    }

    /** Whether the link of a port is up. */
    boolean active() {
        return ports.stream().anyMatch(Port::active);
    }

    void print(PrintWriter out) {
        out.printf(
                "Device %s%s%s%n",
                name,
                firmware == null ? "" : ", firmware " + firmware,
                hardware == null ? "" : ", " + hardware);
        for (Port port : ports) {
            out.printf(
                    "  port %d: link %s, %s, %s, MTU %d of at most %d, %s%n",
                    port.number(),
                    port.active() ? "up" : "down",
                    port.linkLayer(),
                    named(interfacesOf(port)),
                    port.mtuBytes(),
                    port.maxMtuBytes(),
                    rate(port));
            for (Port.GidEntry gid : port.gids()) {
                out.printf(
                        "    GID %s%s%n",
                        gid, isChosen(port, gid) ? ", chosen: " + chosen.reason() : "");
            }
        }
        if (problem != null) {
            out.println("  " + problem);
        }
    }

    private List<String> interfacesOf(Port port) {
        return interfaces.getOrDefault(port.number(), List.of());
    }

    private static String named(List<String> interfaces) {
        return switch (interfaces.size()) {
            case 0 -> "network interface not known";
            case 1 -> "network interface " + interfaces.getFirst();
            default -> "network interfaces " + String.join(" ", interfaces);
        };
    }

    /** As in "100 Gbit/s (EDR x4)". */
    private static String rate(Port port) {
        if (port.bitsPerSecond() == 0) {
            return "rate not known";
        }
        return "%s Gbit/s (%s x%d)"
                .formatted(
                        new BigDecimal(port.bitsPerSecond())
                                .movePointLeft(GIGA_DIGITS)
                                .stripTrailingZeros()
                                .toPlainString(),
                        port.speed(),
                        port.width());
    }

    private boolean isChosen(Port port, Port.GidEntry gid) {
        return chosen != null && chosen.port() == port.number() && chosen.gid().equals(gid);
    }

    Map<String, Object> json() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("name", name);
        all.put("firmware", firmware);
        all.put("vendor_id", hardware == null ? null : hardware.vendor());
        all.put("vendor_part_id", hardware == null ? null : hardware.part());
        all.put("hardware_version", hardware == null ? null : hardware.version());
        all.put("node_guid", nodeGuid);
        all.put("ports", ports.stream().map(this::json).toList());
        all.put("chosen_gid", chosen == null ? null : json(chosen));
        all.put("problem", problem);
        return all;
    }

    private Map<String, Object> json(Port port) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("number", port.number());
        all.put("link_up", port.active());
        all.put("link_layer", lowerCase(port.linkLayer()));
        all.put("network_interfaces", interfacesOf(port));
        all.put("mtu_bytes", port.mtuBytes());
        all.put("max_mtu_bytes", port.maxMtuBytes());
        all.put("max_message_bytes", port.maxMessageBytes());
        all.put("lid", port.lid());
        all.put("bits_per_second", port.bitsPerSecond() == 0 ? null : port.bitsPerSecond());
        all.put("speed", port.bitsPerSecond() == 0 ? null : port.speed().name());
        all.put("width", port.bitsPerSecond() == 0 ? null : port.width());
        all.put("gids", port.gids().stream().map(DeviceFacts::json).toList());
        return all;
    }

    private static Map<String, Object> json(Port.GidEntry gid) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("index", gid.index());
        all.put("gid", gid.gid());
        all.put("type", lowerCase(gid.type()));
        return all;
    }

    private static Map<String, Object> json(GidChoice chosen) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("port", chosen.port());
        all.putAll(json(chosen.gid()));
        all.put("reason", chosen.reason());
        return all;
    }

    private static String lowerCase(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }
}
