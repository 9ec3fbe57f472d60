package dev.verbena.internal.connect;

import dev.verbena.internal.connect.ConnectionEvents.Identifier;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.ConnectionParameters;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;
import dev.verbena.internal.verbs.StateChange;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One connection's life, from either side: NDK's connect sequence on librdmacm, with a queue pair
 * that the library does not know of.
 *
 * <pre>
 * FREE -connect-> RESOLVING -> ROUTING -> CONNECTING -response-> ANSWERED -complete-> ESTABLISHED
 * REQUESTED -accept-> ACCEPTING -established-> ESTABLISHED -disconnect-> DRAINING -> DISCONNECTING -> OVER
 * ESTABLISHED -the peer disconnects-> LEFT -disconnect-> OVER
 * </pre>
 *
 * <p>One step is under way at a time; its future ends by an event, by its deadline, by the close,
 * or by the death of the thread that brings events. All methods may be called from any thread. What
 * leaves this object (queue pairs let go of, for which others may have waited) is done outside of
 * its lock.
 */
public final class Dialogue implements ConnectionEvents.Handler {
    /**
     * What the peer said last.
     *
     * @param data its program's bytes
     * @param exact whether they have just the length that was sent
     * @param invalidatable whether sends may invalidate tokens of the peer's
     * @param inboundReads how many reads it lets in
     * @param outboundReads how many reads it wants to have under way
     */
    public record Heard(
            byte[] data,
            boolean exact,
            boolean invalidatable,
            int inboundReads,
            int outboundReads) {}

    /** How a connection that stood has ended. */
    public enum Over {
        /** This side disconnected or closed. */
        HERE,
        /** The peer did, or its process is gone. */
        THERE,
        /** A request failed, and with it the connection. */
        BROKEN,
        /** The device is gone. */
        DEVICE_REMOVED,
        /** Nobody can tell any more: the thread that hears of events ended. */
        UNKNOWN
    }

    /**
     * What a step tells the peer.
     *
     * @param data the caller's private data
     * @param announced whether this layer says in front of them what it can
     */
    public record Words(byte[] data, boolean announced) {}

    private enum State {
        FREE,
        RESOLVING,
        ROUTING,
        CONNECTING,
        ANSWERED,
        REQUESTED,
        ACCEPTING,
        ESTABLISHED,
        DRAINING,
        DISCONNECTING,
        LEFT,
        OVER,
        CLOSING,
        CLOSED
    }

    private static final String QUEUE_PAIR_CALL = "ibv_modify_qp";

    // What InfiniBand's messages carry; on connecting, 36 of 92 bytes are the kernel's.
    private static final int REQUEST_BYTES = 56;
    private static final int REPLY_BYTES = 196;
    private static final int REJECT_BYTES = 148;

    // Not seven, which rxe's completer never counts down.
    private static final int RETRIES = 6;
    // Six times 655 ms: NDK expects an end where the peer has no receive. A shared queue that is
    // empty for a moment must not break connections: 7 is for ever.
    private static final int FINITE_PATIENCE = 6;
    private static final int ENDLESS_PATIENCE = 7;

    // Milliseconds for the kernel to find a neighbour's Ethernet address. It looks at the answer
    // when the neighbour's entry changes, which it may miss, or else at the end of the time (addr.c
    // of 6.1: the request joins the list of those that are woken after the question went out. Seen
    // on two devices of one machine, where the answer is there at once: each took its whole time).
    private static final int FIRST_ASK = 100;
    private static final int LAST_ASK = 2000;

    // How long the kernel may take to tell the peer of a close: it says so again after 4.3 s.
    private static final long CLOSE_PATIENCE = TimeUnit.SECONDS.toNanos(10);
    private static final long FIRST_LOOK = TimeUnit.MICROSECONDS.toNanos(200);
    private static final long LAST_LOOK = TimeUnit.MILLISECONDS.toNanos(20);

    private final ConnectionEvents events;
    private final String device;
    private final CompletableFuture<Over> over = new CompletableFuture<>();

