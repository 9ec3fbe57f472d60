package dev.verbena.internal.verbs;

import dev.verbena.Until;
import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.internal.verbs.StateChange.Attribute;

import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;
import java.util.stream.Stream;

/**
 * A connection manager that does not exist, with a network of one host, on which any call can be
 * refused, any event left out, and any other made up.
 */
public final class FakeConnections extends ConnectionControl {
    /** The service level of every path. */
    public static final byte PATH_SERVICE_LEVEL = 3;

    public static final int PATH_FLOW_LABEL = 0x12345;
    public static final int PATH_ACK_TIMEOUT = 19;

    private static final int REQUEST_BYTES = 56;
    private static final int REPLY_BYTES = 196;
    private static final int REJECT_BYTES = 148;
    private static final int EISCONN = 106;

    private static final class Channel {
        final int eventFd = Descriptors.newEventFd();
        final Deque<ConnectionEvent> events = new ArrayDeque<>();
    }

    private static final class Id {
        final long address;
        final Channel channel;
        long key;
        String device = "";
        InetSocketAddress local;
        InetSocketAddress peer;
        boolean sharing;
        boolean listening;
        boolean requested; // by a peer
        boolean disconnected;
        Id other; // the one at the peer
        String state = "IDLE";
        ConnectionParameters parameters;
        int trafficClass; // of its path
        boolean routed; // no option changes the path any more

        Id(long address, Channel channel, long key) {
            this.address = address;
            this.channel = channel;
            this.key = key;
        }
    }

    // What tests look at.
    /** What was called, in order, as in "connect" or "destroy". */
    public final List<String> calls = new CopyOnWriteArrayList<>();

    /** Called first by each call that makes or changes an identifier, with its name; may throw. */
    public volatile Consumer<String> beforeStep = step -> {};

    /** The queue pairs of connections that {@link #disconnectAny} chose, as in "QueuePair 17". */
    public final Set<String> cut = ConcurrentHashMap.newKeySet();

    /** The parameters that the last connect and the last accept sent to the peer. */
    public ConnectionParameters lastConnect;

    public ConnectionParameters lastAccept;

    // What tests set.
    /** The errno of the next call of that name. */
    public final Map<String, Integer> errors = new ConcurrentHashMap<>();

    /** Calls after which no event comes. */
    public final Set<String> silent = ConcurrentHashMap.newKeySet();

    /** The device that the route to a peer goes by when no local address is named. */
    public volatile String routeBy = "fake0";

    public volatile int port = 1; // of each device that an identifier is bound to

    /** Where each device is. */
    public final Map<InetAddress, String> devices = new ConcurrentHashMap<>();

    /** Thrown by each call that takes an event, when set. */
    public volatile RuntimeException failure;

    /** What looks at the next identifier meets this. */
    public final AtomicReference<Error> describing = new AtomicReference<>();

    /** What accepts the next request meets this. */
    public final AtomicReference<Error> accepting = new AtomicReference<>();

    /** What creates the next identifier meets this. */
    public final AtomicReference<Error> creating = new AtomicReference<>();

    /** The errno with which addresses are not found; 0 if they are. */
    public volatile int addressError;

    /** How often an address is not found until it is. */
    public volatile int lateAnswers;

    private final Map<Long, Channel> channels = new HashMap<>();
    private final Map<Long, Id> ids = new HashMap<>();
    private long nextAddress = 0x5000_0000L;
    private int ports;

    /** Those of clients come around again. */
    private int nextPort() {
        return 49152 + (ports++ & 0x3FFF);
    }

    public synchronized int identifiers() {
        return ids.size();
    }

    public synchronized int channels() {
        return channels.size();
    }

    /**
     * Waits for a fact that a call brings about. Code that the fact calls must need no lock of the
     * library.
     */
    public void until(BooleanSupplier fact) {
        Until.notified(this, fact);
    }

    private int call(String name) {
        calls.add(name);
        notifyAll();
        Integer error = errors.remove(name);
        return error == null ? 0 : -error;
    }

    /** The same, of a call that the kernel refuses in other states, or with more private data. */
    private int call(String name, Id id, Set<String> states, int bytes, int mostBytes) {
        int error = call(name);
        return error == 0 && (!states.contains(id.state) || bytes > mostBytes)
                ? -Errno.EINVAL
                : error;
    }

