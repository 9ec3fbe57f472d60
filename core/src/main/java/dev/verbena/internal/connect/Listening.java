package dev.verbena.internal.connect;

import dev.verbena.LocalEndpoint;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionEvents.Identifier;
import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * An address that peers connect to, and the requests that were not answered yet.
 *
 * <p>librdmacm stops listening only when the identifier is destroyed, and the address goes with it.
 * So a pause binds another identifier to the address at once: the kernel then refuses peers as if
 * nobody listened, and no other program can have the address. Between the two identifiers it is
 * free for some microseconds; the kernel binds no second one to an address that is listened to.
 *
 * <p>Calls come from any thread, events and expiries from the adapter's event thread.
 */
public final class Listening implements ConnectionEvents.Handler {
    /**
     * Limits for unanswered requests.
     *
     * @param backlog how many there may be
     * @param forgottenAfter how long a full backlog keeps one whose handler has returned
     * @param answerWithin after which time one is refused
     */
    public record Limits(int backlog, Duration forgottenAfter, Duration answerWithin) {}

    private final ConnectionEvents events;
    private final ConnectionControl control;
    private final String device;
    private final Limits limits;
    private final Consumer<ConnectionStateMachine> onRequest;
    private final Map<ConnectionStateMachine, Waiting> unanswered =
            new LinkedHashMap<>(); // under its own lock

    // All of these under this object's lock.
    private @Nullable Identifier identifier; // null when closed
    private InetSocketAddress address;
    private boolean listening;
    private @Nullable Throwable broken;

    /**
     * Binds the address; peers are refused until {@link #resume}.
     *
     * @param address the address; port 0 takes any
     * @param onRequest gets each request, on the adapter's event thread; when it throws, the
     *     request is refused
     * @throws VerbenaException if the address cannot be bound
     */
    public Listening(
            ConnectionEvents events,
            String device,
            InetSocketAddress address,
            Limits limits,
            Consumer<ConnectionStateMachine> onRequest) {
        this.events = events;
        this.control = events.control();
        this.device = device;
        this.limits = limits;
        this.onRequest = onRequest;
        this.address = address;
        this.identifier = bound(address);
    }

    /** Binds an identifier to an address, which has to be the device's. */
    private Identifier bound(InetSocketAddress to) {
        Identifier created = events.create(this);
        try {
            FailureMessages.checkAddress(
                    control.bind(created.id(), to),
                    control,
                    to,
                    Status.SHARING_VIOLATION,
                    "rdma_bind_addr(%s)".formatted(to),
                    "It has to be an address of a network interface of device %s (rdma link, ip address), and free"
                            .formatted(device));
            IdentifierInfo info = created.describe();
            if (!info.device().isEmpty() && !info.device().equals(device)) {
                throw new VerbenaException(
                        Status.INVALID_ADDRESS,
                        "%s is an address of device %s, and this adapter is %s"
                                .formatted(to.getAddress(), info.device(), device));
            }
            address = Objects.requireNonNull(info.local()); // with the port chosen for port 0
            return created;
        } catch (RuntimeException | Error e) {
            created.destroy();
            throw e;
        }
    }

    /**
     * Lets connectors connect from the address; not for one that is listened to or closed.
     *
     * @throws VerbenaException when the kernel refuses
     */
    public synchronized void share() {
        Objects.requireNonNull(identifier).shareAddress();
    }

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

    synchronized LocalEndpoint info() {
        LocalEndpoint.Use listener =
                listening ? LocalEndpoint.Use.LISTENING : LocalEndpoint.Use.PAUSED;
        LocalEndpoint.Use use = limits.backlog() == 0 ? LocalEndpoint.Use.SHARED : listener;
        synchronized (unanswered) {
            return new LocalEndpoint(address, use, limits.backlog(), unanswered.size());
        }
    }

    /**
     * Lets peers connect.
     *
     * @throws VerbenaException when another program listens on the address, or the device is gone
     */
    public synchronized void resume() {
        if (broken != null) {
            throw FailureMessages.again(FailureMessages.thrown(broken));
        }
        if (!listening && identifier != null) {
            FailureMessages.checkAddress(
                    control.listen(identifier.id(), limits.backlog()),
                    control,
                    address,
                    Status.SHARING_VIOLATION,
                    "rdma_listen(%s)".formatted(address),
                    "Somebody listens there (rdma resource show cm_id says who)");
            listening = true;
            events.counts().listening(true);
        }
    }

