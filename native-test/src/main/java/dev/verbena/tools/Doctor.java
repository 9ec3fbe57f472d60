package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.GidChoice;
import dev.verbena.Port;
import dev.verbena.VerbenaException;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * What this machine offers a program of this library, and what is missing: devices, ports, the GID
 * that would be used and why, connections, lockable memory. Changes nothing.
 */
public final class Doctor {
    private static final Path LIMITS = Path.of("/proc/self/limits");
    private static final String LOCKED = "Max locked memory";

    private final PrintStream out;
    private boolean well = true;

    private Doctor(PrintStream out) {
        this.out = out;
    }

    /**
     * Looks and tells. Exit code 0 when RDMA can be used here, otherwise 1.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) {
        System.exit(examine(System.out) ? 0 : 1);
    }

    /**
     * Looks and tells.
     *
     * @param out where it tells
     * @return whether RDMA can be used here
     */
    public static boolean examine(PrintStream out) {
        Doctor doctor = new Doctor(out);
        doctor.devices();
        doctor.lockableMemory();
        return doctor.well;
    }

    private void devices() {
        List<String> names;
        try {
            names = Adapter.names();
        } catch (VerbenaException e) {
            complain("Devices: " + e.getMessage());
            return;
        }
        if (names.isEmpty()) {
            complain(
                    "Devices: none. A NIC without its driver (lspci), or a kernel without RDMA; for trying things out: rdma link add rxe0 type rxe netdev IFACE");
        }
        boolean active = names.isEmpty();
        for (String name : names) {
            active |= device(name);
        }
        if (!active) {
            complain("No device has a port whose link is up (rdma link)");
        }
    }

    /** Tells of one device; whether a port of it is up. */
    private boolean device(String name) {
        out.println("Device " + name);
        try (Adapter adapter = Adapter.open(name)) {
            List<Port> ports = adapter.ports();
            boolean active = ports.stream().anyMatch(Port::active);
            GidChoice chosen = active ? adapter.gid() : null;
            ports.forEach(port -> port(port, chosen));
            if (active) {
                connections(adapter);
            }
            return active;
        } catch (VerbenaException e) {
            complain("  " + e.getMessage());
            return false;
        }
    }

    private void port(Port port, GidChoice chosen) {
        out.printf(
                "  port %d: link %s, %s, MTU %d%n",
                port.number(), port.active() ? "up" : "down", port.linkLayer(), port.mtuBytes());
        for (Port.GidEntry gid : port.gids()) {
            boolean taken =
                    chosen != null && chosen.port() == port.number() && chosen.gid().equals(gid);
            out.printf("    GID %s%s%n", gid, taken ? ", chosen: " + chosen.reason() : "");
        }
    }

    private void connections(Adapter adapter) {
        try {
            adapter.createConnector().close();
            out.println("  connections by IP address: yes");
        } catch (VerbenaException e) {
            complain("  connections by IP address: " + e.getMessage());
        }
    }

    private void lockableMemory() {
        try {
            String limit =
                    Files.readAllLines(LIMITS).stream()
                            .filter(line -> line.startsWith(LOCKED))
                            .map(line -> line.substring(LOCKED.length()).strip().split(" ")[0])
                            .findFirst()
                            .orElse("unknown");
            out.printf(
                    "Lockable memory: %s%s%n",
                    limit.equals("unlimited") ? limit : limit + " bytes",
                    limit.equals("unlimited")
                            ? ""
                            : "; all that is registered at a time has to fit (ulimit -l, LimitMEMLOCK=, --ulimit memlock=)");
        } catch (IOException e) {
            out.println("Lockable memory: unknown, " + e);
        }
    }

    private void complain(String sentence) {
        well = false;
        out.println(sentence);
    }
}