    private int call(String name, Id id, String... states) {
        return call(name, id, Set.of(states), 0, 0);
    }

    // ---- events of the tests' making

    /**
     * An event for every identifier in a state: IDLE, RESOLVED, CONNECTING, REQUESTED and so on.
     */
    public synchronized int emit(String state, ConnectionEvent.Kind kind, int status) {
        int count = 0;
        for (Id id : List.copyOf(ids.values())) {
            if (id.state.equals(state)) {
                post(id, kind, status, new byte[0], 0, 0);
                count++;
            }
        }
        return count;
    }

    /** One of the connections that are established has ended, says an event; if there is one. */
    public synchronized boolean disconnectAny(RandomGenerator random) {
        List<Id> all = ids.values().stream().filter(id -> id.state.equals("ESTABLISHED")).toList();
        if (!all.isEmpty()) {
            Id id = all.get(random.nextInt(all.size()));
            post(id, ConnectionEvent.Kind.DISCONNECTED, 0, new byte[0], 0, 0);
            cut.add("QueuePair " + id.parameters.queuePairNumber());
            cut.add("QueuePair " + id.other.parameters.queuePairNumber());
        }
        return !all.isEmpty();
    }

    /** An event for every identifier there is. */
    public synchronized void emitToAll(ConnectionEvent.Kind kind, int status) {
        for (Id id : List.copyOf(ids.values())) {
            post(id, kind, status, new byte[0], 0, 0);
        }
    }

    /** Whether events wait to be taken from any channel. */
    public synchronized boolean hasEvents() {
        return channels.values().stream().anyMatch(channel -> !channel.events.isEmpty());
    }

    /** A request from a peer that nothing else is known of. */
    public synchronized void request(InetSocketAddress to, byte[] data, int reads) {
        Id listener = listener(to);
        Id child = child(listener, null);
        post(listener, ConnectionEvent.Kind.REQUEST, child, data, reads, reads);
    }

    private void post(Id id, ConnectionEvent.Kind kind, int status, byte[] data, int in, int out) {
        switch (kind) {
            case ADDRESS_ERROR -> id.state = "IDLE"; // it may be resolved again
            case RESPONSE -> id.state = "ANSWERED";
            default -> {}
        }
        enqueue(id, new ConnectionEvent(kind, id.key, 0, status, data, in, out));
    }

    private void post(
            Id listener, ConnectionEvent.Kind kind, Id child, byte[] data, int in, int out) {
        enqueue(listener, new ConnectionEvent(kind, listener.key, child.address, 0, data, in, out));
    }

    private void enqueue(Id id, ConnectionEvent event) {
        id.channel.events.add(event);
        Descriptors.setReadable(id.channel.eventFd);
    }

    private void answer(String after, Id id, ConnectionEvent.Kind kind) {
        answer(after, id, kind, 0, new byte[0]);
    }

    private void answer(String after, Id id, ConnectionEvent.Kind kind, int status, byte[] data) {
        if (!silent.contains(after) && id != null && ids.containsKey(id.address)) {
            post(id, kind, status, data, 0, 0);
        }
    }

    // ---- the calls

    @Override
    public synchronized long openChannel() {
        beforeStep.accept("openChannel");
        int error = call("openChannel");
        if (error != 0) {
            return error;
        }
        long address = nextAddress += 64;
        channels.put(address, new Channel());
        return address;
    }

    @Override
    public synchronized int descriptor(long channel) {
        return channels.get(channel).eventFd;
    }

    @Override
    public synchronized ConnectionEvent takeEvent(long channel) {
        if (failure != null) {
            throw failure;
        }
        Channel from = channels.get(channel);
        ConnectionEvent event = from.events.poll();
        if (from.events.isEmpty()) {
            Descriptors.drain(from.eventFd);
        }
        return event == null ? ConnectionEvent.NOTHING : event;
    }

    @Override
    public synchronized void closeChannel(long channel) {
        Descriptors.close(channels.remove(channel).eventFd);
        notifyAll();
    }

    @Override
    public synchronized long create(long channel, long key) {
        beforeStep.accept("create");
        Error thrown = creating.getAndSet(null);
        if (thrown != null) {
            throw thrown;
        }
        int error = call("create");
        if (error != 0) {
            return error;
        }
        Id id = new Id(nextAddress += 64, channels.get(channel), key);
        ids.put(id.address, id);
        return id.address;
    }