    /**
     * Refuses peers as if nobody listened, and keeps the address. Requests that were handed out
     * stay.
     *
     * @throws VerbenaException when another program got the address in that moment: this is of no
     *     use then
     */
    public synchronized void pause() {
        if (listening && identifier != null) {
            close();
            try {
                identifier = bound(address);
            } catch (Throwable t) {
                broken = t; // allocates nothing: there may be no memory
                throw t;
            }
        }
    }

    public synchronized void close() {
        if (identifier != null) {
            identifier.destroy();
            identifier = null;
            if (listening) {
                listening = false;
                events.counts().listening(false);
            }
        }
    }

    @Override
    public void handle(ConnectionEvent event) {
        switch (event.kind()) {
            case REQUEST -> request(event);
            case DEVICE_REMOVED -> fail(FailureMessages.deviceRemoved(device));
            default -> {} // a changed Ethernet address does not matter to those that listen on IP
        }
    }

    /** A request that was neither accepted nor rejected yet. */
    private static final class Waiting {
        Timers.@Nullable Timer deadline;
        boolean handled; // its handler has returned
        long since; // when it returned
    }

    /**
     * Passes a request to its handler. If there is no thread or memory for a request, only that
     * request is refused, and the exception is rethrown.
     */
    private void request(ConnectionEvent event) {
        ConnectionStateMachine request = null;
        try {
            IdentifierInfo info = control.describe(event.id());
            if (admits(info)) {
                request = new ConnectionStateMachine(events, device, event, info, this::answered);
                expect(request);
                onRequest.accept(request);
                return;
            }
        } catch (Throwable t) {
            if (request == null) {
                control.destroy(event.id());
            } else {
                request.fail(
                        ConnectionTrigger.EXPIRE,
                        new VerbenaException(
                                Status.CONNECTION_ABORTED,
                                "The request could not be served; the cause says why",
                                t));
            }
            throw t;
        }
        control.destroy(event.id());
    }

    /**
     * Whether a request is for this adapter's device, and there is room for it. A listener on all
     * addresses of the machine gets requests for all devices. In a full backlog the oldest request
     * makes room whose handler returned some time ago without an answer: it was most likely
     * forgotten, and forgotten requests must not keep all others out.
     */
    private boolean admits(IdentifierInfo info) {
        if (!info.device().equals(device)) {
            return false;
        }
        ConnectionStateMachine oldest;
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
        expire(oldest, "when the backlog of %d was full".formatted(limits.backlog()));
        return true; // it was refused, or answered just now; only this thread adds requests
    }

    private boolean forgotten(Waiting waiting) {
        return waiting.handled
                && System.nanoTime() - waiting.since
                        >= TimeUnit.NANOSECONDS.convert(limits.forgottenAfter());
    }

    private void expect(ConnectionStateMachine request) {
        Waiting waiting = new Waiting();
        Duration within = limits.answerWithin();
        synchronized (unanswered) {
            unanswered.put(request, waiting);
        }
        waiting.deadline =
                events.timers()
                        .after(
                                TimeUnit.NANOSECONDS.convert(within),
                                () -> expire(request, "within %s".formatted(Text.time(within))));
    }

    private void expire(ConnectionStateMachine request, String when) {
        request.fail(
                ConnectionTrigger.EXPIRE,
                new VerbenaException(
                        Status.CONNECTION_ABORTED,
                        "The request of %s to %s was refused: nobody had accepted or rejected it %s. A listener's handler has to accept, reject or close each connector that it gets"
                                .formatted(request.peer(), address(), when)));
    }

    private void answered(ConnectionStateMachine request) {
        Waiting waited;
        synchronized (unanswered) {
            waited = unanswered.remove(request);
        }
        if (waited != null && waited.deadline != null) {
            waited.deadline.cancel();
        }
    }

    /**
     * Notes that the handler of a request has returned. If it has not answered, another thread may
     * do so later, or the request was forgotten.
     */
    public void handled(ConnectionStateMachine request) {
        synchronized (unanswered) {
            Waiting waiting = unanswered.get(request);
            if (waiting != null) {
                waiting.handled = true;
                waiting.since = System.nanoTime();
            }
        }
    }

    private synchronized void fail(VerbenaException why) {
        broken = why;
        close();
    }

    @Override
    public void eventThreadEnded(Throwable cause) {
        fail(FailureMessages.noEvents(cause));
    }
}