    // All of these under this object's lock.
    private State state;
    private Identifier identifier; // or null
    private CompletableFuture<Void> step; // or null
    private Timers.Timer deadline;
    private QueuePairEnd end; // or null
    private Words words;
    private InetSocketAddress peer;
    private InetSocketAddress local; // or null
    private final Deque<InetSocketAddress> sources = new ArrayDeque<>();
    private int patience; // of the next question for the peer's address
    private long stepEnds;
    private byte[] received = new byte[0];
    private Announcement announced; // the peer's, or null
    private int peerInboundReads;
    private int peerOutboundReads;
    private boolean assumeInvalidatable;
    private boolean touched; // whether the queue pair was changed for this connection
    private Failure gone; // why a request or an answer is of no use any more
    private Runnable closed;
    private Consumer<Dialogue> onAnswer = dialogue -> {};
    private Consumer<Failure> onAbandoned = why -> {};
    private long drainEnds;

    /**
     * Makes one that may connect.
     *
     * @param events the adapter's
     * @param device the adapter's device
     */
    public Dialogue(ConnectionEvents events, String device) {
        this.events = events;
        this.device = device;
        this.state = State.FREE;
    }

    /**
     * Makes one of a peer's request.
     *
     * @param events the adapter's
     * @param device the adapter's device
     * @param request the request
     * @param onAnswer told once, when it is accepted, refused, or of no use any more
     */
    Dialogue(
            ConnectionEvents events,
            String device,
            ConnectionEvent request,
            Consumer<Dialogue> onAnswer) {
        this(events, device);
        this.onAnswer = onAnswer;
        this.state = State.REQUESTED;
        IdentifierInfo info = events.control().describe(request.id());
        this.peer = info.peer();
        this.local = info.local();
        hear(request);
        this.identifier = events.adopt(request.id(), this); // last: whoever fails above refuses it
    }

    private void hear(ConnectionEvent event) {
        received = event.data();
        announced = Announcement.read(received);
        peerInboundReads = event.outboundReads();
        peerOutboundReads = event.inboundReads();
    }

    // ---- what is asked for

    /**
     * Begins to connect.
     *
     * @param queuePair this side's end; let go of when it fails
     * @param from the local addresses to try, in this order; null among them leaves it to the route
     * @param sharing whether others connect from the same address and port
     * @param to the peer's address
     * @param said what the peer is told
     * @param within how long it may take
     * @return ends when the peer has accepted
     * @throws Failure when it cannot begin
     */
    public CompletableFuture<Void> connect(
            QueuePairEnd queuePair,
            List<InetSocketAddress> from,
            boolean sharing,
            InetSocketAddress to,
            Words said,
            Duration within)
            throws Failure {
        synchronized (this) {
            require(state == State.FREE, "connect");
            checkLength(said, REQUEST_BYTES, "connecting");
            identifier = events.create(this);
            try {
                if (sharing) {
                    Failure.check(
                            events.control().shareAddress(identifier.id()),
                            "rdma_set_option(REUSEADDR)",
                            "");
                }
                end = queuePair;
                words = said;
                peer = to;
                sources.clear();
                from.forEach(source -> sources.add(source == null ? ANY : source));
                received = new byte[0];
                announced = null;
                peerInboundReads = 0;
                peerOutboundReads = 0;
                patience = FIRST_ASK;
                begin(State.RESOLVING, within);
                resolve();
                return step;
            } catch (Failure f) {
                forgetStep();
                events.destroy(identifier);
                identifier = null;
                end = null;
                state = State.FREE;
                throw f;
            }
        }
    }

    /** Stands for "by the route" where a collection takes no null. */
    private static final InetSocketAddress ANY = new InetSocketAddress(0);

    @SuppressWarnings("ReferenceEquality") // ANY stands for null in a queue that takes none
    private void resolve() throws Failure {
        InetSocketAddress source = sources.element();
        int asked = Math.min(left(), patience);
        patience = Math.min(2 * patience, LAST_ASK);
        int answer =
                events.control()
                        .resolveAddress(
                                identifier.id(), source == ANY ? null : source, peer, asked);
        if (answer != 0) {
            Failure.checkAddress(
                    answer,
                    events.control(),
                    source,
                    Failure.Kind.SAME_CONNECTION,
                    "rdma_resolve_addr(%s)".formatted(peer),
                    source == ANY
                            ? "Is there a route to it (ip route get)?"
                            : "Is %s an address of device %s (rdma link, ip address)?"
                                    .formatted(source.getAddress(), device));
        }
    }

