package dev.verbena.internal.device;

import dev.verbena.Gid;
import dev.verbena.Port;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.RouteLookup;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * Finds the device of an address of this machine, or of the route to a peer, and explains why there
 * is none.
 *
 * <p>The device of an address is the one that has it as a GID: on RoCE each address of a network
 * interface is one, also of its VLANs and bonds. The tables are read through verbs: one call, where
 * {@code /sys} has up to 1,024 files for each port. On InfiniBand and iWARP, GIDs are no IP
 * addresses; there {@code /sys} names the device of the network interface.
 */
public final class AddressLookup {
    /** Where the kernel has a folder for each network interface. */
    public static final Path INTERFACES = Path.of("/sys/class/net");

    private final Devices devices;
    private final Path interfaces;

    /** Creates a lookup; {@code interfaces} has a folder for each network interface. */
    public AddressLookup(Devices devices, Path interfaces) {
        this.devices = devices;
        this.interfaces = interfaces;
    }

    /** Opens the device that has an address, and chooses the address's GID. */
    public Device forAddress(InetAddress local) {
        Arguments.notNull(local, "local");
        String address = local.getHostAddress();
        if (local.isAnyLocalAddress()) {
            throw none("%s stands for all addresses: name one".formatted(address));
        }
        checkUsable(local, "use an address of a device");
        int on = devices.interfaceOf(local);
        if (on == 0) {
            throw none("%s is not an address of this machine (ip address)".formatted(address));
        }
        for (String name : devices.names()) {
            Device device = openIfItHas(local, on, name);
            if (device != null) {
                return device;
            }
        }
        String interfaceName = devices.nameOf(on);
        Device device = openDeviceOf(interfaceName);
        if (device == null) {
            throw none(
                    "%s is an address of %s, which no RDMA device uses"
                            .formatted(address, interfaceName));
        }
        return device;
    }

    /**
     * Opens the device that the route to a peer leads through.
     *
     * @throws VerbenaException if the connection manager finds no route
     */
    public Device forPeer(InetAddress remote, Duration deadline) {
        Arguments.notNull(remote, "remote");
        if (remote.isAnyLocalAddress()) {
            throw none("%s is not the address of a peer".formatted(remote.getHostAddress()));
        }
        checkUsable(remote, "a peer on this machine is reached by an address of a device");
        IdentifierInfo route;
        try {
            route = RouteLookup.find(devices.connections(), remote, deadline);
        } catch (VerbenaException e) {
            throw e.status() == Status.INVALID_ADDRESS ? none(throughNoDevice(remote)) : e;
        }
        Device device = devices.open(route.device());
        device.ports().prefer(route.port());
        return device;
    }

    private String throughNoDevice(InetAddress remote) {
        InetAddress source = devices.sourceTowards(remote);
        int by = source == null ? 0 : devices.interfaceOf(source);
        return source == null || by == 0
                ? "The route to %s leads through no RDMA device".formatted(remote.getHostAddress())
                : "The route to %s leads through %s (%s), which no RDMA device uses"
                        .formatted(
                                remote.getHostAddress(),
                                devices.nameOf(by),
                                source.getHostAddress());
    }

    private void checkUsable(InetAddress address, String instead) {
        if (address.isLoopbackAddress()) {
            throw none(
                    "%s is an address of the loopback interface, which no RDMA device uses: %s"
                            .formatted(address.getHostAddress(), instead));
        }
        if (Addresses.lacksScope(address)) {
            throw none(
                    "%1$s is link-local and needs its network interface, as in %1$s%%eth0"
                            .formatted(address.getHostAddress()));
        }
    }

    private @Nullable Device openIfItHas(InetAddress local, int on, String name) {
        Device device = null;
        boolean found = false;
        try {
            device = devices.open(name);
            found = useGid(device.ports(), local, on);
            return found ? device : null;
        } catch (VerbenaException e) {
            return null; // of another user, or removed meanwhile: the inventory reports it
        } finally {
            if (device != null && !found) {
                device.control().close();
            }
        }
    }

    /** Chooses the GID of an address, if the device has it on that interface. */
    private static boolean useGid(Ports ports, InetAddress local, int on) {
        Gid gid = Gid.of(local);
        Port.GidEntry best = null;
        for (Port.GidEntry entry : ports.queryGids()) {
            if (entry.gid().high() == gid.high()
                    && entry.gid().low() == gid.low()
                    && entry.networkInterface() == on
                    && (best == null || entry.type() == Port.GidType.ROCE_V2)) {
                best = entry;
            }
        }
        if (best == null) {
            return false;
        }
        if (local.isLinkLocalAddress()) { // connectors cannot bind that without an interface
            ports.prefer(best.port());
        } else {
            ports.choose(best);
        }
        return true;
    }

    /** Opens the device of a network interface of InfiniBand or iWARP. */
    private @Nullable Device openDeviceOf(String networkInterface) {
        Path folder = interfaces.resolve(networkInterface);
        List<String> found = Devices.entries(folder.resolve("device/infiniband"));
        if (found.isEmpty() || !devices.names().contains(found.getFirst())) {
            return null; // an interface without RDMA, or virtual
        }
        Device device = devices.open(found.getFirst());
        device.ports().prefer(portOf(folder));
        return device;
    }

    /** The port of a network interface, which the kernel counts from 0; 0 if it cannot be read. */
    private static int portOf(Path folder) {
        try {
            return Integer.parseInt(Files.readString(folder.resolve("dev_port")).strip()) + 1;
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }

    private VerbenaException none(String sentence) {
        List<String> places = new ArrayList<>();
        for (String name : devices.names()) {
            places.add(place(name));
        }
        return new VerbenaException(
                Status.INVALID_ADDRESS,
                sentence
                        + "; "
                        + (places.isEmpty() ? devices.whyNone() : String.join(", ", places)));
    }

    /** A device with its interfaces and addresses, for messages. */
    private String place(String name) {
        Set<String> on = new TreeSet<>();
        List<InetAddress> addresses = new ArrayList<>();
        try {
            Device device = devices.open(name);
            try {
                for (Port.GidEntry entry : device.ports().queryGids()) {
                    String networkInterface = devices.nameOf(entry.networkInterface());
                    if (!networkInterface.isEmpty()) {
                        on.add(networkInterface);
                    }
                    if (entry.type() == Port.GidType.ROCE_V2 && !entry.gid().isLinkLocal()) {
                        addresses.add(entry.gid().toInetAddress());
                    }
                }
            } finally {
                device.control().close();
            }
        } catch (VerbenaException e) {
            return "%s cannot be used: %s".formatted(name, e.getMessage());
        }
        return "%s is on %s (%s)"
                .formatted(
                        name,
                        on.isEmpty() ? "no interface" : String.join(", ", on),
                        addresses.isEmpty() ? "no address" : Addresses.list(addresses));
    }
}