    @Override
    public synchronized void setKey(long id, long key) {
        ids.get(id).key = key;
    }

    @Override
    public synchronized int destroy(long address) {
        call("destroy");
        Id id = ids.remove(address);
        if (id.other != null) {
            switch (id.state) {
                case "CONNECTING", "ANSWERED", "REQUESTED", "ACCEPTED" -> refuse(id, new byte[0]);
                case "ESTABLISHED" ->
                        answer("destroy", id.other, ConnectionEvent.Kind.DISCONNECTED);
                default -> {}
            }
        }
        return 0;
    }

    private void refuse(Id id, byte[] data) {
        answer(
                "reject",
                id.other,
                ConnectionEvent.Kind.REJECTED,
                ConnectionEvent.REJECTED_BY_PROGRAM,
                Arrays.copyOf(data, REJECT_BYTES));
        id.state = "OVER";
        if (id.other != null && !silent.contains("reject")) {
            id.other.state = "OVER";
        }
    }

    @Override
    public synchronized int shareAddress(long id) {
        beforeStep.accept("shareAddress");
        ids.get(id).sharing = true;
        return call("shareAddress");
    }

    @Override
    public synchronized int trafficClass(long id, int value) {
        if (!ids.get(id).routed) {
            ids.get(id).trafficClass = value;
        }
        return call("trafficClass " + value);
    }

    @Override
    public synchronized int bind(long address, InetSocketAddress to) {
        beforeStep.accept("bind");
        int error = call("bind");
        if (error != 0) {
            return error;
        }
        Id id = ids.get(address);
        boolean any = to.getAddress().isAnyLocalAddress();
        if (!any && !local(to.getAddress())) {
            return -Errno.EADDRNOTAVAIL; // as the kernel does
        }
        int port = to.getPort() == 0 ? nextPort() : to.getPort();
        InetSocketAddress local = new InetSocketAddress(to.getAddress(), port);
        if (bindings(local).anyMatch(o -> !(o.sharing && id.sharing))) {
            return -Errno.EADDRINUSE;
        }
        id.local = local;
        id.device = any ? "" : devices.get(to.getAddress());
        return 0;
    }

    /** Those that an address is bound to: not those of requests to it, as in the kernel. */
    private Stream<Id> bindings(InetSocketAddress local) {
        return ids.values().stream().filter(o -> !o.requested && local.equals(o.local));
    }

    @Override
    public boolean local(InetAddress address) {
        return devices.containsKey(address);
    }

    @Override
    public synchronized int listen(long address, int backlog) {
        beforeStep.accept("listen");
        Id id = ids.get(address);
        if (bindings(id.local).anyMatch(o -> o != id)) {
            return -Errno.EADDRINUSE;
        }
        id.listening = true;
        id.sharing = false; // as the kernel does
        return call("listen");
    }

    @Override
    public synchronized int resolveAddress(
            long address, InetSocketAddress from, InetSocketAddress to, int milliseconds) {
        beforeStep.accept("resolveAddress");
        Id id = ids.get(address);
        int error = call("resolveAddress", id, "IDLE");
        if (error != 0) {
            return error;
        }
        if (from != null && !local(from.getAddress())) {
            return -Errno.EADDRNOTAVAIL;
        }
        id.device = from == null ? routeBy : devices.get(from.getAddress());
        id.local =
                from != null && from.getPort() != 0
                        ? from
                        : new InetSocketAddress(
                                from == null ? to.getAddress() : from.getAddress(), nextPort());
        id.peer = to;
        id.state = "RESOLVING";
        if (lateAnswers > 0) {
            lateAnswers--;
            answer(
                    "resolveAddress",
                    id,
                    ConnectionEvent.Kind.ADDRESS_ERROR,
                    -Errno.ETIMEDOUT,
                    new byte[0]);
        } else if (addressError != 0) {
            answer(
                    "resolveAddress",
                    id,
                    ConnectionEvent.Kind.ADDRESS_ERROR,
                    -addressError,
                    new byte[0]);
        } else {
            answer("resolveAddress", id, ConnectionEvent.Kind.ADDRESS_RESOLVED);
        }
        return 0;
    }