    /** Milliseconds until the step's deadline, for calls that want a limit too. */
    private int left() {
        long left = TimeUnit.NANOSECONDS.toMillis(stepEnds - System.nanoTime());
        return Math.clamp(left, 1, Integer.MAX_VALUE);
    }

    /**
     * Establishes a connection that the peer has accepted.
     *
     * @param assume whether the peer's tokens may be invalidated although it did not say so
     * @throws Failure when it cannot be established any more; it is over then
     */
    public void complete(boolean assume) throws Failure {
        Runnable after = NOTHING;
        try {
            synchronized (this) {
                if (gone != null && state == State.ANSWERED) {
                    Failure why = gone;
                    after = giveUp(why, false);
                    throw why;
                }
                require(state == State.ANSWERED, "completeConnect");
                assumeInvalidatable = assume;
                try {
                    walk();
                    Failure.check(
                            events.control().establish(identifier.id()), "rdma_establish", "");
                } catch (Failure f) {
                    Failure why = whileAnswering(f);
                    after = giveUp(why, touched);
                    throw why;
                }
                state = State.ESTABLISHED;
                end.open(peerInvalidatable(), this::broken);
            }
        } finally {
            after.run();
        }
    }

    /** Takes the queue pair through its states, by what the connection manager says of each. */
    private void walk() throws Failure {
        touched = false;
        if (!end.usable()) {
            throw new Failure(
                    Failure.Kind.WRONG_STATE, "The queue pair was closed or flushed meanwhile");
        }
        walk(StateChange.INITIALIZED, "INIT");
        walk(StateChange.READY_TO_RECEIVE, "RTR");
        walk(StateChange.READY_TO_SEND, "RTS");
    }

    private void walk(int to, String name) throws Failure {
        StateChange change = new StateChange(to);
        Failure.check(
                events.control().fillIn(identifier.id(), change), "rdma_init_qp_attr", name, "");
        touched = true;
        Failure.check(
                end.change(change),
                QUEUE_PAIR_CALL,
                name,
                "The device refuses what the connection manager says of the path");
    }

    /**
     * The kernel does not tell of a peer that gives up before it was answered; the calls that
     * answer it fail then, of an identifier that is of no use any more.
     */
    private Failure whileAnswering(Failure f) {
        if (f.kind() != Failure.Kind.CALL) {
            return f;
        }
        boolean device = f.call().startsWith(QUEUE_PAIR_CALL);
        return new Failure(
                Failure.Kind.ABORTED,
                device
                        ? f.getMessage()
                        : "%s gave up meanwhile (%s)".formatted(peer, f.getMessage()),
                f);
    }

    private boolean peerInvalidatable() {
        return assumeInvalidatable || announced != null && announced.invalidatable();
    }

    /**
     * Accepts a request.
     *
     * @param queuePair this side's end; let go of when it fails
     * @param said what the peer is told
     * @param assume whether the peer's tokens may be invalidated although it did not say so
     * @param within how long it may take
     * @return ends when the peer has established the connection
     * @throws Failure when it cannot be accepted any more
     */
    public CompletableFuture<Void> accept(
            QueuePairEnd queuePair, Words said, boolean assume, Duration within) throws Failure {
        Runnable after = NOTHING;
        try {
            synchronized (this) {
                if (gone != null && state == State.REQUESTED) {
                    throw gone;
                }
                events.ensureAlive();
                require(state == State.REQUESTED, "accept");
                checkLength(answer(said), REPLY_BYTES, "accepting");
                end = queuePair;
                words = answer(said);
                assumeInvalidatable = assume;
                begin(State.ACCEPTING, within);
                CompletableFuture<Void> begun = step;
                try {
                    walk();
                    events.accepting(end.address(), this);
                    Failure.check(
                            events.control().accept(identifier.id(), parameters()),
                            "rdma_accept",
                            "");
                    onAnswer.accept(this);
                } catch (Failure f) {
                    Failure why = whileAnswering(f);
                    after = giveUp(why, touched);
                    throw why;
                }
                return begun;
            }
        } finally {
            after.run();
        }
    }

