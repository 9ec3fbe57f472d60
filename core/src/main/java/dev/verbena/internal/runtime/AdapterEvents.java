package dev.verbena.internal.runtime;

import dev.verbena.AdapterEvent;
import dev.verbena.internal.util.Log;
import dev.verbena.internal.util.Uncaught;
import dev.verbena.internal.verbs.AsyncEvent;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * The event loop of one adapter: a thread that waits for the device's asynchronous events, for
 * timers, and for rdma_cm's events once a {@link Source} of them is attached.
 *
 * <p>Objects register a listener under their native address, by which events name them. Listeners
 * are called by the event thread and must not wait; callbacks of the program run on other threads,
 * because they may wait for what only this thread can bring. All other methods may be called from
 * any thread.
 */
public final class AdapterEvents {
    /** Where events come from beside the device. */
    public interface Source {
        /** What becomes readable with an event. */
        int descriptor();

        /** Takes one event and handles it; what it throws ends the event thread. */
        void handle();

        /** The event thread ended: no event will be handled any more. */
        void threadEnded(Throwable cause);

        void close();
    }

    /** How long {@link #stop} waits, and the close of what has callbacks. */
    public static final Duration TIMEOUT = Duration.ofSeconds(10);

    private static final long PAUSE_NANOS = 100_000_000;
    private static final int MOST_IN_A_ROW = 1024; // events before deadlines are looked at

    private final String device;
    private final DeviceControl control;
    private final EventListeners listeners;
    private final int eventFd;
    private final Thread thread;
    private final Map<Long, Registered> objects = new ConcurrentHashMap<>();
    private final Timers timers = new Timers(this::wake);
    private volatile @Nullable Source source; // attached under the lock
    private volatile boolean stopped;
    private boolean stoppedByItself; // then the thread closes the descriptors at its end
    private volatile @Nullable Throwable endCause; // why the thread ended early
    private volatile boolean deviceFailed;
    private int eventsInARow; // of the thread
    private boolean deviceEnded; // of the thread: the device brings no events any more

    public AdapterEvents(String device, DeviceControl control) {
        this.device = device;
        this.control = control;
        this.listeners = new EventListeners(device);
        Uncaught.prepare();
        Threads.CALLBACKS.prepare();
        int made = -1;
        try {
            made = (int) Errno.check(Descriptors.newEventFd(), "eventfd", "");
            this.eventFd = made;
            this.thread =
                    Thread.ofPlatform().daemon().name("verbena-events-" + device).start(this::run);
        } catch (Throwable t) {
            if (made >= 0) {
                Descriptors.close(made);
            }
            Threads.CALLBACKS.release();
            throw t;
        }
    }

    // ---- registrations

    private record Registered(Object object, Consumer<AdapterEvent.Type> listener) {}

    /**
     * Registers a queue pair, completion queue or shared receive queue.
     *
     * @param address of its {@code ibv_qp}, {@code ibv_cq} or {@code ibv_srq}
     * @param listener called by the event thread with each event that names the object, and with
     *     {@link AdapterEvent.Type#DEVICE_FAILED} if the device failed or no event will come any
     *     more. If that is so already, it is called at once, perhaps a second time. It must not
     *     wait
     */
    public void register(long address, Object object, Consumer<AdapterEvent.Type> listener) {
        objects.put(address, new Registered(object, listener));
        if (deviceFailed || endCause != null) {
            Uncaught.run(() -> listener.accept(AdapterEvent.Type.DEVICE_FAILED));
        }
    }

    /** Must be called before the native object is destroyed: its address may be used again. */
    public void forget(long address) {
        objects.remove(address);
    }

    /**
     * Attaches the second source of events, once; closed with this. The source learns at once when
     * the thread has ended.
     */
    public synchronized void attach(Source attached) {
        source = attached;
        if (endCause != null) {
            attached.threadEnded(endCause);
        }
        wake();
    }

    /** The program's listeners of the device's events. */
    public EventListeners listeners() {
        return listeners;
    }

    public Timers timers() {
        return timers;
    }

    /** Whether the device reported that it failed or was removed. */
    public boolean deviceFailed() {
        return deviceFailed;
    }

    /** Whether the event thread ended by a failure: no event will be taken any more. */
    public boolean ended() {
        return endCause != null;
    }

