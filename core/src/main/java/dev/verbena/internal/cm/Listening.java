package dev.verbena.internal.cm;

import dev.verbena.internal.cm.ConnectionEvents.Identifier;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.IdentifierInfo;

import java.net.InetSocketAddress;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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
    private final ConnectionEvents events;
    private final ConnectionControl control;
    private final String device;
    private final int backlog;
    private final Consumer<Dialogue> onRequest;
    private final Set<Dialogue> unanswered = ConcurrentHashMap.newKeySet();

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
     * @param backlog how many requests may be unanswered
     * @param onRequest who answers them; called by the adapter's thread
     * @throws Failure when the address cannot be had
     */
    public Listening(
            ConnectionEvents events,
            String device,
            InetSocketAddress address,
            int backlog,
            Consumer<Dialogue> onRequest)
            throws Failure {
        this.events = events;
        this.control = events.control();
        this.device = device;
        this.backlog = backlog;
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
                    to.getPort(),
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
                    control.listen(identifier.id(), backlog),
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

    private void request(ConnectionEvent event) {
        IdentifierInfo info = control.describe(event.id());
        // Who listens on all addresses of the machine hears of peers of all its devices.
        if (!info.device().equals(device) || unanswered.size() >= backlog) {
            control.destroy(event.id());
            return;
        }
        Dialogue dialogue = new Dialogue(events, device, event, unanswered::remove);
        unanswered.add(dialogue);
        onRequest.accept(dialogue);
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