    /** A peer that announced nothing would take an announcement for the program's data. */
    private Words answer(Words said) {
        return announced == null ? new Words(said.data(), false) : said;
    }

    private ConnectionParameters parameters() {
        // What the peer wants is known when accepting only, and caps what is told then.
        boolean accepting = state == State.ACCEPTING;
        int inbound = end.inboundReads();
        int outbound = end.outboundReads();
        return new ConnectionParameters(
                end.number(),
                end.sharedReceives(),
                accepting ? Math.min(inbound, peerOutboundReads) : inbound,
                accepting ? Math.min(outbound, peerInboundReads) : outbound,
                RETRIES,
                end.sharedReceives() ? ENDLESS_PATIENCE : FINITE_PATIENCE,
                said());
    }

    private byte[] said() {
        return words.announced()
                ? new Announcement(
                                end.invalidatable(),
                                end.sharedReceives(),
                                end.inboundReads(),
                                end.outboundReads(),
                                words.data())
                        .bytes()
                : words.data();
    }

    /**
     * Refuses a request, or a peer that has accepted.
     *
     * @param said what the peer is told
     * @throws Failure when there is nothing to refuse, or not any more
     */
    public void reject(Words said) throws Failure {
        Runnable after = NOTHING;
        try {
            synchronized (this) {
                boolean request = state == State.REQUESTED;
                if (gone != null && (request || state == State.ANSWERED)) {
                    Failure why = gone;
                    after = request ? NOTHING : giveUp(why, false);
                    throw why;
                }
                require(request || state == State.ANSWERED, "reject");
                Words told = answer(said);
                checkLength(told, REJECT_BYTES, "rejecting");
                byte[] bytes =
                        told.announced()
                                ? new Announcement(false, false, 0, 0, told.data()).bytes()
                                : told.data();
                int error = events.control().reject(identifier.id(), bytes);
                after = drop(request ? State.OVER : State.FREE, true);
                if (error != 0) {
                    throw new Failure(
                            Failure.Kind.ABORTED,
                            "There was nothing left to reject: the peer gave up",
                            Failure.of("rdma_reject", error, ""));
                }
            }
        } finally {
            after.run();
        }
    }

    /**
     * Ends the connection: lets what is under way end, but for half of the time it may take,
     * cancels the rest, and tells the peer.
     *
     * @param within how long it may take
     * @return ends when the peer knows
     * @throws Failure when there is no connection
     */
    public CompletableFuture<Void> disconnect(Duration within) throws Failure {
        Runnable after = NOTHING;
        try {
            synchronized (this) {
                switch (state) {
                    case ESTABLISHED -> {
                        events.ensureAlive();
                        begin(State.DRAINING, within);
                        CompletableFuture<Void> begun = step;
                        drainEnds = System.nanoTime() + nanoseconds(within) / 2;
                        end.drain();
                        after = look(FIRST_LOOK);
                        return begun;
                    }
                    case LEFT -> {
                        end.flush();
                        after = drop(State.OVER, false);
                        return CompletableFuture.completedFuture(null);
                    }
                    case DRAINING, DISCONNECTING -> {
                        return step;
                    }
                    case OVER -> {
                        if (over.isDone()) {
                            return CompletableFuture.completedFuture(null);
                        }
                        throw noConnection();
                    }
                    default -> throw noConnection();
                }
            }
        } finally {
            after.run();
        }
    }

    /**
     * Has somebody told when this request is refused because nobody has answered it.
     *
     * @param told gets the reason, outside of this object's lock
     */
    public synchronized void onAbandoned(Consumer<Failure> told) {
        onAbandoned = told;
    }

    /**
     * Refuses this request, unless it was accepted or rejected. Who answers it later hears why that
     * is too late.
     *
     * @param why the reason
     */
    void abandon(Failure why) {
        Consumer<Failure> told;
        synchronized (this) {
            if (state != State.REQUESTED || identifier == null) {
                return;
            }
            gone = why;
            events.destroy(identifier); // which refuses
            identifier = null;
            onAnswer.accept(this);
            told = onAbandoned;
        }
        told.accept(why);
    }

