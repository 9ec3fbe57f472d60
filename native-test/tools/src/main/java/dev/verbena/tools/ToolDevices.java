package dev.verbena.tools;

import dev.verbena.Adapter;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;

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

    static String describe(InetSocketAddress address) {
        InetAddress ip = address.getAddress();
        return "%s port %d"
                .formatted(
                        ip.isAnyLocalAddress() ? "any address," : ip.getHostAddress(),
                        address.getPort());
    }
}
