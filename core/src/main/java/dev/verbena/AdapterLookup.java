package dev.verbena;

import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.connect.RouteLookup;
import dev.verbena.internal.text.Arguments;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.GidTableEntry;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Finds the device of an address of this machine, or of the route to a peer, and says why there is
 * none.
 *
 * <p>The device of an address is the one that has it as a GID: on RoCE each address of a network
 * interface is one, also of its VLANs and bonds. The tables are read through verbs: one call, where
 * {@code /sys} has up to 1,024 files for each port. On InfiniBand and iWARP, GIDs are no IP
 * addresses; there {@code /sys} says which device is behind the network interface.
 */
final class AdapterLookup {
    /** Where the kernel has a folder for each network interface. */
    static final Path INTERFACES = Path.of("/sys/class/net");

    /** The devices of this machine. */
    interface Devices {
        List<String> names();

        Adapter open(String name);

        /** Why there are none. */
        String whyNone();
    }

    /** What the lookup asks of the network. */
    interface Network {
        /** The interface with an address, or null if it is no address of this machine. */
        @Nullable Interface interfaceOf(InetAddress address);

        /** The name of an interface, or "" if there is none. */
        String name(int index);

        /** The local address of the route to a peer, or null if there is no route. */
        @Nullable InetAddress sourceTowards(InetAddress peer);
    }

    /** A network interface. */
    record Interface(int index, String name) {}

    /** A device and where it is, for messages. */
    private record Place(String device, Set<String> interfaces, List<InetAddress> addresses) {
        @Override
        public String toString() {
            String where =
                    interfaces.isEmpty()
                            ? "on no interface"
                            : "on " + String.join(", ", interfaces);
            return "%s is %s (%s)"
                    .formatted(device, where, addresses.isEmpty() ? "no address" : text(addresses));
        }

        private static String text(List<InetAddress> addresses) {
            return addresses.stream()
                    .map(InetAddress::getHostAddress)
                    .collect(Collectors.joining(", "));
        }
    }

    private final Devices devices;
    private final Network network;
    private final Path interfaces;

    AdapterLookup(Devices devices, Network network, Path interfaces) {
        this.devices = devices;
        this.network = network;
        this.interfaces = interfaces;
    }

    /** Opens the device that has an address, and chooses the address's GID. */
    Adapter forAddress(InetAddress local) {
        Arguments.notNull(local, "local");
        String address = local.getHostAddress();
        if (local.isAnyLocalAddress()) {
            throw none("%s stands for all addresses: name one".formatted(address));
        }
        checkUsable(local, "use an address of a device");
        Interface found = network.interfaceOf(local);
        if (found == null) {
            throw none("%s is not an address of this machine (ip address)".formatted(address));
        }
        Adapter adapter = withGid(local, found);
        if (adapter == null) {
            adapter = behind(found.name());
        }
        if (adapter == null) {
            throw none(
                    "%s is an address of %s, which no RDMA device uses"
                            .formatted(address, found.name()));
        }
        return adapter;
    }

    /** Opens the device that the route to a peer leads through. */
    Adapter forPeer(
            InetAddress remote, Supplier<ConnectionControl> connections, Duration deadline) {
        Arguments.notNull(remote, "remote");
        if (remote.isAnyLocalAddress()) {
            throw none("%s is not the address of a peer".formatted(remote.getHostAddress()));
        }
        checkUsable(remote, "a peer on this machine is reached by an address of a device");
        try {
            IdentifierInfo route = RouteLookup.find(connections.get(), remote, deadline);
            Adapter adapter = devices.open(route.device());
            adapter.portTable().prefer(route.port());
            return adapter;
        } catch (Failure f) {
            if (f.kind() == Failure.Kind.INVALID_ADDRESS) {
                throw none(throughNoDevice(remote));
            }
            throw VerbenaException.of(f);
        }
    }

    private String throughNoDevice(InetAddress remote) {
        InetAddress source = network.sourceTowards(remote);
        Interface by = source == null ? null : network.interfaceOf(source);
        return by == null || source == null
                ? "The route to %s leads through no RDMA device".formatted(remote.getHostAddress())
                : "The route to %s leads through %s (%s), which no RDMA device uses"
                        .formatted(remote.getHostAddress(), by.name(), source.getHostAddress());
    }

