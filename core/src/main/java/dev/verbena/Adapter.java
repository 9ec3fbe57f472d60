package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.connect.ConnectionEvents;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.queue.SharedQueues;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.DeviceList;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.GidTableEntry;
import dev.verbena.internal.verbs.LibraryConnections;
import dev.verbena.internal.verbs.LibraryControl;
import dev.verbena.internal.verbs.PortAttributes;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.RdmaCore;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * An opened RDMA device: NDK's adapter, verbs' {@code ibv_context}.
 *
 * <p>May be used from any thread.
 */
public final class Adapter extends NativeObject {
    private final String name;
    private final DeviceControl control;
    private final Function<Provider, VerbsContext> dataPath;
    private final DeviceAttributes attributes;
    private final Provider provider;
    private final SharedQueues sharedQueues = new SharedQueues();
    private final Supplier<ConnectionControl> connections;
    private volatile @Nullable GidChoice chosen; // by the caller
    private volatile @Nullable GidChoice used; // last
    private final Object connectionLock = new Object();
    private @Nullable ConnectionEvents connectionEvents; // made when first needed, under that lock
    private @Nullable AdapterEvents events; // all made when first needed, under this object's lock
    private @Nullable AdapterInfo info;
    private @Nullable VerbsContext context;

    /**
     * Takes over an opened device; closes it when it does not answer.
     *
     * @param name the device's name
     * @param control its control calls
     * @param context its data path
     */
    Adapter(String name, DeviceControl control, VerbsContext context) {
        this(name, control, context, Adapter::connectionControl);
    }

    /**
     * Takes over an opened device; closes it when it does not answer.
     *
     * @param name the device's name
     * @param control its control calls
     * @param context its data path
     * @param connections the connection manager, asked for when first needed
     */
    Adapter(
            String name,
            DeviceControl control,
            VerbsContext context,
            Supplier<ConnectionControl> connections) {
        this(name, control, provider -> context, connections);
    }

    private Adapter(
            String name,
            DeviceControl control,
            Function<Provider, VerbsContext> dataPath,
            Supplier<ConnectionControl> connections) {
        this.dataPath = dataPath;
        this.connections = connections;
        this.name = name;
        this.control = control;
        this.attributes = control.queryDevice();
        if (attributes.error() < 0) {
            control.close();
            throw VerbenaException.of("ibv_query_device", attributes.error(), "");
        }
        this.provider = Provider.of(attributes.vendorId(), attributes.vendorPartId());
    }

