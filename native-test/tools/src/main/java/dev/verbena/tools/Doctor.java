package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.GidChoice;
import dev.verbena.MemoryRegion;
import dev.verbena.Port;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;

import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.util.List;

/**
 * What this machine offers a program of this library, and what is missing: devices, ports, the GID
 * that would be used and why, connections, lockable memory. Changes nothing.
 */
public final class Doctor {
    private static final long TRIAL_BYTES = 16 << 20;

    private final PrintStream out;
    private boolean well = true;
    private boolean tried;
    private String refusal = "";

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
            complain(Adapter.whyNone());
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
                tryRegistering(adapter);
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
        long lockable = MemoryRegion.lockableBytes();
        String limit = lockable == Long.MAX_VALUE ? "unlimited" : "%,d bytes".formatted(lockable);
        if (!refusal.isEmpty()) {
            complain("Lockable memory: " + limit + "; a trial failed: " + refusal);
        } else if (tried && lockable < TRIAL_BYTES) {
            out.printf("Lockable memory: %s; this process may exceed that (CAP_IPC_LOCK)%n", limit);
        } else {
            out.printf(
                    "Lockable memory: %s%s%n",
                    limit,
                    lockable == Long.MAX_VALUE
                            ? ""
                            : "; all that is registered at a time has to fit (ulimit -l, LimitMEMLOCK=, --ulimit memlock=)");
        }
    }

    /**
     * Registers some memory: few programs do with less, and many containers may lock only 64 KiB or
     * 8 MiB. What went wrong is told with the limit.
     */
    private void tryRegistering(Adapter adapter) {
        tried = true;
        try (ProtectionDomain domain = adapter.createProtectionDomain();
                Arena arena = Arena.ofConfined()) {
            domain.register(arena.allocate(TRIAL_BYTES, 4096), Access.LOCAL_WRITE).close();
        } catch (VerbenaException e) {
            refusal = e.getMessage();
        }
    }

    private void complain(String sentence) {
        well = false;
        out.println(sentence);
    }
}
