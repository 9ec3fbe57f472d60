package dev.verbena.internal.connect;

import dev.verbena.internal.connect.ConnectionEvents.Identifier;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.IdentifierInfo;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * An address that peers connect to.
 *
 * <p>librdmacm has no way to stop listening but destroying the identifier, and the address goes
 * with it. So a pause binds another one to the address at once: peers are refused by their own
 * machine's word for "nobody listens", and nobody else can have the address meanwhile. Between the
 * two it is free for some microseconds; the kernel lets no second one bind an address that is
 * listened to.
 */
public final class Listening implements ConnectionEvents.Handler {
    /**
     * What requests may take.
     *
     * @param backlog how many may be unanswered
     * @param forgottenAfter how long after its handler has returned an unanswered one is kept in a
     *     full backlog
     * @param answerWithin after which time an unanswered one is refused
     */
    public record Limits(int backlog, Duration forgottenAfter, Duration answerWithin) {}

    private final ConnectionEvents events;
    private final ConnectionControl control;
    private final String device;
    private final Limits limits;
    private final Consumer<Dialogue> onRequest;
    private final Map<Dialogue, Waiting> unanswered = new LinkedHashMap<>(); // under its own lock

    // All of these under this object's lock.
    private Identifier identifier; // or null when closed
    private InetSocketAddress address;
    private boolean listening;
    private Failure broken; // or null

    /**
     * Binds the address; nobody is listened to before {@link #resume}.
     *
     * @param events the adapter's
     * @param device the adapter's device
     * @param address the address; port 0 takes any
     * @param limits what requests may take
     * @param onRequest who answers them; called by the adapter's thread. When it throws, the
     *     request is refused
     * @throws Failure when the address cannot be had
     */
    public Listening(
            ConnectionEvents events,
            String device,
            InetSocketAddress address,
            Limits limits,
            Consumer<Dialogue> onRequest)
            throws Failure {
        this.events = events;
        this.control = events.control();
        this.device = device;
        this.limits = limits;
        this.onRequest = onRequest;
        this.identifier = bound(address);
        IdentifierInfo info = control.describe(identifier.id());
        this.address = info.local();
        if (!info.device().isEmpty() && !info.device().equals(device)) {
            events.destroy(identifier);
            throw new Failure(
                    Failure.Kind.INVALID_ADDRESS,
                    "%s is an address of device %s, and this adapter is %s"
                            .formatted(address.getAddress(), info.device(), device));
        }
    }

    private Identifier bound(InetSocketAddress to) throws Failure {
        Identifier made = events.create(this);
        try {
            Failure.checkAddress(
                    control.bind(made.id(), to),
                    control,
                    to,
                    Failure.Kind.ADDRESS_IN_USE,
                    "rdma_bind_addr(%s)".formatted(to),
                    "It has to be an address of a network interface of device %s (rdma link, ip address), and free"
                            .formatted(device));
            return made;
        } catch (Failure f) {
            events.destroy(made);
            throw f;
        }
    }

    /**
     * Lets connectors connect from the address; not for one that is listened to.
     *
     * @throws Failure when the kernel refuses
     */
    public synchronized void share() throws Failure {
        Failure.check(control.shareAddress(identifier.id()), "rdma_set_option(REUSEADDR)", "");
    }

    /**
     * The address.
     *
     * @return with the port that was chosen
     */
    public synchronized InetSocketAddress address() {
        return address;
    }

    /**
     * Whether peers may connect.
     *
     * @return false while paused
     */
    public synchronized boolean listens() {
        return listening;
    }

    /**
     * Lets peers connect.
     *
     * @throws Failure when somebody else listens on the address, or the device is gone
     */
    public synchronized void resume() throws Failure {
        if (broken != null) {
            throw broken;
        }
        if (!listening && identifier != null) {
            Failure.check(
                    control.listen(identifier.id(), limits.backlog()),
                    "rdma_listen(%s)".formatted(address),
                    "Somebody listens there (rdma resource show cm_id says who)");
            listening = true;
        }
    }

    /**
     * Refuses peers as if nobody listened, and keeps the address. Requests that were handed out
     * stay.
     *
     * @throws Failure when somebody else got the address in that moment: this is of no use any more
     */
    public synchronized void pause() throws Failure {
        if (listening && identifier != null) {
            close();
            try {
                identifier = bound(address);
            } catch (Failure f) {
                broken = f;
                throw f;
            }
        }
    }