    @Override
    public synchronized int resolveRoute(long address, int milliseconds) {
        beforeStep.accept("resolveRoute");
        Id id = ids.get(address);
        int error = call("resolveRoute", id, "RESOLVING");
        if (error == 0) {
            id.state = "ROUTING";
            id.routed = true;
            answer("resolveRoute", id, ConnectionEvent.Kind.ROUTE_RESOLVED);
        }
        return error;
    }

    private Id listener(InetSocketAddress to) {
        return ids.values().stream()
                .filter(i -> i.listening && (i.local.equals(to) || isAny(i, to.getPort())))
                .findFirst()
                .orElse(null);
    }

    private static boolean isAny(Id bound, int port) {
        return bound.local.getAddress().isAnyLocalAddress() && bound.local.getPort() == port;
    }

    private Id child(Id listener, Id from) {
        Id child = new Id(nextAddress += 64, listener.channel, listener.key);
        child.device = devices.getOrDefault(listener.local.getAddress(), "fake0");
        child.local = from == null ? listener.local : from.peer;
        child.peer = from == null ? new InetSocketAddress("192.0.2.99", 5) : from.local;
        child.other = from;
        child.state = "REQUESTED";
        child.requested = true;
        child.routed = true;
        child.trafficClass = from == null ? 0 : from.trafficClass; // the request carries it
        ids.put(child.address, child);
        return child;
    }

    @Override
    public synchronized int connect(long address, ConnectionParameters parameters) {
        beforeStep.accept("connect");
        Id id = ids.get(address);
        int bytes = parameters.data().length;
        int error = call("connect", id, Set.of("ROUTING"), bytes, REQUEST_BYTES);
        if (error != 0) {
            return error;
        }
        lastConnect = parameters;
        id.parameters = parameters;
        id.state = "CONNECTING";
        Id listener = listener(id.peer);
        if (silent.contains("connect")) {
            return 0;
        }
        if (listener == null) {
            answer(
                    "connect",
                    id,
                    ConnectionEvent.Kind.REJECTED,
                    ConnectionEvent.REJECTED_NO_LISTENER,
                    new byte[REJECT_BYTES]);
            return 0;
        }
        Id child = child(listener, id);
        id.other = child;
        post(
                listener,
                ConnectionEvent.Kind.REQUEST,
                child,
                Arrays.copyOf(parameters.data(), REQUEST_BYTES),
                parameters.outboundReads(),
                parameters.inboundReads());
        return 0;
    }

    @Override
    public synchronized int accept(long address, ConnectionParameters parameters) {
        beforeStep.accept("accept");
        Error thrown = accepting.getAndSet(null);
        if (thrown != null) {
            throw thrown;
        }
        Id id = ids.get(address);
        int bytes = parameters.data().length;
        int error = call("accept", id, Set.of("REQUESTED"), bytes, REPLY_BYTES);
        if (error != 0) {
            return error;
        }
        lastAccept = parameters;
        id.parameters = parameters;
        id.state = "ACCEPTED";
        if (id.other != null && !silent.contains("accept")) {
            post(
                    id.other,
                    ConnectionEvent.Kind.RESPONSE,
                    0,
                    Arrays.copyOf(parameters.data(), REPLY_BYTES),
                    parameters.outboundReads(),
                    parameters.inboundReads());
        }
        return 0;
    }

    @Override
    public synchronized int establish(long address) {
        beforeStep.accept("establish");
        Id id = ids.get(address);
        int error = call("establish", id, "ANSWERED");
        if (error == 0) {
            id.state = "ESTABLISHED";
            if (id.other != null && id.other.state.equals("ACCEPTED")) {
                id.other.state = "ESTABLISHED";
                answer("establish", id.other, ConnectionEvent.Kind.ESTABLISHED);
            }
        }
        return error;
    }

    @Override
    public synchronized int reject(long address, byte[] data) {
        beforeStep.accept("reject");
        Id id = ids.get(address);
        Set<String> states = Set.of("REQUESTED", "ACCEPTED", "ANSWERED");
        int error = call("reject", id, states, data.length, REJECT_BYTES);
        if (error == 0) {
            refuse(id, data);
        }
        return error;
    }