    private Failure noConnection() {
        return new Failure(
                Failure.Kind.WRONG_STATE,
                "There is no connection to disconnect: this connector is %s"
                        .formatted(Reasons.said(state.name())));
    }

    /**
     * Looks whether all has ended. The consumer's thread polls and owns the completion queue's
     * events, so there is none to wait for here: looked at soon, then less often.
     */
    private Runnable look(long nextLook) {
        if (end.drained() || System.nanoTime() - drainEnds >= 0) {
            end.flush();
            state = State.DISCONNECTING;
            int error = events.control().disconnect(identifier.id());
            // Refused when the peer was first and its event is on the way, or the device is gone.
            if (error != 0) {
                return finish(null);
            }
            return NOTHING;
        }
        events.timers().after(nextLook, () -> lookAgain(Math.min(2 * nextLook, LAST_LOOK)));
        return NOTHING;
    }

    private void lookAgain(long nextLook) {
        run(() -> state == State.DRAINING ? look(nextLook) : NOTHING);
    }

    /** The connection is over by this side's wish. */
    private Runnable finish(Failure failure) {
        CompletableFuture<Void> ended = step;
        forgetStep();
        Runnable released = drop(State.OVER, false);
        over.complete(Over.HERE);
        return both(released, () -> end(ended, failure));
    }

    /**
     * Ends everything. What was not accepted is refused, a connection is cut and the peer told;
     * this object is closed when that is done.
     *
     * @param whenClosed what to do then, once
     */
    public void close(Runnable whenClosed) {
        Runnable after;
        synchronized (this) {
            if (state == State.CLOSING || state == State.CLOSED) {
                throw new IllegalStateException("closed twice");
            }
            closed = whenClosed;
            after = shutDown();
        }
        after.run();
    }

    private Runnable shutDown() {
        boolean stood = stands();
        CompletableFuture<Void> ended = step;
        forgetStep();
        if (stood) {
            end.flush();
            // While draining or established; in the other states the peer knows.
            boolean telling = state == State.ESTABLISHED || state == State.DRAINING;
            int error = telling ? events.control().disconnect(identifier.id()) : 0;
            state = State.CLOSING;
            if (error != 0 || !events.alive()) {
                over.complete(Over.HERE);
                return shut(ended);
            }
            deadline = events.timers().after(CLOSE_PATIENCE, this::closeAtLast);
            over.complete(Over.HERE);
            return () -> endByClose(ended);
        }
        if (state == State.ACCEPTING || state == State.LEFT) {
            end.flush();
        }
        return shut(ended);
    }

    private boolean stands() {
        return state == State.ESTABLISHED
                || state == State.DRAINING
                || state == State.DISCONNECTING;
    }

    private static void endByClose(CompletableFuture<Void> ended) {
        if (ended != null) {
            end(ended, new Failure(Failure.Kind.CANCELLED, "The connector was closed meanwhile"));
        }
    }

    private void closeAtLast() {
        run(() -> state == State.CLOSING ? shut(null) : NOTHING);
    }

    /** Closed for good; whoever hears so may use the queue pair again. */
    private Runnable shut(CompletableFuture<Void> ended) {
        if (deadline != null) {
            deadline.cancel();
        }
        boolean fresh =
                switch (state) {
                    case RESOLVING, ROUTING, CONNECTING, ANSWERED -> true;
                    default -> false;
                };
        Runnable released = drop(State.CLOSED, fresh);
        return both(released, both(() -> endByClose(ended), closed));
    }

    /**
     * Gives a step up whose caller does not want it any more.
     *
     * @param which the step's future
     * @param why what it failed with
     */
    public void cancel(CompletableFuture<Void> which, String why) {
        failStep(which, () -> new Failure(Failure.Kind.CANCELLED, why));
    }

    // ---- what can be asked

    /**
     * Ends once, when a connection that stood is over.
     *
     * @return never fails
     */
    public CompletableFuture<Over> over() {
        return over;
    }

