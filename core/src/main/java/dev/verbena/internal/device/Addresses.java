package dev.verbena.internal.device;

import dev.verbena.GidChoice;
import dev.verbena.Port;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;

/** Validates IP addresses for RDMA, and finds the local addresses to connect from. */
public final class Addresses {
    private Addresses() {}

    /**
     * Throws for addresses that cannot work, with an explanation, where the kernel only returns an
     * errno.
     */
    public static void check(Ports ports, InetSocketAddress address, String what) {
        Arguments.notNull(address, "address");
        if (address.isUnresolved()) {
            throw new VerbenaException(
                    Status.INVALID_ADDRESS,
                    "Cannot %s %s: the name was not found (InetSocketAddress resolves it in its constructor)"
                            .formatted(what, address));
        }
        InetAddress ip = address.getAddress();
        if (ip.isLoopbackAddress()) {
            List<InetAddress> own = own(ports);
            throw new VerbenaException(
                    Status.INVALID_ADDRESS,
                    "Cannot %s %s: RDMA does not run over the loopback interface, which no device belongs to. On this machine use an address of the device %s itself: %s"
                            .formatted(
                                    what,
                                    address,
                                    ports.device(),
                                    own.isEmpty() ? "it has none (ip address)" : list(own)));
        }
        if (lacksScope(ip)) {
            throw new VerbenaException(
                    Status.INVALID_ADDRESS,
                    "Cannot %s %s: a link-local address needs its network interface, as in %s%%eth0"
                            .formatted(what, address, ip.getHostAddress()));
        }
        if (what.startsWith("connect to") && (ip.isAnyLocalAddress() || address.getPort() == 0)) {
            throw new VerbenaException(
                    Status.INVALID_ADDRESS,
                    "Cannot connect to %s: specify an address and a port of the peer"
                            .formatted(address));
        }
    }

    static boolean lacksScope(InetAddress address) {
        return address instanceof Inet6Address six
                && six.isLinkLocalAddress()
                && six.getScopeId() == 0;
    }

    static String list(List<InetAddress> addresses) {
        return String.join(", ", addresses.stream().map(InetAddress::getHostAddress).toList());
    }

    /**
     * The local addresses to connect from, to be tried in order; null means the source address of
     * the route, which is the best choice. The device's own addresses follow, for the case that the
     * route uses another device than the one the caller has opened. They are looked for only then:
     * reading the tables of GIDs was a quarter of this library's part of a connection.
     */
    public static Iterator<@Nullable InetSocketAddress> sources(
            Ports ports, @Nullable InetSocketAddress named, InetSocketAddress peer) {
        boolean six = isIpv6(peer.getAddress());
        if (named != null) {
            check(ports, named, "connect from");
            if (isIpv6(named.getAddress()) != six) {
                throw new VerbenaException(
                        Status.INVALID_ADDRESS,
                        "Cannot connect from %s to %s: one is IPv4, the other IPv6"
                                .formatted(named, peer));
            }
            return List.<@Nullable InetSocketAddress>of(named).iterator();
        }
        if (ports.chosen() != null) {
            Port.GidEntry chosen = ports.gid().gid();
            if (chosen.type() != Port.GidType.INFINIBAND) { // whose GIDs are no IP addresses
                InetAddress address = chosen.gid().toInetAddress();
                return sources(ports, new InetSocketAddress(address, 0), peer);
            }
        }
        Stream<@Nullable InetSocketAddress> byRoute = Stream.of((InetSocketAddress) null);
        return Stream.<@Nullable InetSocketAddress>concat(
                        byRoute, Stream.of(ports).flatMap(of -> usable(of, six)))
                .iterator();
    }

    /** The addresses of the device that a peer of this family can be connected from. */
    private static Stream<InetSocketAddress> usable(Ports ports, boolean six) {
        try {
            return own(ports).stream()
                    .filter(own -> isIpv6(own) == six && !own.isLinkLocalAddress())
                    .map(own -> new InetSocketAddress(own, 0));
        } catch (VerbenaException e) {
            return Stream.empty(); // the route's failure is the one to report
        }
    }

    private static boolean isIpv6(InetAddress address) {
        return address instanceof Inet6Address;
    }

    /** The IP addresses of a device: its RoCE v2 GIDs, the chosen one first. */
    private static List<InetAddress> own(Ports ports) {
        List<InetAddress> own = new ArrayList<>();
        List<Port> found = ports.query();
        GidChoice chosen = ports.gidIfAny(found);
        if (chosen != null && chosen.gid().type() == Port.GidType.ROCE_V2) {
            own.add(chosen.gid().gid().toInetAddress());
        }
        for (Port port : found) {
            for (Port.GidEntry entry : port.gids()) {
                InetAddress address = entry.gid().toInetAddress();
                if (entry.type() == Port.GidType.ROCE_V2 && !own.contains(address)) {
                    own.add(address);
                }
            }
        }
        return own;
    }
}