    private void checkUsable(InetAddress address, String instead) {
        if (address.isLoopbackAddress()) {
            throw none(
                    "%s is an address of the loopback interface, which no RDMA device uses: %s"
                            .formatted(address.getHostAddress(), instead));
        }
        if (address instanceof Inet6Address six
                && six.isLinkLocalAddress()
                && six.getScopeId() == 0) {
            throw none(
                    "%1$s is link-local and needs its network interface, as in %1$s%%eth0"
                            .formatted(address.getHostAddress()));
        }
    }

    private @Nullable Adapter withGid(InetAddress local, Interface on) {
        for (String name : devices.names()) {
            Adapter adapter = openIfItHas(local, on, name);
            if (adapter != null) {
                return adapter;
            }
        }
        return null;
    }

    private @Nullable Adapter openIfItHas(InetAddress local, Interface on, String name) {
        Adapter adapter = null;
        boolean found = false;
        try {
            adapter = devices.open(name);
            found = useGid(adapter, local, on);
            return found ? adapter : null;
        } catch (VerbenaException e) {
            return null; // of another user, or removed meanwhile: the inventory says so
        } finally {
            if (adapter != null && !found) {
                adapter.close();
            }
        }
    }

    /** Chooses the GID of an address, if the device has it on that interface. */
    private static boolean useGid(Adapter adapter, InetAddress local, Interface on) {
        Gid gid = Gid.of(local);
        GidTableEntry best = null;
        for (GidTableEntry entry : gids(adapter)) {
            if (entry.high() == gid.high()
                    && entry.low() == gid.low()
                    && entry.networkInterface() == on.index()
                    && (best == null || entry.roceV2())) {
                best = entry;
            }
        }
        if (best == null) {
            return false;
        }
        if (local.isLinkLocalAddress()) { // connectors cannot bind that without an interface
            adapter.portTable().prefer(best.port());
        } else {
            adapter.useGid(best.port(), best.index());
        }
        return true;
    }

    /** The device behind a network interface of InfiniBand or iWARP. */
    private @Nullable Adapter behind(String networkInterface) {
        Path folder = interfaces.resolve(networkInterface);
        String name;
        try (Stream<Path> found = Files.list(folder.resolve("device/infiniband"))) {
            name = found.map(f -> f.getFileName().toString()).sorted().findFirst().orElse("");
        } catch (IOException | UncheckedIOException e) {
            return null; // an interface without RDMA, or virtual
        }
        if (!devices.names().contains(name)) {
            return null;
        }
        Adapter adapter = devices.open(name);
        adapter.portTable().prefer(portBehind(folder));
        return adapter;
    }

    /** The port of a network interface, which the kernel counts from 0; 0 if it cannot be read. */
    private static int portBehind(Path folder) {
        try {
            return Integer.parseInt(Files.readString(folder.resolve("dev_port")).strip()) + 1;
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }

    private static List<GidTableEntry> gids(Adapter adapter) {
        adapter.acquire();
        try {
            return adapter.portTable().queryGids();
        } finally {
            adapter.release();
        }
    }

    private VerbenaException none(String sentence) {
        return new VerbenaException(Status.INVALID_ADDRESS, sentence + "; " + inventory());
    }

    private String inventory() {
        List<String> names = devices.names();
        return names.isEmpty()
                ? devices.whyNone()
                : names.stream().map(this::place).collect(Collectors.joining(", "));
    }

    private String place(String name) {
        try (Adapter adapter = devices.open(name)) {
            Set<String> on = new TreeSet<>();
            List<InetAddress> addresses = new ArrayList<>();
            for (GidTableEntry entry : gids(adapter)) {
                String networkInterface = network.name(entry.networkInterface());
                if (!networkInterface.isEmpty()) {
                    on.add(networkInterface);
                }
                Gid gid = new Gid(entry.high(), entry.low());
                if (entry.roceV2() && !gid.isLinkLocal()) {
                    addresses.add(gid.toInetAddress());
                }
            }
            return new Place(name, on, addresses).toString();
        } catch (VerbenaException e) {
            return "%s cannot be used: %s".formatted(name, e.getMessage());
        }
    }
}
