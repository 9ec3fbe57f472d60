package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.connect.ConnectionEvents;
import dev.verbena.internal.device.AddressLookup;
import dev.verbena.internal.device.Device;
import dev.verbena.internal.device.Devices;
import dev.verbena.internal.queue.QueueDevice;
import dev.verbena.internal.queue.Quirks;
import dev.verbena.internal.queue.SharedQueues;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * An opened RDMA device: NDK's adapter, verbs' {@code ibv_context}. All other objects are created
 * from it, directly or not:
 *
 * {@snippet file="dev/verbena/examples/Hello.java" region="objects"}
 *
 * <p>May be used from any thread.
 */
public final class Adapter extends NativeObject {
    private static final Duration ROUTE_DEADLINE = Duration.ofSeconds(10);

    private static final Devices DEVICES = new Devices();

    private final Device device;
    private final SharedQueues sharedQueues = new SharedQueues();
    private volatile @Nullable QueueDevice queueDevice; // null until the first queue
    private final Quirks quirks;

    Adapter(Device device) {
        this.device = device;
        this.quirks = Quirks.of(device.provider(), device::events);
    }

    /**
     * The names of this machine's RDMA devices, as {@code ibv_devices} prints them.
     *
     * @return the names; empty if there are none, see {@link #whyNone}
     * @throws VerbenaException when rdma-core is not installed, or its devices cannot be listed
     */
    @CheckReturnValue
    public static List<String> names() {
        return DEVICES.names();
    }

    /**
     * The names of those devices that have a port whose link is up. Opens and closes each device.
     *
     * @return the names; empty if there are none
     * @throws VerbenaException when rdma-core is not installed, or a device may not be opened
     */
    @CheckReturnValue
    public static List<String> activeNames() {
        return DEVICES.activeNames();
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
        return new Adapter(DEVICES.open(Arguments.notNull(name, "name")));
    }

    /**
     * Opens the device that has a given address of this machine. Queue pairs and connectors of the
     * adapter use that address, as if {@link #useGid} had chosen it. Where that is not possible (on
     * InfiniBand, whose GIDs are no IP addresses, and for a link-local address, which has no
     * meaning without its interface) queue pairs use the port that the address belongs to.
     *
     * @param local an address of a device's network interface, or of a VLAN or bond on it (not of a
     *     bridge); a link-local one with its scope, as in {@code fe80::1%eth0}
     * @return the opened device, to be closed by the caller
     * @throws VerbenaException INVALID_ADDRESS if no device has it; the message names the interface
     *     that has it, and all devices with their addresses
     */
    @CheckReturnValue
    public static Adapter forAddress(InetAddress local) {
        return new Adapter(lookup().forAddress(local));
    }

    /**
     * Opens the device that the route to a peer leads through, within ten seconds; see {@link
     * #forPeer(InetAddress, Duration)}.
     *
     * @param remote the peer's address
     * @return the opened device, to be closed by the caller
     * @throws VerbenaException as for {@link #forPeer(InetAddress, Duration)}
     */
    @CheckReturnValue
    public static Adapter forPeer(InetAddress remote) {
        return forPeer(remote, ROUTE_DEADLINE);
    }

    /**
     * Opens the device that the route to a peer leads through. The connection manager finds it
     * ({@code rdma_resolve_addr}), so a connection to the peer will use the same device and port.
     * Queue pairs that are connected by address use that port, too, unless {@link #useGid} chooses
     * another; connectors of the adapter use the source address of the route. The peer's host has
     * to be up, as its link-layer address has to be resolved. For an address of this machine, the
     * result is the device that has it.
     *
     * @param remote the peer's address; a link-local one with its scope
     * @param deadline how long to wait for the answer at most
     * @return the opened device, to be closed by the caller
     * @throws VerbenaException INVALID_ADDRESS if the route leads through an interface without a
     *     device; the message names that interface, and all devices with their addresses;
     *     HOST_UNREACHABLE or NETWORK_UNREACHABLE if there is no route; IO_TIMEOUT after the
     *     deadline; NOT_SUPPORTED or ACCESS_VIOLATION without the connection manager
     */
    @CheckReturnValue
    public static Adapter forPeer(InetAddress remote, Duration deadline) {
        return new Adapter(lookup().forPeer(remote, deadline));
    }

    private static AddressLookup lookup() {
        return new AddressLookup(DEVICES, AddressLookup.INTERFACES);
    }

    /**
     * Explains why {@link #names} is empty, if the reason can be found: the kernel has no device,
     * or this process has no access to its devices, as in a container.
     *
     * @return a sentence for the user of the program; "" if there are devices
     * @throws VerbenaException when rdma-core is not installed, or its devices cannot be listed
     */
    public static String whyNone() {
        return DEVICES.whyNone();
    }