    /**
     * The names of this machine's RDMA devices, as {@code ibv_devices} prints them.
     *
     * @return the names; empty without any, see {@link #whyNone}
     * @throws VerbenaException when rdma-core is not installed, or its devices may not be looked at
     */
    @CheckReturnValue
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
    @CheckReturnValue
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
    @CheckReturnValue
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
            return new Adapter(
                    name,
                    new LibraryControl(opened),
                    provider -> new VerbsContext(opened).heeding(provider.throughKernel()),
                    Adapter::connectionControl);
        }
    }

    private static ConnectionControl connectionControl() {
        VerbenaException.check(RdmaCore.exhausted(), "rdma_create_event_channel", "");
        String problem = RdmaCore.problemWithConnections();
        if (!problem.isEmpty()) {
            throw new VerbenaException(Status.NOT_SUPPORTED, problem);
        }
        return new LibraryConnections();
    }

    private static DeviceList devices() {
        VerbenaException.check(RdmaCore.exhausted(), "ibv_get_device_list", "");
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
                ? WithoutDevices.reason()
                : "there are " + String.join(", ", names(devices));
    }

    /**
     * Why {@link #names} is empty, as far as it can be told: a kernel that has no device, or one
     * whose devices were not given to this process, as happens in containers.
     *
     * @return a sentence for those who run this program; "" when there are devices
     * @throws VerbenaException when rdma-core is not installed, or its devices may not be looked at
     */
    public static String whyNone() {
        try (DeviceList devices = devices()) {
            return devices.size() == 0 ? "No RDMA device: " + WithoutDevices.reason() : "";
        }
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

    private PortAttributes queryPort(int number) {
        PortAttributes port = control.queryPort(number);
        VerbenaException.check(port.error(), "ibv_query_port(" + name + ")", "");
        return port;
    }

    private List<Port> queryPorts() {
        List<PortAttributes> found = new ArrayList<>();
        for (int number = 1; number <= attributes.ports(); number++) {
            found.add(queryPort(number));
        }
        List<GidTableEntry> gids = new ArrayList<>();
        VerbenaException.check(
                control.queryGids(
                        found.stream().mapToInt(PortAttributes::gidTableLength).sum(), gids),
                "ibv_query_gid_table(" + name + ")",
                "");
        List<Port> ports = new ArrayList<>();
        for (int i = 0; i < found.size(); i++) {
            int number = i + 1;
            ports.add(
                    port(
                            number,
                            found.get(i),
                            gids.stream()
                                    .filter(g -> g.port() == number)
                                    .map(Adapter::gidEntry)
                                    .toList()));
        }
        return ports;
    }

    private static Port port(int number, PortAttributes port, List<Port.GidEntry> gids) {
        return new Port(
                number,
                port.active(),
                port.ethernet() ? Port.LinkLayer.ETHERNET : Port.LinkLayer.INFINIBAND,
                VerbsContext.mtuBytes(port.activeMtu()),
                port.maxMessage(),
                port.lid(),
                gids);
    }

    private static Port.GidEntry gidEntry(GidTableEntry entry) {
        Port.GidType type =
                entry.roceV2()
                        ? Port.GidType.ROCE_V2
                        : entry.roceV1() ? Port.GidType.ROCE_V1 : Port.GidType.INFINIBAND;
        return new Port.GidEntry(entry.index(), new Gid(entry.high(), entry.low()), type);
    }

    private Port firstActive(List<Port> ports) {
        for (Port port : ports) {
            if (port.active()) {
                return port;
            }
        }
        throw noPortIsUp();
    }

    private VerbenaException noPortIsUp() {
        return new VerbenaException(
                Status.CONNECTION_INVALID,
                "Device " + name + " has no port whose link is up (rdma link shows their state)");
    }

    /**
     * The port that a queue pair made now uses, but for its GIDs: most queue pairs are connected by
     * the connection manager, which knows them, and the table is one more system call. For those
     * who hold this adapter, which may be closed already.
     */
    Port portOf(@Nullable GidChoice choice) {
        if (choice != null) {
            return port(choice.port(), queryPort(choice.port()), List.of());
        }
        for (int number = 1; number <= attributes.ports(); number++) {
            PortAttributes port = queryPort(number);
            if (port.active()) {
                return port(number, port, List.of());
            }
        }
        throw noPortIsUp();
    }

    /** What {@link #useGid} chose, or null. */
    @Nullable GidChoice chosenGid() {
        return chosen;
    }

    /** For those who hold this adapter, which may be closed already. */
    List<Port> portsForHolders() {
        return queryPorts();
    }

    /**
     * The GID that queue pairs of this adapter have, and why: that of {@link #useGid}, or else the
     * {@link Port#preferredGid} of the first port whose link is up.
     *
     * @return the choice, as a queue pair made now would have it
     * @throws VerbenaException when no port is up, or it has no GID
     */
    public GidChoice gid() {
        hold();
        try {
            return gidForHolders();
        } finally {
            letGo();
        }
    }

    /** For those who hold this adapter, which may be closed already. */
    GidChoice gidForHolders() {
        GidChoice now = chosen;
        if (now == null) {
            Port port = firstActive(queryPorts());
            now =
                    new GidChoice(
                            port.number(),
                            port.preferredGid(),
                            "RoCE v2 before v1, IPv4 before IPv6, link-local last, of %d on the first port that is up"
                                    .formatted(port.gids().size()));
        }
        used = now;
        return now;
    }

    /** The GID of a queue pair on a port, for which none was chosen when it was made. */
    Port.GidEntry preferredGidOf(int port) {
        return queryPorts().get(port - 1).preferredGid();
    }

    /** The same, or null where there is none. */
    @Nullable GidChoice gidIfAny() {
        try {
            return gidForHolders();
        } catch (VerbenaException e) {
            return null;
        }
    }

    /**
     * Chooses the GID of queue pairs made from now on, and the address that connectors connect
     * from.
     *
     * @param port the port's number, from 1
     * @param index the GID's place in the port's table, as {@code ibv_devinfo -v} and {@link
     *     #ports} show it
     * @throws VerbenaException INVALID_PARAMETER when there is none in that place
     */
    public void useGid(int port, int index) {
        Port.GidEntry entry =
                ports().stream()
                        .filter(p -> p.number() == port)
                        .flatMap(p -> p.gids().stream())
                        .filter(g -> g.index() == index)
                        .findFirst()
                        .orElseThrow(
                                () ->
                                        new VerbenaException(
                                                Status.INVALID_PARAMETER,
                                                "Device %s has no GID %d on port %d (ibv_devinfo -v shows them)"
                                                        .formatted(name, index, port)));
        chosen = new GidChoice(port, entry, "chosen by useGid");
        used = chosen;
    }

    /**
     * Listens for peers that connect (NdkCreateListener and NdkListen).
     *
     * @param address one of this adapter's device, with a port, or port 0 for any; or the wildcard
     *     address, for all addresses of the device: it takes the port on all devices of the
     *     machine, and peers that come by another device are refused
     * @param backlog how many requests may be unanswered, further ones are refused; 0 for a usual
     *     number, 128. One whose peer has given up counts until it is answered or closed, for 70 s
     *     at most: the kernel does not tell
     * @param handler gets each request, on one of up to 16 threads of the listener; is to
     *     {@linkplain Connector#accept accept} or {@linkplain Connector#reject reject} it, now or
     *     later. When it throws, the request is refused. May wait, and close what it likes
     * @return the listener, to be closed by the caller
     * @throws VerbenaException SHARING_VIOLATION when somebody listens on that address,
     *     INVALID_ADDRESS when the device does not have it
     */
    @CheckReturnValue
    public Listener listen(InetSocketAddress address, int backlog, Consumer<Connector> handler) {
        return new Listener(this, address, backlog, Objects.requireNonNull(handler, "handler"));
    }

    /**
     * Listens for peers that connect, with threads of the caller's: for handlers that serve their
     * connections before they return, more than 16 at a time.
     *
     * @param address as in {@link #listen(InetSocketAddress, int, Consumer)}
     * @param backlog as there
     * @param executor runs the handler for each request. Must not run it on the calling thread,
     *     which brings all of this adapter's events; a request that it rejects is refused
     * @param handler gets each request, as there
     * @return the listener, to be closed by the caller
     * @throws VerbenaException as there
     */
    @CheckReturnValue
    public Listener listen(
            InetSocketAddress address,
            int backlog,
            Executor executor,
            Consumer<Connector> handler) {
        return new Listener(
                this,
                address,
                backlog,
                Objects.requireNonNull(executor, "executor"),
                Objects.requireNonNull(handler, "handler"));
    }

    /**
     * Makes a connector, to connect to a peer that listens (NdkCreateConnector).
     *
     * @return a new one, to be closed by the caller
     * @throws VerbenaException NOT_SUPPORTED when librdmacm is not installed; ACCESS_VIOLATION or
     *     others when the connection manager may not be used
     */
    @CheckReturnValue
    public Connector createConnector() {
        return new Connector(this);
    }

    /**
     * Makes an address that several connectors connect from (NdkCreateSharedEndpoint).
     *
     * @param address one of this adapter's device, with a port, or port 0 for any
     * @return a new one, to be closed by the caller
     * @throws VerbenaException SHARING_VIOLATION when the address is in use, INVALID_ADDRESS when
     *     the device does not have it
     */
    @CheckReturnValue
    public SharedEndpoint createSharedEndpoint(InetSocketAddress address) {
        return new SharedEndpoint(this, address);
    }

    /**
     * Makes a protection domain (NdkCreatePd).
     *
     * @return a new one, to be closed by the caller
     * @throws VerbenaException when the device has no more
     */
    @CheckReturnValue
    public ProtectionDomain createProtectionDomain() {
        return new ProtectionDomain(this);
    }

    /**
     * What the device can do (NdkQueryAdapterInfo). Tries it out when asked first, on objects that
     * are gone when this returns.
     *
     * @return limits that hold together, and capabilities
     * @throws VerbenaException when the device does not answer
     */
    @CheckReturnValue
    public AdapterInfo info() {
        hold();
        try {
            return queryInfo();
        } finally {
            letGo();
        }
    }

    /** For those who hold this adapter, which may be closed already. */
    synchronized AdapterInfo queryInfo() {
        if (info == null) {
            List<Port> ports = queryPorts();
            info =
                    new AdapterInfo(
                            name,
                            attributes,
                            provider,
                            ports,
                            AdapterProbe.probe(control, attributes));
        }
        return info;
    }

    /**
     * Makes a completion queue that is polled, or armed and waited for by a thread of the caller's
     * (NdkCreateCq).
     *
     * @param depth how many completions it has to hold: the depths of all queues that report to it,
     *     added up
     * @return a new one, to be closed by the caller
     * @throws VerbenaException when the depth is beyond the device, or the device has no more
     */
    @CheckReturnValue
    public CompletionQueue createCompletionQueue(int depth) {
        return new CompletionQueue(this, depth, null);
    }

    /**
     * Makes a completion queue that belongs to the current thread, with every queue pair that
     * reports to it: they take no lock, which makes posts and polls faster.
     *
     * <p>Only that thread may create those queue pairs, post to them, bind and invalidate windows
     * on them, close them, and poll, arm, await and close this queue; another one gets a {@link
     * WrongThreadException}, and nothing has changed. Once the thread has ended, another may close
     * them. From any thread: {@link QueuePair#flush}, connecting and disconnecting, and whatever
     * only asks. What other threads and the network do to such a queue pair (a peer's disconnect, a
     * flush, an overrun) takes effect for posts at once; what is left to do, as posting deferred
     * requests, the owner does in its next poll, arm, await or post.
     *
     * @param depth how many completions it has to hold: the depths of all queues that report to it,
     *     added up
     * @return a new one, to be closed by the current thread
     * @throws VerbenaException when the depth is beyond the device, or the device has no more
     */
    public CompletionQueue createConfinedCompletionQueue(int depth) {
        return CompletionQueue.confined(this, depth);
    }

    /**
     * Makes a completion queue that calls back when it is armed (NdkCreateCq with
     * NDK_FN_CQ_NOTIFICATION_CALLBACK).
     *
     * @param depth how many completions it has to hold: the depths of all queues that report to it,
     *     added up
     * @param callback called once for each {@link CompletionQueue#arm}, by a thread of this queue's
     *     own, one call after the other: with SUCCESS, with BUFFER_OVERFLOW when the queue overran,
     *     or with INTERNAL_ERROR when the device failed. It may close what it likes.
     * @return a new one, to be closed by the caller
     * @throws VerbenaException when the depth is beyond the device, or the device has no more
     */
    @CheckReturnValue
    public CompletionQueue createCompletionQueue(int depth, Consumer<Status> callback) {
        return new CompletionQueue(this, depth, Objects.requireNonNull(callback, "callback"));
    }

    DeviceControl control() {
        return control;
    }

    /**
     * The data path, for what is about to make a queue: not before, as the JIT has constants for
     * the provider that is the first to come by here.
     */
    synchronized VerbsContext context() {
        if (context == null) {
            context = dataPath.apply(provider);
        }
        return context;
    }

    Provider provider() {
        return provider;
    }

    DeviceAttributes attributes() {
        return attributes;
    }

    SharedQueues sharedQueues() {
        return sharedQueues;
    }

    /** The event loop, with its thread; for those who hold this adapter. */
    synchronized AdapterEvents events() {
        if (events == null) {
            events = new AdapterEvents(name, control, VerbenaException::of);
        }
        return events;
    }

    /** The events of rdma_cm, which the event thread handles; for those who hold this adapter. */
    ConnectionEvents connectionEvents() {
        AdapterEvents loop = events();
        synchronized (connectionLock) {
            if (connectionEvents == null) {
                try {
                    connectionEvents = new ConnectionEvents(connections.get(), loop.timers());
                } catch (Failure f) {
                    throw VerbenaException.of(f);
                }
                loop.attach(connectionEvents);
            }
            return connectionEvents;
        }
    }

    /** Whether the device said that it is of no use any more, as when it is removed. */
    synchronized boolean failed() {
        return events != null && events.deviceFailed();
    }

    /**
     * Whether the device is gone: it said so, or does not answer any more. The kernel has then
     * destroyed all that was made on it, and answers EIO to whoever asks for that.
     */
    boolean gone() {
        return failed() || control.queryDevice().error() == -Errno.EIO;
    }

    @Override
    void destroy() {
        AdapterEvents running;
        synchronized (this) {
            running = events;
        }
        Teardown end = new Teardown(this, this);
        if (running != null) {
            end.run(() -> stop(running));
        }
        end.check(control.close(), "ibv_close_device(" + name + ")");
        end.finish();
    }

    private static void stop(AdapterEvents running) {
        if (!running.stop()) {
            throw VerbenaException.stillRunning(
                    "the adapter's event thread", AdapterEvents.TIMEOUT);
        }
    }

    @Override
    String describe() {
        GidChoice last = used;
        return "Adapter " + name + (last == null ? "" : ", " + last);
    }
}
