package dev.verbena;

import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.GidTableEntry;
import dev.verbena.internal.verbs.PortAttributes;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.List;

/**
 * The ports of one opened device, and which GID its queue pairs use. Callers must have a reference
 * to the adapter ({@link NativeObject#acquire}), which may be closed already.
 */
final class AdapterPorts {
    private final String device;
    private final DeviceControl control;
    private final int count;
    private volatile @Nullable GidChoice chosen; // by the caller
    private volatile int preferred; // the port while no GID is chosen; 0: the first that is up
    private volatile @Nullable GidChoice used; // most recently
    // What the last queue pair got: most that come get the same, of many that stay open.
    private volatile @Nullable Port portBefore;
    private volatile Port.@Nullable GidEntry gidBefore;

    AdapterPorts(String device, DeviceControl control, int count) {
        this.device = device;
        this.control = control;
        this.count = count;
    }

    /** The choice of {@link #choose}, or null. */
    @Nullable GidChoice chosen() {
        return chosen;
    }

    /** The choice that was used last, or null. */
    @Nullable GidChoice used() {
        return used;
    }

    private PortAttributes query(int number) {
        PortAttributes port = control.queryPort(number);
        VerbenaException.check(port.error(), "ibv_query_port(" + device + ")", "");
        return port;
    }

    /** All ports with their GIDs. */
    List<Port> query() {
        List<PortAttributes> found = new ArrayList<>();
        for (int number = 1; number <= count; number++) {
            found.add(query(number));
        }
        List<GidTableEntry> gids = queryGids(found);
        List<Port> ports = new ArrayList<>();
        for (int i = 0; i < found.size(); i++) {
            int number = i + 1;
            ports.add(new Port(number, found.get(i), entriesOf(number, gids)));
        }
        return ports;
    }

    /** The GIDs of all ports, with their network interfaces. */
    List<GidTableEntry> queryGids() {
        List<PortAttributes> ports = new ArrayList<>();
        for (int number = 1; number <= count; number++) {
            ports.add(query(number));
        }
        return queryGids(ports);
    }

    private List<GidTableEntry> queryGids(List<PortAttributes> ports) {
        int atMost = 0;
        for (PortAttributes port : ports) {
            atMost += port.gidTableLength();
        }
        List<GidTableEntry> gids = new ArrayList<>();
        VerbenaException.check(
                control.queryGids(atMost, gids), "ibv_query_gid_table(" + device + ")", "");
        return gids;
    }

    private static List<Port.GidEntry> entriesOf(int port, List<GidTableEntry> gids) {
        List<Port.GidEntry> entries = new ArrayList<>();
        for (GidTableEntry entry : gids) {
            if (entry.port() == port) {
                entries.add(gidEntry(entry));
            }
        }
        return List.copyOf(entries);
    }

    private static Port.GidEntry gidEntry(GidTableEntry entry) {
        Port.GidType type =
                entry.roceV2()
                        ? Port.GidType.ROCE_V2
                        : entry.roceV1() ? Port.GidType.ROCE_V1 : Port.GidType.INFINIBAND;
        return new Port.GidEntry(entry.index(), new Gid(entry.high(), entry.low()), type);
    }

    private VerbenaException noPortIsUp() {
        return new VerbenaException(
                Status.CONNECTION_INVALID,
                "Device " + device + " has no port whose link is up (rdma link shows their state)");
    }

    /**
     * The port that a new queue pair uses, without its GIDs: the GID table takes one more system
     * call, and most queue pairs are connected by the connection manager, which does not need it.
     */
    Port portOf(@Nullable GidChoice choice) {
        if (choice != null) {
            return sharedPort(choice.port(), query(choice.port()));
        }
        int only = preferred;
        if (only != 0) {
            return sharedPort(only, query(only));
        }
        for (int number = 1; number <= count; number++) {
            PortAttributes port = query(number);
            if (port.active()) {
                return sharedPort(number, port);
            }
        }
        throw noPortIsUp();
    }

    private Port sharedPort(int number, PortAttributes attributes) {
        Port port = new Port(number, attributes, List.of());
        Port before = portBefore;
        if (before != null && before.equals(port)) {
            return before;
        }
        portBefore = port;
        return port;
    }

    /** The GID of a queue pair created now. */
    GidChoice gid() {
        return chosen == null ? gid(query()) : gid(List.of());
    }

    private GidChoice gid(List<Port> ports) {
        GidChoice now = chosen;
        if (now == null) {
            int only = preferred;
            Port port = only != 0 ? ports.get(only - 1) : firstActive(ports);
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

    private Port firstActive(List<Port> ports) {
        for (Port port : ports) {
            if (port.active()) {
                return port;
            }
        }
        throw noPortIsUp();
    }

    /** As {@link #gid}, of ports that were queried just now, but null if there is none. */
    @Nullable GidChoice gidIfAny(List<Port> ports) {
        try {
            return gid(ports);
        } catch (VerbenaException e) {
            return null;
        }
    }

    /** The preferred GID of a port, for a queue pair that was created without a chosen GID. */
    Port.GidEntry preferredGidOf(int port) {
        Port.GidEntry found = query().get(port - 1).preferredGid();
        Port.GidEntry before = gidBefore;
        if (before != null && before.says(found)) {
            return before;
        }
        gidBefore = found;
        return found;
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
    void choose(int port, int index, String reason) {
        Port.GidEntry entry =
                query().stream()
                        .filter(p -> p.number() == port)
                        .flatMap(p -> p.gids().stream())
                        .filter(g -> g.index() == index)
                        .findFirst()
                        .orElseThrow(
                                () ->
                                        new VerbenaException(
                                                Status.INVALID_PARAMETER,
                                                "Device %s has no GID %d on port %d (ibv_devinfo -v shows them)"
                                                        .formatted(device, index, port)));
        chosen = new GidChoice(port, entry, reason);
        used = chosen;
    }
}