    /**
     * What the peer said last: with the request, the answer, or the refusal.
     *
     * @return empty before it said anything
     */
    public synchronized Heard heard() {
        return new Heard(
                (announced == null ? received : announced.data()).clone(),
                announced != null,
                peerInvalidatable(),
                peerInboundReads,
                peerOutboundReads);
    }

    /**
     * Its own address.
     *
     * @return null while there is none
     */
    public synchronized InetSocketAddress local() {
        return local;
    }

    /**
     * The peer's address.
     *
     * @return as named by the caller or by the request, or null
     */
    public synchronized InetSocketAddress peer() {
        return peer;
    }

    @Override
    public synchronized String toString() {
        return (peer == null ? state.name() : "%s %s".formatted(state, peer))
                + (gone == null ? "" : " (%s)".formatted(gone.getMessage()));
    }

    // ---- what happens

    @Override
    public void handle(ConnectionEvent event) {
        Runnable after;
        synchronized (this) {
            if (identifier == null || identifier.key() != event.key()) {
                return; // of an attempt before this one
            }
            try {
                after = on(event);
            } catch (Failure f) {
                after = failStep(f);
            }
        }
        after.run();
    }

    private Runnable on(ConnectionEvent event) throws Failure {
        return switch (event.kind()) {
            case ADDRESS_RESOLVED -> state == State.RESOLVING ? resolved() : NOTHING;
            case ADDRESS_ERROR -> state == State.RESOLVING ? unresolved(event) : NOTHING;
            case ROUTE_RESOLVED -> state == State.ROUTING ? routed() : NOTHING;
            case RESPONSE, ESTABLISHED -> answered(event);
            // After it was established: the peer gave up waiting for word of that, which was under
            // way.
            case ROUTE_ERROR, CONNECT_ERROR, UNREACHABLE, REJECTED ->
                    stands() || state == State.CLOSING ? disconnected(event) : failed(event);
            case DISCONNECTED -> disconnected(event);
            // Comes long after a disconnect; should that have been missed, it is over all the same.
            case QUIET -> stands() || state == State.CLOSING ? disconnected(event) : NOTHING;
            case DEVICE_REMOVED -> removed();
            case ADDRESS_CHANGED -> {
                // A connection goes on: its packets carry IP addresses. One on its way was
                // promised to a neighbour who may not be there any more.
                if (step != null && !stands()) {
                    yield failStep(
                            new Failure(
                                    Failure.Kind.ABORTED,
                                    "The Ethernet address of %s changed while connecting (the failover of a bond?): try again"
                                            .formatted(device)));
                }
                yield NOTHING;
            }
            case NONE, REQUEST, OTHER -> NOTHING;
        };
    }

    private Runnable resolved() throws Failure {
        IdentifierInfo info = events.control().describe(identifier.id());
        if (!info.device().equals(device)) {
            return tryNextSource(
                    new Failure(
                            Failure.Kind.INVALID_ADDRESS,
                            "The way to %s goes by device %s, and this adapter is %s: open that one, or name a local address of %s"
                                    .formatted(peer, info.device(), device, device)));
        }
        state = State.ROUTING;
        local = info.local();
        Failure.check(
                events.control().resolveRoute(identifier.id(), left()), "rdma_resolve_route", "");
        return NOTHING;
    }

    private Runnable unresolved(ConnectionEvent event) throws Failure {
        if (event.status() == -Errno.ETIMEDOUT && System.nanoTime() - stepEnds < 0) {
            resolve(); // once more from the same address
            return NOTHING;
        }
        return tryNextSource(Reasons.unresolved(event.status(), peer, device));
    }

    /** An identifier has one address for its life: another takes another identifier. */
    private Runnable tryNextSource(Failure otherwise) throws Failure {
        sources.remove();
        if (sources.isEmpty()) {
            throw otherwise;
        }
        Identifier old = identifier;
        identifier = events.create(this);
        events.destroy(old);
        resolve();
        return NOTHING;
    }

    private Runnable routed() throws Failure {
        state = State.CONNECTING;
        Failure.check(
                events.control().connect(identifier.id(), parameters()), "rdma_connect", peer, "");
        return NOTHING;
    }

