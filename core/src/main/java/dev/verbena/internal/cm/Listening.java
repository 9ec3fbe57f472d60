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
 * <p>librdmacm has no way to stop listening but destroying the identifier, and the address with it.
 * So every identifier here shares its address, and a pause puts one in the place of another that
 * only has the address: peers are refused by their own machine's word for "nobody listens", and
 * nobody else can listen there meanwhile.
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
        this.identifier = bound(address, true);
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

    /** The address is had alone at first, and shared with the one that takes its place later. */
    private Identifier bound(InetSocketAddress to, boolean alone) throws Failure {
        Identifier made = events.create(this);
        try {
            if (!alone) {
                share(made);
            }
            Failure.check(
                    control.bind(made.id(), to),
                    "rdma_bind_addr(%s)".formatted(to),
                    "It has to be an address of a network interface of device %s (rdma link, ip address), and free"
                            .formatted(device));
            if (alone) {
                share(made);
            }
            return made;
        } catch (Failure f) {
            events.destroy(made);
            throw f;
        }
    }

    private void share(Identifier made) throws Failure {
        Failure.check(control.shareAddress(made.id()), "rdma_set_option(REUSEADDR)", "");
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
     * @throws Failure when that cannot be done: peers may connect still
     */
    public synchronized void pause() throws Failure {
        if (listening && identifier != null) {
            Identifier silent = bound(address, false);
            events.destroy(identifier);
            identifier = silent;
            listening = false;
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