    /**
     * Ends the thread; called when no object of the adapter is left. False when it was still
     * running after {@link #TIMEOUT}: the descriptors stay open.
     */
    public boolean stop() {
        stopped = true;
        stoppedByItself = Thread.currentThread() == thread;
        if (!stoppedByItself) {
            wake();
            if (!Threads.join(thread, TIMEOUT)) {
                return false;
            }
            closeDescriptors();
        }
        return true;
    }

    private void closeDescriptors() {
        Source open = source;
        if (open != null) {
            open.close();
        }
        Descriptors.close(eventFd);
    }

    private void wake() {
        Descriptors.setReadable(eventFd);
    }

    // ---- the event thread

    private void run() {
        try {
            while (!stopped) {
                try {
                    waitAndHandle();
                } catch (OutOfMemoryError e) {
                    // For a moment, most likely: what is ready stays ready.
                    Uncaught.report(e);
                    Uncaught.pause(PAUSE_NANOS);
                }
            }
        } catch (Throwable t) {
            threadFailed(t); // may close the adapter
        }
        Threads.CALLBACKS.release();
        if (stoppedByItself) {
            closeDescriptors();
        }
    }

    /**
     * Waits for events and handles each. What goes wrong with one is reported and ends nothing
     * else; this throws when events cannot be waited for, or taken, any more.
     */
    private void waitAndHandle() {
        Source connections = source;
        int ready =
                control.await(
                        timers.sleepMillis(),
                        deviceEnded ? -1 : control.asyncDescriptor(),
                        eventFd,
                        connections == null ? -1 : connections.descriptor());
        Errno.check(ready, "poll", "The adapter gets no events any more");
        if ((ready & 2) != 0) {
            Descriptors.drain(eventFd);
        }
        // Any of these may close the last object, and the device with it.
        if ((ready & 1) != 0) {
            Uncaught.run(this::takeAndHandle);
        }
        // After a pause of the process, an event that came in time still counts, so events go
        // before deadlines.
        boolean more = (ready & 4) != 0;
        eventsInARow = more ? eventsInARow + 1 : 0;
        try {
            if (connections != null && more && !stopped) {
                connections.handle();
            }
        } finally {
            if (!stopped && eventsInARow % MOST_IN_A_ROW == 0) {
                timers.run();
            }
        }
    }

    /** No event will be handled any more: everything that waits for one fails. */
    private synchronized void threadFailed(Throwable cause) {
        endCause = cause;
        Source connections = source;
        if (connections != null) {
            Uncaught.run(() -> connections.threadEnded(cause));
        }
        failQueues();
        Uncaught.run(listeners::threadEnded);
        // The descriptors stay open until stop().
        Uncaught.report(
                "The event thread of %s has ended: its adapter gets no events any more, and its connections have ended. Close its objects, and open it again"
                        .formatted(device),
                cause);
    }

    private void deviceHasFailed() {
        if (!deviceFailed) {
            Uncaught.run( // there may be no memory for the message
                    () ->
                            Log.warn(
                                    "%s has failed or was removed: its queues and connections end. Close its objects; open it again when it is back"
                                            .formatted(device),
                                    null));
        }
        deviceFailed = true;
        failQueues();
    }

    private void failQueues() {
        for (Registered each : objects.values()) {
            Uncaught.run(() -> each.listener.accept(AdapterEvent.Type.DEVICE_FAILED));
        }
    }

    /**
     * The object that an event names. It is looked up before the event is acknowledged: after that
     * the object may be destroyed, and another object may have its address.
     */
    private final class Named {
        @Nullable Registered registered;

        @Nullable Object find(long address) {
            Registered found = objects.get(address);
            registered = found;
            return found == null ? null : found.object;
        }
    }

    private void takeAndHandle() {
        Named named = new Named();
        AsyncEvent event = control.takeAsyncEvent(named::find);
        if (event == null) {
            // A device that was removed leaves its descriptor readable for ever.
            deviceEnded = deviceFailed;
            return;
        }
        try {
            handle(event, named);
        } finally {
            listeners.arrived(event);
        }
    }

    private void handle(AsyncEvent event, Named named) {
        switch (event.type()) {
            case DEVICE_FAILED -> deviceHasFailed();
            case DEVICE_REMOVED -> {
                deviceEnded = true;
                if (!deviceFailed) {
                    deviceHasFailed();
                }
            }
            default -> {}
        }
        if (named.registered != null) {
            named.registered.listener.accept(event.type());
        }
    }
}