    private Runnable answered(ConnectionEvent event) {
        switch (state) {
            case CONNECTING -> {
                hear(event);
                state = State.ANSWERED;
                return succeed();
            }
            case ACCEPTING -> {
                events.notAccepting(end.address());
                state = State.ESTABLISHED;
                end.open(peerInvalidatable(), this::broken);
                return succeed();
            }
            default -> {
                return NOTHING;
            }
        }
    }

    private Runnable failed(ConnectionEvent event) {
        Failure why =
                Reasons.failed(event, peer, state == State.CONNECTING, state == State.ANSWERED);
        if (event.kind() == ConnectionEvent.Kind.REJECTED
                && event.status() == ConnectionEvent.REJECTED_BY_PROGRAM) {
            received = event.data();
            announced = Announcement.read(received);
        }
        if (state == State.REQUESTED || state == State.ANSWERED) {
            gone = why; // told when it is accepted or completed
            return NOTHING;
        }
        return failStep(why);
    }

    private Runnable disconnected(ConnectionEvent event) {
        switch (state) {
            case ESTABLISHED -> {
                state = State.LEFT;
                end.shut();
                events.control().disconnect(identifier.id()); // says that the peer may go
                over.complete(Over.THERE);
                return NOTHING;
            }
            case DRAINING -> { // the peer was first
                end.flush();
                events.control().disconnect(identifier.id());
                return finish(null);
            }
            case DISCONNECTING -> {
                // The kernel's own patience, about a minute, may end before the deadline.
                boolean unheard =
                        event.kind() == ConnectionEvent.Kind.DISCONNECTED && event.status() < 0;
                return finish(
                        unheard
                                ? new Failure(
                                        Failure.Kind.TIMED_OUT,
                                        "%s did not confirm the end of the connection"
                                                .formatted(peer))
                                : null);
            }
            case CLOSING -> {
                return shut(null);
            }
            case REQUESTED, ACCEPTING, ANSWERED -> {
                return failed(
                        new ConnectionEvent(
                                ConnectionEvent.Kind.CONNECT_ERROR, 0, 0, 0, new byte[0], 0, 0));
            }
            default -> {
                return NOTHING;
            }
        }
    }

    private Runnable removed() {
        Failure why =
                new Failure(Failure.Kind.DEVICE_REMOVED, "Device %s is gone".formatted(device));
        boolean stood = stands();
        if (stood || state == State.LEFT || state == State.ACCEPTING) {
            end.flush();
        }
        if (state == State.CLOSING) {
            return shut(null);
        }
        if (state == State.REQUESTED || state == State.ANSWERED) {
            gone = why;
            return NOTHING;
        }
        CompletableFuture<Void> ended = step;
        forgetStep();
        if (stood) {
            over.complete(Over.DEVICE_REMOVED);
        }
        return both(drop(State.OVER, false), () -> end(ended, why));
    }

    /** A request of the queue pair failed, which in verbs is its end; nothing else tells of it. */
    private void broken() {
        Over how;
        synchronized (this) {
            if (state != State.ESTABLISHED) {
                return;
            }
            state = State.LEFT;
            how = end.usable() ? Over.BROKEN : Over.HERE; // or it was flushed
            end.shut();
            events.control().disconnect(identifier.id()); // should the peer be there, it shall know
        }
        over.complete(how);
    }

    void dataCame() {
        synchronized (this) {
            if (state == State.ACCEPTING) {
                events.control().dataCame(identifier.id());
            }
        }
    }

    @Override
    public void orphan(Throwable cause) {
        Failure why = ConnectionEvents.broken(cause);
        run(
                () -> {
                    if (state == State.CLOSING) {
                        return shut(null);
                    }
                    if (step != null) {
                        return failStep(why);
                    }
                    gone = why;
                    boolean stood = state == State.ESTABLISHED;
                    return stood ? () -> over.complete(Over.UNKNOWN) : NOTHING;
                });
    }

    /** Changes something under the lock, and does outside of it what that left to be done. */
    private void run(Supplier<Runnable> change) {
        Runnable after;
        synchronized (this) {
            after = change.get();
        }
        after.run();
    }

