package dev.verbena;

import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.DeviceList;
import dev.verbena.internal.verbs.GidTableEntry;
import dev.verbena.internal.verbs.PortAttributes;
import dev.verbena.internal.verbs.RdmaCore;
import dev.verbena.internal.verbs.VerbsContext;

import java.util.ArrayList;
import java.util.List;

/**
 * An opened RDMA device: NDK's adapter, verbs' {@code ibv_context}.
 *
 * <p>May be used from any thread.
 */
public final class Adapter extends NativeObject {
    private final String name;
    private final VerbsContext context;
    private final DeviceAttributes attributes;

    private Adapter(String name, VerbsContext context, DeviceAttributes attributes) {
        this.name = name;
        this.context = context;
        this.attributes = attributes;
    }

    /**
     * The names of this machine's RDMA devices, as {@code ibv_devices} prints them.
     *
     * @return the names; empty on a machine without any
     * @throws VerbenaException when rdma-core is not installed, or its devices may not be looked at
     */
    public static List<String> names() {
        try (DeviceList devices = devices()) {
            return names(devices);
        }
    }

    /**
     * The names of those devices that have a port whose link is up. Opens each for a moment.
     *
     * @return the names; empty on a machine without any
     * @throws VerbenaException when rdma-core is not installed, or a device may not be opened
     */
    public static List<String> activeNames() {
        List<String> active = new ArrayList<>();
        for (String name : names()) {
            try (Adapter adapter = open(name)) {
                if (adapter.ports().stream().anyMatch(Port::active)) {
                    active.add(name);
                }
            }
        }
        return active;
    }

    /**
     * Opens a device (NDK: NdkOpenAdapter).
     *
     * @param name its name, one of {@link #names}
     * @return the opened device, to be closed by the caller
     * @throws VerbenaException when there is no such device, or it may not be opened
     */
    public static Adapter open(String name) {
        try (DeviceList devices = devices()) {
            int index = names(devices).indexOf(name);
            if (index < 0) {
                throw new VerbenaException(
                        Status.INVALID_PARAMETER,
                        "There is no RDMA device \"%s\" here; %s"
                                .formatted(name, inventory(devices)));
            }
            long opened =
                    VerbenaException.check(
                            devices.open(index),
                            "ibv_open_device(" + name + ")",
                            "The process needs read and write access to /dev/infiniband/uverbs*; in"
                                    + " a container, pass the device in (--device).");
            VerbsContext context = new VerbsContext(opened);
            DeviceAttributes attributes = context.queryDevice();
            if (attributes.error() < 0) {
                context.close();
                throw VerbenaException.of("ibv_query_device", attributes.error(), "");
            }
            return new Adapter(name, context, attributes);
        }
    }

    private static DeviceList devices() {
        String problem = RdmaCore.problemWithVerbs();
        if (!problem.isEmpty()) {
            throw new VerbenaException(Status.NOT_SUPPORTED, problem);
        }
        DeviceList devices = DeviceList.get();
        VerbenaException.check(devices.error(), "ibv_get_device_list", "");
        return devices;
    }

    private static List<String> names(DeviceList devices) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < devices.size(); i++) {
            names.add(devices.name(i));
        }
        return names;
    }

    private static String inventory(DeviceList devices) {
        return devices.size() == 0
                ? "the machine has none (a NIC without its driver, or a kernel without RDMA; for"
                        + " trying things out, rdma_rxe makes one of any network interface: rdma link"
                        + " add rxe0 type rxe netdev IFACE)"
                : "the machine has " + String.join(", ", names(devices));
    }

    /**
     * The device's name.
     *
     * @return as {@code ibv_devices} prints it
     */
    public String name() {
        return name;
    }

    /**
     * The device's ports, as they are now.
     *
     * @return in order of their numbers, from 1
     * @throws VerbenaException when the device does not answer
     */
    public List<Port> ports() {
        hold();
        try {
            return queryPorts();
        } finally {
            letGo();
        }
    }

    private List<Port> queryPorts() {
        List<PortAttributes> found = new ArrayList<>();
        for (int number = 1; number <= attributes.ports(); number++) {
            PortAttributes port = context.queryPort(number);
            VerbenaException.check(port.error(), "ibv_query_port(" + name + ")", "");
            found.add(port);
        }
        List<GidTableEntry> gids = new ArrayList<>();
        VerbenaException.check(
                context.queryGids(
                        found.stream().mapToInt(PortAttributes::gidTableLength).sum(), gids),
                "ibv_query_gid_table(" + name + ")",
                "");
        List<Port> ports = new ArrayList<>();
        for (int i = 0; i < found.size(); i++) {
            PortAttributes port = found.get(i);
            int number = i + 1;
            ports.add(
                    new Port(
                            number,
                            port.active(),
                            port.ethernet() ? Port.LinkLayer.ETHERNET : Port.LinkLayer.INFINIBAND,
                            VerbsContext.mtuBytes(port.activeMtu()),
                            port.maxMessage(),
                            port.lid(),
                            gids.stream()
                                    .filter(g -> g.port() == number)
                                    .map(Adapter::gidEntry)
                                    .toList()));
        }
        return ports;
    }

    private static Port.GidEntry gidEntry(GidTableEntry entry) {
        Port.GidType type =
                entry.roceV2()
                        ? Port.GidType.ROCE_V2
                        : entry.roceV1() ? Port.GidType.ROCE_V1 : Port.GidType.INFINIBAND;
        return new Port.GidEntry(entry.index(), new Gid(entry.high(), entry.low()), type);
    }

    /**
     * The first port whose link is up; for those who hold this adapter, which may be closed
     * already.
     */
    Port activePort() {
        return queryPorts().stream()
                .filter(Port::active)
                .findFirst()
                .orElseThrow(
                        () ->
                                new VerbenaException(
                                        Status.CONNECTION_INVALID,
                                        "Device "
                                                + name
                                                + " has no port whose link is up (rdma link shows"
                                                + " their state)"));
    }

    /**
     * Makes a protection domain (NdkCreatePd).
     *
     * @return a new one, to be closed by the caller
     * @throws VerbenaException when the device has no more
     */
    public ProtectionDomain createProtectionDomain() {
        return new ProtectionDomain(this);
    }

    /**
     * Makes a completion queue (NdkCreateCq).
     *
     * @param depth how many completions it has to hold: the depths of all queues that report to it,
     *     added up
     * @return a new one, to be closed by the caller
     * @throws VerbenaException when the depth is beyond the device, or the device has no more
     */
    public CompletionQueue createCompletionQueue(int depth) {
        return new CompletionQueue(this, depth);
    }

    VerbsContext context() {
        return context;
    }

    DeviceAttributes attributes() {
        return attributes;
    }

    @Override
    void destroy() {
        VerbenaException.check(context.close(), "ibv_close_device(" + name + ")", "");
    }

    @Override
    public String toString() {
        return "Adapter " + name;
    }
}
