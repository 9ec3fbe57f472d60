package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.GidChoice;
import dev.verbena.Port;
import dev.verbena.VerbenaException;

import java.io.IOException;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A device as {@code devices} and {@code doctor} show it.
 *
 * @param name as {@code ibv_devices} prints it
 * @param firmware its version, or null when the kernel does not know one
 * @param nodeGuid as the kernel prints it, or null
 * @param ports empty when the device could not be opened
 * @param chosen the GID that queue pairs would have, or null when no link is up
 * @param problem why the device cannot be used, or null
 */
record DeviceFacts(
        String name,
        String firmware,
        String nodeGuid,
        List<Port> ports,
        GidChoice chosen,
        String problem) {
    private static final int GIGA_DIGITS = 9;
    private static final Path DEVICES = Path.of("/sys/class/infiniband");

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
                attribute(name, "node_guid"),
                ports,
                chosen,
                problem);
    }

    /** A device that cannot be opened. */
    static DeviceFacts unusable(String name, String problem) {
        return new DeviceFacts(
                name,
                attribute(name, "fw_ver"),
                attribute(name, "node_guid"),
                List.of(),
                null,
                problem);
    }

    private static String attribute(String device, String file) {
        try {
            String text = Files.readString(DEVICES.resolve(device).resolve(file)).strip();
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
        out.printf("Device %s%s%n", name, firmware == null ? "" : ", firmware " + firmware);
        for (Port port : ports) {
            out.printf(
                    "  port %d: link %s, %s, MTU %d, %s%n",
                    port.number(),
                    port.active() ? "up" : "down",
                    port.linkLayer(),
                    port.mtuBytes(),
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
        all.put("node_guid", nodeGuid);
        all.put("ports", ports.stream().map(DeviceFacts::json).toList());
        all.put("chosen_gid", chosen == null ? null : json(chosen));
        all.put("problem", problem);
        return all;
    }

    private static Map<String, Object> json(Port port) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("number", port.number());
        all.put("link_up", port.active());
        all.put("link_layer", lowerCase(port.linkLayer()));
        all.put("mtu_bytes", port.mtuBytes());
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
