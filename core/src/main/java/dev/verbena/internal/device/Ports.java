package dev.verbena.internal.device;

import dev.verbena.GidChoice;
import dev.verbena.Port;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.List;

/**
 * The ports of one opened device, and the GID that its queue pairs use. Callers must hold a
 * reference to the adapter, which may be closed already.
 */
public final class Ports {
    private final String device;
    private final DeviceControl control;
    private final int count;
    private volatile @Nullable GidChoice chosen; // by the program
    private volatile int preferred; // the port while no GID is chosen; 0: the first that is up
    private volatile @Nullable GidChoice used; // most recently

    Ports(String device, DeviceControl control, int count) {
        this.device = device;
        this.control = control;
        this.count = count;
    }

    String device() {
        return device;
    }

    public @Nullable GidChoice chosen() {
        return chosen;
    }

    public @Nullable GidChoice used() {
        return used;
    }

    /** Queries all ports without their GIDs; returns the length of all GID tables together. */
    private long query(List<Port> ports) {
        long gids = 0;
        for (int number = 1; number <= count; number++) {
            gids += query(number, ports);
        }
        return gids;
    }

    private long query(int number, List<Port> ports) {
        return Errno.check(control.queryPort(number, ports), "ibv_query_port(" + device + ")", "");
    }

    public List<Port> query() {
        List<Port> found = new ArrayList<>();
        List<Port.GidEntry> gids = queryGids(query(found));
        List<Port> ports = new ArrayList<>();
        for (Port port : found) {
            List<Port.GidEntry> own = new ArrayList<>();
            for (Port.GidEntry entry : gids) {
                if (entry.port() == port.number()) {
                    own.add(entry);
                }
            }
            ports.add(
                    new Port(
                            port.number(),
                            port.active(),
                            port.linkLayer(),
                            port.maxMtuBytes(),
                            port.mtuBytes(),
                            port.maxMessageBytes(),
                            port.lid(),
                            port.speed(),
                            port.width(),
                            own));
        }
        return ports;
    }

    List<Port.GidEntry> queryGids() {
        return queryGids(query(new ArrayList<>()));
    }

    private List<Port.GidEntry> queryGids(long atMost) {
        List<Port.GidEntry> gids = new ArrayList<>();
        Errno.check(control.queryGids(atMost, gids), "ibv_query_gid_table(" + device + ")", "");
        return gids;
    }

    /**
     * The port that a new queue pair uses, without its GIDs: the GID table takes one more system
     * call, and most queue pairs are connected by the connection manager, which does not need it.
     */
    public Port portOf(@Nullable GidChoice choice) {
        int only = choice != null ? choice.port() : preferred;
        return only != 0 ? portAt(only) : firstActive();
    }

    private Port portAt(int number) {
        List<Port> found = new ArrayList<>(1);
        query(number, found);
        return found.getFirst();
    }

    private Port firstActive() {
        for (int number = 1; number <= count; number++) {
            Port port = portAt(number);
            if (port.active()) {
                return port;
            }
        }
        throw new VerbenaException(
                Status.CONNECTION_INVALID,
                "Device " + device + " has no port whose link is up (rdma link shows their state)");
    }

    /** The GID of a queue pair created now. */
    public GidChoice gid() {
        return gid(chosen == null ? query() : List.of());
    }

    private GidChoice gid(List<Port> ports) {
        GidChoice now = chosen;
        if (now == null) {
            int only = preferred;
            Port port = ports.get(portOf(null).number() - 1);
            now =
                    new GidChoice(
                            port.number(),
                            port.preferredGid(),
                            "RoCE v2 before v1, IPv4 before IPv6, link-local last, of %d on %s"
                                    .formatted(
                                            port.gids().size(),
                                            only != 0
                                                    ? "port " + only
                                                    : "the first port that is up"));
        }
        used = now;
        return now;
    }

    /** Like {@link #gid}, of ports that were queried just now, but null if there is none. */
    @Nullable GidChoice gidIfAny(List<Port> ports) {
        try {
            return gid(ports);
        } catch (VerbenaException e) {
            return null;
        }
    }

    /** The preferred GID of a port, for a queue pair that was created without a chosen GID. */
    public Port.GidEntry preferredGidOf(int port) {
        return query().get(port - 1).preferredGid();
    }

    /**
     * Uses this port for queue pairs that are created while no GID is chosen. Does nothing if there
     * is no such port.
     */
    void prefer(int port) {
        if (port >= 1 && port <= count) {
            preferred = port;
        }
    }

    /** Chooses the GID of queue pairs that are created from now on. */
    public void choose(int port, int index) {
        for (Port.GidEntry entry : queryGids()) {
            if (entry.port() == port && entry.index() == index) {
                choose(entry);
                return;
            }
        }
        throw new VerbenaException(
                Status.INVALID_PARAMETER,
                "Device %s has no GID %d on port %d (ibv_devinfo -v shows them)"
                        .formatted(device, index, port));
    }

    void choose(Port.GidEntry entry) {
        chosen = new GidChoice(entry.port(), entry, "chosen by useGid");
        used = chosen;
    }
}
