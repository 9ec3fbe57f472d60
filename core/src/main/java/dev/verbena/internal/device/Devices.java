package dev.verbena.internal.device;

import dev.verbena.Port;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.DeviceList;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Libraries;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * The RDMA devices of this machine, as libibverbs lists them, and its network interfaces. Tests of
 * {@link AddressLookup} override the methods to describe another machine.
 */
public class Devices {
    private static final int DISCARD = 9; // any port: connecting a UDP socket sends nothing

    /** The names that {@code ibv_devices} prints. */
    public List<String> names() {
        try (DeviceList devices = list()) {
            return names(devices);
        }
    }

    /** The names of those devices that have a port whose link is up. */
    public List<String> activeNames() {
        List<String> active = new ArrayList<>();
        for (String name : names()) {
            Device device = open(name);
            try {
                if (device.ports().query().stream().anyMatch(Port::active)) {
                    active.add(name);
                }
            } finally {
                device.control().close();
            }
        }
        return active;
    }

    public Device open(String name) {
        try (DeviceList devices = list()) {
            int index = names(devices).indexOf(name);
            if (index < 0) {
                throw new VerbenaException(
                        Status.INVALID_PARAMETER,
                        "There is no RDMA device \"%s\" here; %s"
                                .formatted(
                                        name,
                                        devices.size() == 0
                                                ? whyNone(KNOWN_TO_KERNEL, FILES)
                                                : "there are "
                                                        + String.join(", ", names(devices))));
            }
            long opened =
                    Errno.check(
                            devices.open(index),
                            "ibv_open_device(" + name + ")",
                            "The process needs read and write access to /dev/infiniband/uverbs*; in"
                                    + " a container, pass the device in (--device).");
            return new Device(name, new DeviceControl(opened), this::connections);
        }
    }

    /** Opens the connection manager of rdma-core. */
    public ConnectionControl connections() {
        Errno.check(Libraries.exhausted(), "rdma_create_event_channel", "");
        check(Libraries.problemWithConnections());
        return new ConnectionControl();
    }

    private static DeviceList list() {
        Errno.check(Libraries.exhausted(), "ibv_get_device_list", "");
        check(Libraries.problemWithVerbs());
        DeviceList devices = DeviceList.get();
        Errno.check(devices.error(), "ibv_get_device_list", "");
        return devices;
    }

    private static void check(String problem) {
        if (!problem.isEmpty()) {
            throw new VerbenaException(Status.NOT_SUPPORTED, problem);
        }
    }

    private static List<String> names(DeviceList devices) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < devices.size(); i++) {
            names.add(devices.name(i));
        }
        return names;
    }

    // ---- why there are none

    private static final Path KNOWN_TO_KERNEL = Path.of("/sys/class/infiniband");
    private static final Path FILES = Path.of("/dev/infiniband");

    /** Explains why {@link #names} is empty; "" if it is not. */
    public String whyNone() {
        return names().isEmpty() ? "No RDMA device: " + whyNone(KNOWN_TO_KERNEL, FILES) : "";
    }

    /**
     * Explains why libibverbs lists no device: it omits devices whose file in /dev/infiniband is
     * missing, and devices for which it finds no provider.
     */
    static String whyNone(Path knownToKernel, Path files) {
        List<String> known = entries(knownToKernel);
        if (known.isEmpty()) {
            return "the kernel has none here (a NIC without its driver, a kernel without RDMA, or devices that belong to another network namespace; for experiments, rdma_rxe makes one out of any network interface: rdma link add rxe0 type rxe netdev IFACE)";
        }
        return "the kernel has %s, but %s"
                .formatted(
                        String.join(", ", known),
                        entries(files).stream().anyMatch(file -> file.startsWith("uverbs"))
                                ? "libibverbs has no provider for what this process was given (Debian: apt install ibverbs-providers)"
                                : "this process was given none of their files /dev/infiniband/uverbs* (docker run --device /dev/infiniband/uverbs0 --device /dev/infiniband/rdma_cm; outside of containers: modprobe ib_uverbs)");
    }

    /** The sorted names of the files of a folder; empty if it does not exist. */
    static List<String> entries(Path folder) {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(entry -> entry.getFileName().toString()).sorted().toList();
        } catch (IOException | UncheckedIOException e) {
            return List.of();
        }
    }

    // ---- network interfaces

    /** The index of the interface with an address; 0 if it is no address of this machine. */
    protected int interfaceOf(InetAddress address) {
        try {
            NetworkInterface found = NetworkInterface.getByInetAddress(address);
            return found == null ? 0 : found.getIndex();
        } catch (SocketException e) {
            return 0;
        }
    }

    /** The name of an interface, or "" if there is none. */
    protected String nameOf(int networkInterface) {
        try {
            NetworkInterface found =
                    networkInterface == 0 ? null : NetworkInterface.getByIndex(networkInterface);
            return found == null ? "" : found.getName();
        } catch (SocketException e) {
            return "";
        }
    }

    /** The local address of the route to a peer, or null if there is no route. */
    protected @Nullable InetAddress sourceTowards(InetAddress peer) {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(peer, DISCARD));
            return socket.getLocalAddress();
        } catch (IOException | UncheckedIOException e) {
            return null;
        }
    }
}