    /**
     * The device's name.
     *
     * @return the name that {@code ibv_devices} prints
     */
    public String name() {
        return device.name();
    }

    /**
     * Queries the device's ports.
     *
     * @return the ports, in order of their numbers, from 1
     * @throws VerbenaException when the device cannot be queried
     */
    public List<Port> ports() {
        return call(() -> device.ports().query());
    }

    /**
     * Reads the counters of a port; their names are the driver's: {@link PortCounters}.
     *
     * @param port the port's number, from 1
     * @return a snapshot; counters that the port does not have, or that cannot be read, are left
     *     out
     * @throws VerbenaException INVALID_PARAMETER if there is no such port
     */
    @CheckReturnValue
    public PortCounters counters(int port) {
        ensureOpen();
        if (port < 1 || port > device.reported().portCount()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "Device %s has ports 1 to %d, not %d"
                            .formatted(name(), device.reported().portCount(), port));
        }
        return PortCounters.read(PortCounters.DEVICES, name(), port);
    }

    /**
     * Counts the connections of this adapter, and what became of attempts to connect. Any thread
     * may call it, also after the close.
     *
     * @return a snapshot, taken without a lock
     */
    public ConnectionCounters connectionCounters() {
        ConnectionEvents used = device.usedConnectionEvents();
        return used == null ? new ConnectionCounters(0, 0, 0, 0, 0, 0) : used.counters();
    }

    /**
     * Lists the connections of this adapter: those of its {@link Connector connectors}, from the
     * call that connects, or from the peer's request, until both sides have disconnected. Other
     * adapters and processes have their own; {@code verbena-tools.jar connections} lists all of a
     * machine. Any thread may call it, also after the close.
     *
     * @return a snapshot, in no particular order
     */
    public List<ConnectionInfo> connections() {
        ConnectionEvents used = device.usedConnectionEvents();
        return used == null ? List.of() : used.connections();
    }

    /**
     * Lists the local addresses that {@link Listener listeners} and {@link SharedEndpoint shared
     * endpoints} of this adapter occupy. Any thread may call it, also after the close.
     *
     * @return a snapshot, in no particular order
     */
    public List<LocalEndpoint> localEndpoints() {
        ConnectionEvents used = device.usedConnectionEvents();
        return used == null ? List.of() : used.localEndpoints();
    }

    /**
     * The GID of new queue pairs of this adapter, and the reason: the one chosen by {@link
     * #useGid}, or else the {@link Port#preferredGid} of the port that {@link #forAddress} or
     * {@link #forPeer} found, or else of the first port whose link is up.
     *
     * @return the choice for a queue pair created now
     * @throws VerbenaException if no port is up, or the port has no GID
     */
    public GidChoice gid() {
        return call(() -> device.ports().gid());
    }

    /**
     * Chooses the GID of queue pairs that are created from now on, and the address that connectors
     * connect from.
     *
     * @param port the port's number, from 1
     * @param index the GID's index in the port's table, as {@code ibv_devinfo -v} and {@link
     *     #ports} show it
     * @throws VerbenaException INVALID_PARAMETER if there is no GID at that index
     */
    public void useGid(int port, int index) {
        run(() -> device.ports().choose(port, index));
    }

    /**
     * Registers a listener of the device's asynchronous events, such as links that go up or down
     * and failures of queue pairs or the device (verbs: {@code ibv_get_async_event}; this library
     * acknowledges each event itself).
     *
     * <p>Each listener gets every event from now on, in order, one at a time, on a callback thread;
     * it may block and close any object, and does not delay other listeners. Exceptions that it
     * throws are logged, and go to the handler of uncaught exceptions if the program has set one.
     * Queues and connections need no listener to work.
     *
     * @param listener called with each event
     * @return the registration; close it to end the calls, which also end with the last object of
     *     this adapter
     * @throws VerbenaException if the event thread cannot be started
     */
    public AdapterEvent.Registration onEvent(Consumer<? super AdapterEvent> listener) {
        Arguments.notNull(listener, "listener");
        acquire();
        try {
            AdapterEvents running = device.events();
            AdapterEvent.Registration registration =
                    running.listeners()
                            .add(
                                    event ->
                                            listener.accept(
                                                    new AdapterEvent(
                                                            this,
                                                            event.type(),
                                                            event.number(),
                                                            event.port(),
                                                            event.object())));
            if (running.ended()) { // perhaps before it was added
                running.listeners().threadEnded();
            }
            return registration;
        } finally {
            release();
        }
    }

    /**
     * Listens for connection requests of peers (NdkCreateListener and NdkListen).
     *
     * @param address an address of this adapter's device with a port, or port 0 for a free one. The
     *     wildcard address means all addresses of the device; it occupies the port on all devices
     *     of the machine, and peers that connect by another device are refused
     * @param backlog how many requests may be unanswered, further ones are refused; 0 for the
     *     default, 128. A request whose peer has given up counts until it is answered or closed, at
     *     most 70 s, because the kernel does not report that
     * @param handler called with each request (NdkConnectEventCallback), on one of up to 16 threads
     *     of the listener. It must {@linkplain Connector#accept accept} or {@linkplain
     *     Connector#reject reject} it, immediately or later. If it throws, the request is refused.
     *     It may block, and close any object
     * @return the listener, to be closed by the caller
     * @throws VerbenaException SHARING_VIOLATION if the address is in use, INVALID_ADDRESS if the
     *     device does not have it
     */
    @CheckReturnValue
    public Listener listen(InetSocketAddress address, int backlog, Consumer<Connector> handler) {
        return listen(address, backlog, Listener.threads(), handler, Listener.FORGOTTEN_AFTER);
    }

    /**
     * Listens for connection requests of peers, with the caller's executor: for handlers that serve
     * their whole connection before they return, more than 16 at a time, and for programs that let
     * requests wait: while the backlog is full, further ones are refused, however long others wait.
     *
     * @param address as in {@link #listen(InetSocketAddress, int, Consumer)}
     * @param backlog as there
     * @param executor runs the handler for each request. It must not run the handler on the calling
     *     thread, which is the event thread of this adapter. If it rejects the task, the request is
     *     refused
     * @param handler called with each request, as there
     * @return the listener, to be closed by the caller
     * @throws VerbenaException as for {@link #listen(InetSocketAddress, int, Consumer)}
     */
    @CheckReturnValue
    public Listener listen(
            InetSocketAddress address,
            int backlog,
            Executor executor,
            Consumer<Connector> handler) {
        return listen(address, backlog, executor, handler, Listener.ANSWER_WITHIN);
    }

    private Listener listen(
            InetSocketAddress address,
            int backlog,
            Executor executor,
            Consumer<Connector> handler,
            Duration forgottenAfter) {
        return new Listener(
                this,
                address,
                backlog,
                Arguments.notNull(executor, "executor"),
                Arguments.notNull(handler, "handler"),
                forgottenAfter,
                Listener.ANSWER_WITHIN);
    }

    /**
     * Creates a connector, to connect to a peer that listens (NdkCreateConnector).
     *
     * @return the new object, to be closed by the caller
     * @throws VerbenaException NOT_SUPPORTED if librdmacm is not installed; ACCESS_VIOLATION or
     *     another status if the connection manager cannot be opened
     */
    @CheckReturnValue
    public Connector createConnector() {
        return new Connector(this);
    }

    /**
     * Creates an endpoint: a local address that several connectors connect from
     * (NdkCreateSharedEndpoint).
     *
     * @param address an address of this adapter's device with a port, or port 0 for a free one
     * @return the new object, to be closed by the caller
     * @throws VerbenaException SHARING_VIOLATION if the address is in use, INVALID_ADDRESS if the
     *     device does not have it
     */
    @CheckReturnValue
    public SharedEndpoint createSharedEndpoint(InetSocketAddress address) {
        return new SharedEndpoint(this, address);
    }

    /**
     * Creates a protection domain (NdkCreatePd).
     *
     * @return the new object, to be closed by the caller
     * @throws VerbenaException if the device has no more
     */
    @CheckReturnValue
    public ProtectionDomain createProtectionDomain() {
        return new ProtectionDomain(this);
    }

    /**
     * The limits and abilities of the device (NdkQueryAdapterInfo). The first call tests them by
     * creating objects, which are destroyed when it returns.
     *
     * @return limits that hold together, and abilities
     * @throws VerbenaException when the device cannot be queried
     */
    @CheckReturnValue
    public AdapterInfo info() {
        return call(device::info);
    }

    /**
     * Creates a completion queue that the caller polls, or arms and waits for (NdkCreateCq).
     *
     * @param depth how many completions it must hold: the sum of the depths of all queues that
     *     report to it
     * @return the new object, to be closed by the caller
     * @throws VerbenaException if the device does not support the depth, or has no more completion
     *     queues
     */
    @CheckReturnValue
    public CompletionQueue createCompletionQueue(int depth) {
        return new CompletionQueue(this, CompletionQueueOptions.depth(depth));
    }

    /**
     * Creates a completion queue that is confined to the current thread, together with every queue
     * pair that reports to it. They take no lock, which makes posts and polls faster.
     *
     * <p>Only that thread may create those queue pairs, post to them, bind and invalidate windows
     * on them, close them, and poll, arm, await and close this queue; on another thread these calls
     * throw {@link WrongThreadException} and have no effect, also after the owner thread ended.
     * Queues that it did not close are destroyed when the adapter is closed, by any thread; if the
     * owner thread ends later, when it is closed once more. {@link QueuePair#flush}, connecting,
     * disconnecting and getters may be called from any thread. When another thread or the network
     * changes such a queue pair (a disconnect by the peer, a flush, an overrun), posts are affected
     * immediately; remaining work, such as posting deferred requests, is done by the owner thread
     * in its next poll, arm, await or post.
     *
     * @param depth how many completions it must hold: the sum of the depths of all queues that
     *     report to it
     * @return the new queue, to be closed by the current thread
     * @throws VerbenaException if the device does not support the depth, or has no more completion
     *     queues
     */
    public CompletionQueue createConfinedCompletionQueue(int depth) {
        return new CompletionQueue(this, CompletionQueueOptions.depth(depth).confined());
    }

    /**
     * Creates a completion queue that calls back after it was armed (NdkCreateCq with
     * NdkCqNotificationCallback).
     *
     * @param depth how many completions it must hold: the sum of the depths of all queues that
     *     report to it
     * @param callback called once for each {@link CompletionQueue#arm}, on a thread of this queue,
     *     one call at a time: with SUCCESS, with BUFFER_OVERFLOW if the queue overran, with
     *     INTERNAL_ERROR if the device failed, or with the status of the error by which its events
     *     cannot be taken any more. It may close any object.
     * @return the new object, to be closed by the caller
     * @throws VerbenaException if the device does not support the depth, or has no more completion
     *     queues
     */
    @CheckReturnValue
    public CompletionQueue createCompletionQueue(int depth, Consumer<Status> callback) {
        return new CompletionQueue(this, CompletionQueueOptions.depth(depth).callback(callback));
    }

    /**
     * Creates a completion queue with options, such as a completion vector or a shared channel.
     *
     * @param options the depth, and all that differs from the defaults
     * @return the new queue, to be closed by the caller
     * @throws VerbenaException if the device does not support the depth, does not have the vector,
     *     or has no more completion queues
     */
    @CheckReturnValue
    public CompletionQueue createCompletionQueue(CompletionQueueOptions options) {
        return new CompletionQueue(this, options);
    }

    /**
     * Creates a channel, by which one thread waits for many completion queues.
     *
     * @return the new channel, to be closed by the caller
     * @throws VerbenaException if there are no more file descriptors
     */
    @CheckReturnValue
    public CompletionChannel createCompletionChannel() {
        return new CompletionChannel(this);
    }

    /**
     * How many completion vectors the device has (NDK: affinities): interrupts that signal events
     * of completion queues.
     *
     * @return 1 or more
     */
    @CheckReturnValue
    public int completionVectors() {
        return device.control().completionVectors();
    }

    /**
     * The address of the {@code ibv_context}, for functions of libibverbs that this library does
     * not call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(device.control().context());
    }

    /** What its objects need of it. Only for those that have a reference to this adapter. */
    Device device() {
        return device;
    }

    /** For its queues; the first call starts the event thread. */
    QueueDevice queueDevice() {
        QueueDevice known = queueDevice;
        if (known == null) {
            known =
                    new QueueDevice(
                            name(),
                            device.control(),
                            device.provider(),
                            device.context(),
                            device.events(),
                            sharedQueues);
            queueDevice = known; // another thread's is as good
        }
        return known;
    }

    Quirks quirks() {
        return quirks;
    }

    @Override
    void closeAgain(Teardown end) {
        shut(end);
    }

    /** Reclaims the confined queues of threads that have ended without closing them. */
    @Override
    void shut(Teardown end) {
        for (NativeObject dependant : dependants()) {
            if (dependant instanceof CompletionQueue queue) {
                queue.reclaimIfOrphaned(end);
            }
        }
    }

    @Override
    void destroy(Teardown end) {
        stop(); // if it throws, the device stays open: its event thread uses it
        end.check(device.control().close(), "ibv_close_device(" + name() + ")");
    }

    private void stop() {
        if (!device.stop()) {
            throw VerbenaException.stillRunning("its event thread", AdapterEvents.TIMEOUT);
        }
    }

    @Override
    String describe() {
        GidChoice last = device.ports().used();
        return "Adapter " + name() + (last == null ? "" : ", " + last);
    }
}
