package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.Gid;
import dev.verbena.Port;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;

/** Which device a tool uses, and how it names addresses. */
final class ToolDevices {
    private ToolDevices() {}

    /**
     * Opens a device.
     *
     * @param name the one the user named, or null
     * @param local an address that it is to have if it was not named, or null
     * @return the named one; or the one with that address; or the first whose link is up
     */
    static Adapter open(String name, InetAddress local) {
        if (name != null) {
            return Adapter.open(name);
        }
        List<String> active = Adapter.activeNames();
        if (active.isEmpty()) {
            String none = Adapter.whyNone();
            throw new ToolFailure(
                    "%s. \"ci/roce run -- CMD\" runs a command where there are two, of Soft-RoCE",
                    none.isEmpty()
                            ? "No RDMA device here has its link up (\"rdma link\" shows all)"
                            : none);
        }
        for (String one : active) {
            Adapter adapter = Adapter.open(one);
            if (local != null && has(adapter, local)) {
                return adapter;
            }
            adapter.close();
        }
        return Adapter.open(active.getFirst());
    }

    private static boolean has(Adapter adapter, InetAddress address) {
        Gid gid = Gid.of(address);
        return adapter.ports().stream()
                .filter(Port::active)
                .flatMap(port -> port.gids().stream())
                .anyMatch(entry -> entry.gid().equals(gid));
    }

    /**
     * The local address from which the route to a peer leads, or null where none does. Sends
     * nothing.
     */
    static InetAddress localAddressTowards(InetAddress peer) {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(peer, 9));
            return socket.getLocalAddress();
        } catch (UncheckedIOException | IOException e) {
            return null; // connecting will say why
        }
    }

    static String describe(InetSocketAddress address) {
        InetAddress ip = address.getAddress();
        return "%s port %d"
                .formatted(
                        ip.isAnyLocalAddress() ? "any address," : ip.getHostAddress(),
                        address.getPort());
    }
}