    // ---- steps

    private void begin(State next, Duration within) {
        state = next;
        step = new CompletableFuture<>();
        CompletableFuture<Void> begun = step;
        long nanoseconds = nanoseconds(within);
        stepEnds = System.nanoTime() + nanoseconds;
        deadline = events.timers().after(nanoseconds, () -> tooLate(begun, within));
    }

    private static long nanoseconds(Duration within) {
        return TimeUnit.NANOSECONDS.convert(within); // the longest possible where it is longer
    }

    private void tooLate(CompletableFuture<Void> which, Duration within) {
        failStep(
                which,
                () ->
                        new Failure(
                                Failure.Kind.TIMED_OUT,
                                Reasons.tooLate(state.name(), peer, within)));
    }

    private void forgetStep() {
        if (step != null) {
            deadline.cancel();
            step = null;
        }
    }

    private Runnable succeed() {
        CompletableFuture<Void> ended = step;
        forgetStep();
        return () -> end(ended, null);
    }

    private static void end(CompletableFuture<Void> ended, Failure failure) {
        if (ended == null) {
            return;
        }
        if (failure == null) {
            ended.complete(null);
        } else {
            ended.completeExceptionally(failure);
        }
    }

    /** A step fails, if it is under way still. */
    @SuppressWarnings("ReferenceEquality") // futures have no other equality
    private void failStep(CompletableFuture<Void> which, Supplier<Failure> why) {
        run(() -> step == which ? failStep(why.get()) : NOTHING);
    }

    /** The step that is under way fails, and with it what it was to lead to. */
    private Runnable failStep(Failure why) {
        return switch (state) {
            case RESOLVING, ROUTING, CONNECTING -> giveUp(why, false);
            case ACCEPTING -> giveUp(why, true);
            case DRAINING, DISCONNECTING -> {
                end.flush();
                yield finish(why);
            }
            default -> NOTHING;
        };
    }

    /** Not connected after all: the connecting side may try again, a request is used up. */
    private Runnable giveUp(Failure why, boolean touched) {
        CompletableFuture<Void> ended = step;
        forgetStep();
        if (touched) {
            end.flush();
        }
        // First: who hears of the failure may connect the queue pair again.
        Runnable released = drop(state == State.ACCEPTING ? State.OVER : State.FREE, !touched);
        return both(released, () -> end(ended, why));
    }

    /** Lets go of identifier and queue pair. */
    private Runnable drop(State next, boolean fresh) {
        state = next;
        gone = null;
        onAnswer.accept(this);
        local = null;
        if (identifier != null) {
            events.destroy(identifier);
            identifier = null;
        }
        QueuePairEnd left = end;
        end = null;
        if (left == null) {
            return NOTHING;
        }
        events.notAccepting(left.address());
        return () -> left.release(fresh);
    }

    private static final Runnable NOTHING = () -> {};

    private static Runnable both(Runnable first, Runnable second) {
        return () -> {
            try {
                first.run(); // may be the last close of an object, of which the device complains
            } finally {
                second.run();
            }
        };
    }

    private void require(boolean right, String what) throws Failure {
        if (right) {
            return;
        }
        boolean active =
                switch (state) {
                    case RESOLVING, ROUTING, CONNECTING, ANSWERED, ACCEPTING, ESTABLISHED -> true;
                    default -> false;
                };
        throw new Failure(
                active && !what.equals("reject") ? Failure.Kind.ACTIVE : Failure.Kind.WRONG_STATE,
                "%s is not possible now: this connector is %s"
                        .formatted(what, Reasons.said(state.name())));
    }

    private static void checkLength(Words said, int most, String when) throws Failure {
        int room = most - (said.announced() ? Announcement.BYTES : 0);
        if (said.data().length > room) {
            throw new Failure(
                    Failure.Kind.TOO_LONG,
                    "%d bytes of private data; when %s there is room for %d%s"
                            .formatted(
                                    said.data().length,
                                    when,
                                    room,
                                    said.announced()
                                            ? " behind this layer's header of " + Announcement.BYTES
                                            : ""));
        }
    }
}