    @Override
    public synchronized int disconnect(long address) {
        beforeStep.accept("disconnect");
        Id id = ids.get(address);
        int error =
                call(
                        "disconnect",
                        id,
                        "CONNECTING",
                        "REQUESTED",
                        "ACCEPTED",
                        "ANSWERED",
                        "ESTABLISHED",
                        "OVER");
        // In other states, and after the first time, rdma_disconnect succeeds and does nothing.
        if (error == 0 && id.state.equals("ESTABLISHED") && !id.disconnected) {
            id.disconnected = true;
            Id other = id.other;
            if (other != null && other.disconnected) {
                answer("confirm", other, ConnectionEvent.Kind.DISCONNECTED);
            } else {
                answer("disconnect", other, ConnectionEvent.Kind.DISCONNECTED);
            }
        }
        return error;
    }

    @Override
    public synchronized int notifyEstablished(long address) {
        beforeStep.accept("notifyEstablished");
        Id id = ids.get(address);
        int error = call("notifyEstablished", id, "ACCEPTED", "ESTABLISHED");
        if (error == 0 && id.state.equals("ESTABLISHED") && !silent.contains("establish")) {
            return -EISCONN;
        }
        if (error == 0) {
            id.state = "ESTABLISHED";
            answer("notifyEstablished", id, ConnectionEvent.Kind.ESTABLISHED);
        }
        return error;
    }

    @Override
    public synchronized IdentifierInfo describe(long address) {
        beforeStep.accept("describe");
        Error error = describing.getAndSet(null);
        if (error != null) {
            throw error;
        }
        Id id = ids.get(address);
        return new IdentifierInfo(id.device, id.device.isEmpty() ? 0 : port, id.local, id.peer);
    }

    @Override
    public synchronized int fillIn(long address, StateChange change) {
        beforeStep.accept("fillIn");
        int error = call("fillIn " + change.state());
        if (error == 0) {
            Id id = ids.get(address);
            ConnectionParameters there = id.other == null ? null : id.other.parameters;
            switch (change.state()) {
                case StateChange.INITIALIZED ->
                        change.mask(
                                Verbs.IBV_QP_STATE
                                        | Verbs.IBV_QP_PKEY_INDEX
                                        | Verbs.IBV_QP_PORT
                                        | Verbs.IBV_QP_ACCESS_FLAGS);
                case StateChange.READY_TO_RECEIVE -> toReceive(id, there, change);
                default -> toSend(there, change);
            }
        }
        return error;
    }

    /** As cm_init_qp_rtr_attr does. */
    private static void toReceive(Id id, ConnectionParameters there, StateChange change) {
        MemorySegment a = FakeDevice.structOf(change);
        MemorySegment address = ibv_qp_attr.ah_attr(a);
        ibv_ah_attr.is_global(address, (byte) 1);
        ibv_ah_attr.sl(address, PATH_SERVICE_LEVEL);
        ibv_global_route.traffic_class(ibv_ah_attr.grh(address), (byte) id.trafficClass);
        ibv_global_route.flow_label(ibv_ah_attr.grh(address), PATH_FLOW_LABEL);
        if (there != null) {
            ibv_qp_attr.dest_qp_num(a, there.queuePairNumber());
        }
        change.mask(
                Verbs.IBV_QP_STATE
                        | Verbs.IBV_QP_AV
                        | Verbs.IBV_QP_PATH_MTU
                        | Verbs.IBV_QP_DEST_QPN
                        | Verbs.IBV_QP_RQ_PSN
                        | Verbs.IBV_QP_MAX_DEST_RD_ATOMIC
                        | Verbs.IBV_QP_MIN_RNR_TIMER);
        change.set(Attribute.INBOUND_READS, there == null ? 1 : there.outboundReads());
    }

    /** As cm_init_qp_rts_attr does, of a peer that asks for seven retries. */
    private static void toSend(ConnectionParameters there, StateChange change) {
        change.mask(Verbs.IBV_QP_STATE | Verbs.IBV_QP_SQ_PSN);
        change.set(Attribute.ACK_TIMEOUT, PATH_ACK_TIMEOUT);
        change.set(Attribute.RETRIES, 7);
        change.set(Attribute.RNR_RETRIES, there == null ? 0 : there.rnrRetries());
        change.set(Attribute.OUTBOUND_READS, there == null ? 1 : there.inboundReads());
    }
}