    /** Gives the address up. */
    public synchronized void close() {
        if (identifier != null) {
            events.destroy(identifier);
            identifier = null;
            listening = false;
        }
    }

    @Override
    public void handle(ConnectionEvent event) {
        switch (event.kind()) {
            case REQUEST -> request(event);
            case DEVICE_REMOVED ->
                    stop(
                            new Failure(
                                    Failure.Kind.DEVICE_REMOVED,
                                    "Device %s is gone".formatted(device)));
            default -> {} // an address that changes does so under all that listen on it
        }
    }

    /** A request that was neither accepted nor rejected yet. */
    private static final class Waiting {
        Timers.Timer deadline;
        boolean handled; // its handler has returned,
        long since; // and when that was
    }

    /**
     * Hands a request out. One that cannot be served, for want of a thread or of memory, is refused
     * alone: what was thrown goes on to who called, once the peer is told.
     */
    private void request(ConnectionEvent event) {
        Dialogue dialogue = null;
        try {
            if (admits(event)) {
                dialogue = new Dialogue(events, device, event, this::answered);
                expect(dialogue);
                onRequest.accept(dialogue);
                return;
            }
        } catch (Throwable t) {
            if (dialogue == null) {
                control.destroy(event.id());
            } else {
                dialogue.abandon(
                        new Failure(
                                Failure.Kind.ABORTED,
                                "It could not be served (%s)".formatted(t),
                                t));
            }
            throw t;
        }
        control.destroy(event.id());
    }

    /**
     * Whether a request is for this adapter's device, and there is room for it: who listens on all
     * addresses of the machine hears of peers of all its devices. In a full backlog the oldest
     * request makes room whose handler has returned some time ago, without an answer: it was most
     * likely forgotten, and those that are forgotten must not keep all others out.
     */
    private boolean admits(ConnectionEvent event) {
        if (!control.describe(event.id()).device().equals(device)) {
            return false;
        }
        Dialogue oldest;
        synchronized (unanswered) {
            if (unanswered.size() < limits.backlog()) {
                return true;
            }
            oldest =
                    unanswered.entrySet().stream()
                            .filter(entry -> forgotten(entry.getValue()))
                            .map(Map.Entry::getKey)
                            .findFirst()
                            .orElse(null);
        }
        if (oldest == null) {
            return false;
        }
        abandon(oldest, "when the backlog of %d was full".formatted(limits.backlog()));
        return true; // it was refused, or answered just now; only this thread adds others
    }

    private boolean forgotten(Waiting waiting) {
        return waiting.handled
                && System.nanoTime() - waiting.since
                        >= TimeUnit.NANOSECONDS.convert(limits.forgottenAfter());
    }

    private void expect(Dialogue dialogue) {
        Waiting waiting = new Waiting();
        Duration within = limits.answerWithin();
        synchronized (unanswered) {
            unanswered.put(dialogue, waiting);
        }
        waiting.deadline =
                events.timers()
                        .after(
                                TimeUnit.NANOSECONDS.convert(within),
                                () ->
                                        abandon(
                                                dialogue,
                                                "within %s".formatted(Reasons.seconds(within))));
    }

    private void abandon(Dialogue dialogue, String when) {
        dialogue.abandon(
                new Failure(
                        Failure.Kind.ABORTED,
                        "The request of %s to %s was refused: nobody had accepted or rejected it %s. A listener's handler has to accept, reject or close each connector that it gets"
                                .formatted(dialogue.peer(), address(), when)));
    }

    private void answered(Dialogue dialogue) {
        Waiting waited;
        synchronized (unanswered) {
            waited = unanswered.remove(dialogue);
        }
        if (waited != null && waited.deadline != null) {
            waited.deadline.cancel();
        }
    }

    /**
     * The handler of a request has returned. When it has not answered, somebody else may do so
     * later, or nobody.
     *
     * @param dialogue the request
     */
    public void handled(Dialogue dialogue) {
        synchronized (unanswered) {
            Waiting waiting = unanswered.get(dialogue);
            if (waiting != null) {
                waiting.handled = true;
                waiting.since = System.nanoTime();
            }
        }
    }

    private synchronized void stop(Failure why) {
        broken = why;
        close();
    }

    @Override
    public void orphan(Throwable cause) {
        stop(ConnectionEvents.broken(cause));
    }
}
