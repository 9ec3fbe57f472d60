package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.Port;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;

/** Which device a tool uses, and how it names addresses. */
final class ToolDevices {
    private ToolDevices() {}

    /**
     * Opens the device that a server uses.
     *
     * @param name the one the user named, or null
     * @param local an address that it is to have if it was not named, or null
     * @return the named one; or the one with that address; or the first whose link is up
     */
    static Adapter forServer(String name, InetAddress local) {
        if (name != null) {
            return Adapter.open(name);
        }
        String first = firstActive();
        return local == null || local.isAnyLocalAddress()
                ? Adapter.open(first)
                : Adapter.forAddress(local);
    }

    /**
     * Opens the device that a client uses.
     *
     * @param name the one the user named, or null
     * @param local the address to connect from, or null
     * @param server the address to connect to
     * @return the named one; or the one with that local address; or the one that the route leads to
     */
    static Adapter forClient(String name, InetAddress local, InetAddress server) {
        if (name != null || local != null) {
            return forServer(name, local);
        }
        firstActive(); // without any device, that is the answer
        return Adapter.forPeer(server);
    }

    private static String firstActive() {
        List<String> active = Adapter.activeNames();
        if (active.isEmpty()) {
            String none = Adapter.whyNone();
            throw new ToolFailure(
                    "%s. \"ci/roce run -- CMD\" runs a command where there are two, of Soft-RoCE",
                    none.isEmpty()
                            ? "No RDMA device here has its link up (\"rdma link\" shows all)"
                            : none);
        }
        return active.getFirst();
    }

    /**
     * Connects from the address of an entry of the GID table: rdma_cm finds the GID by the address.
     *
     * @throws ToolFailure when the entry is not one that rdma_cm could find
     */
    static void useGid(Adapter adapter, int index) {
        int port = adapter.gid().port();
        adapter.useGid(port, index);
        Port.GidEntry entry = adapter.gid().gid();
        if (entry.type() == Port.GidType.INFINIBAND) {
            throw new ToolFailure(
                    "On InfiniBand, connections find the GID by the address of an IPoIB interface:"
                            + " choose that with --from, instead of --gid-index %d",
                    index);
        }
        if (entry.type() == Port.GidType.ROCE_V1) {
            throw new ToolFailure(
                    "GID %d of %s is one of RoCE v1, and connections by rdma_cm use RoCE v2: choose the"
                            + " index of the RoCE v2 entry with that address (\"verbena devices\" lists"
                            + " them)",
                    index, adapter.name());
        }
        if (entry.gid().isLinkLocal()) {
            throw new ToolFailure(
                    "GID %d of %s is link-local, and connections need an address that is valid beyond"
                            + " its link: choose another index (\"verbena devices\" lists them)",
                    index, adapter.name());
        }
    }

    /** An address and a port as JSON, in two fields. */
    static void put(Map<String, Object> all, String name, InetSocketAddress address) {
        all.put(name, address.getAddress().getHostAddress());
        all.put(name + "_port", address.getPort());
    }

    static String describe(InetSocketAddress address) {
        InetAddress ip = address.getAddress();
        return "%s port %d"
                .formatted(
                        ip.isAnyLocalAddress() ? "any address," : ip.getHostAddress(),
                        address.getPort());
    }
}
