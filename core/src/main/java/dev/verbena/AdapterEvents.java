package dev.verbena;

import dev.verbena.internal.connect.ConnectionEvents;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.connect.Timers;
import dev.verbena.internal.connect.Uncaught;
import dev.verbena.internal.verbs.AsyncEvent;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/**
 * The one thread of an adapter that waits for what a device tells unasked: a completion queue that
 * overran, a shared receive queue that ran low, a device that failed, and all that happens to
 * connections. Callbacks run elsewhere, because they may wait for what only this thread can bring.
 */
final class AdapterEvents {
    /** Waits for descriptors, as {@link Descriptors#await} does. */
    interface Waiting {
        int await(int milliseconds, int... descriptors);
    }

    private static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final long PAUSE_NANOS = 100_000_000;

    private final DeviceControl control;
    private final int alarm;
    private final Thread thread;
    private final Map<Long, CompletionQueue> completionQueues = new ConcurrentHashMap<>();
    private final Map<Long, SharedReceiveQueue> sharedQueues = new ConcurrentHashMap<>();
    private final Map<Long, QueuePair> sharingQueuePairs = new ConcurrentHashMap<>();
    private final SerialCallbacks callbacks = new SerialCallbacks(Threads.CALLBACKS);
    private final Timers timers = new Timers(this::wake);
    private final Supplier<ConnectionControl> connectionControl;
    private final Waiting waiting;
    private volatile ConnectionEvents connections; // made when first needed, under the lock
    private volatile boolean stopped;
    private boolean stoppedHere; // by its own thread, which then closes what it looks at
    private volatile Throwable death; // or null
    private volatile boolean deviceFailed;
    private boolean ended; // of its own thread: the device brings no events any more

    AdapterEvents(
            String device, DeviceControl control, Supplier<ConnectionControl> connectionControl) {
        this(device, control, connectionControl, Descriptors::await);
    }

    AdapterEvents(
            String device,
            DeviceControl control,
            Supplier<ConnectionControl> connectionControl,
            Waiting waiting) {
        this.control = control;
        this.connectionControl = connectionControl;
        this.waiting = waiting;
        Threads.CALLBACKS.prepare();
        this.alarm = (int) VerbenaException.check(Descriptors.newAlarm(), "eventfd", "");
        try {
            this.thread =
                    Thread.ofPlatform().daemon().name("verbena-events-" + device).start(this::run);
        } catch (Throwable t) {
            Descriptors.close(alarm);
            throw t;
        }
    }

    void add(CompletionQueue queue) {
        completionQueues.put(queue.address(), queue);
    }

    void remove(CompletionQueue queue) {
        completionQueues.remove(queue.address());
    }

    void add(SharedReceiveQueue queue) {
        sharedQueues.put(queue.address(), queue);
    }

    void remove(SharedReceiveQueue queue) {
        sharedQueues.remove(queue.address());
    }

    /** Adds a queue pair that takes its receives from a shared queue. */
    void add(QueuePair queuePair) {
        sharingQueuePairs.put(queuePair.nativeAddress(), queuePair);
    }

    void remove(QueuePair queuePair) {
        sharingQueuePairs.remove(queuePair.nativeAddress());
    }

    /** The connections' part of this thread. */
    synchronized ConnectionEvents connections() throws Failure {
        if (connections == null) {
            connections = new ConnectionEvents(connectionControl.get(), timers);
            if (death != null) {
                connections.die(death);
            }
            wake();
        }
        return connections;
    }

    /** Whether the device said that it is of no use any more. */
    boolean deviceFailed() {
        return deviceFailed;
    }

    private void failed() {
        deviceFailed = true;
        completionQueues
                .values()
                .forEach(q -> Uncaught.run(() -> q.breakDownIfOpen(Status.INTERNAL_ERROR)));
        breakSharedQueues();
    }

    private void breakSharedQueues() {
        sharedQueues.values().forEach(q -> Uncaught.run(() -> callbacks.execute(q::breakDown)));
    }

    /** Calls back of a shared receive queue, one call after the other. */
    void call(Runnable callback) {
        callbacks.execute(callback);
    }

    private void wake() {
        Descriptors.raise(alarm);
    }

    /** Waits until the callbacks that were called so far are over; not when called by one. */
    void finish() {
        callbacks.finish(PATIENCE, "a callback of a shared receive queue");
    }

    /** Ends the thread; called when no object of the adapter is left. */
    void stop() {
        stopped = true;
        stoppedHere = Thread.currentThread() == thread;
        if (!stoppedHere) {
            wake();
            Threads.join(thread, PATIENCE, "the adapter's event thread");
            closeDescriptors();
        }
    }

    private void closeDescriptors() {
        ConnectionEvents open = connections;
        if (open != null) {
            open.close();
        }
        Descriptors.close(alarm);
    }

    private void run() {
        try {
            while (!stopped) {
                try {
                    waitAndHandle();
                } catch (OutOfMemoryError e) {
                    // For a moment, most likely: what is ready stays ready.
                    Uncaught.report(e);
                    LockSupport.parkNanos(PAUSE_NANOS);
                }
            }
        } catch (Throwable t) {
            die(t);
            return;
        }
        if (stoppedHere) {
            closeDescriptors();
        }
    }

    /**
     * Waits for events and handles each. What goes wrong with one is reported and ends nothing
     * else; this throws when events cannot be waited for, or taken, any more.
     */
    private void waitAndHandle() {
        ConnectionEvents cm = connections;
        int ready =
                waiting.await(
                        timers.patience(),
                        ended ? -1 : control.asyncDescriptor(),
                        alarm,
                        cm == null ? -1 : cm.descriptor());
        VerbenaException.check(ready, "poll", "The adapter hears of no events any more");
        if ((ready & 2) != 0) {
            Descriptors.silence(alarm);
        }
        timers.run();
        // Any of these may close the last object, and the device with it.
        if (!stopped && (ready & 1) != 0) {
            Uncaught.run(() -> handle(control.takeAsyncEvent()));
        }
        if (!stopped && (ready & 4) != 0) {
            cm.handle();
        }
    }

    /**
     * Nobody hears of anything any more: what waits must know. The descriptors stay until the end.
     */
    private synchronized void die(Throwable cause) {
        death = cause;
        if (connections != null) {
            Uncaught.run(() -> connections.die(cause));
        }
        completionQueues
                .values()
                .forEach(q -> Threads.runCallback(() -> q.breakDownIfOpen(Status.INTERNAL_ERROR)));
        breakSharedQueues();
        Uncaught.report(cause);
    }

    private void handle(AsyncEvent event) {
        switch (event.kind()) {
            case COMPLETION_QUEUE_BROKEN -> {
                CompletionQueue queue = completionQueues.get(event.object());
                if (queue != null) {
                    queue.breakDownIfOpen(Status.BUFFER_OVERFLOW);
                }
            }
            case DEVICE_BROKEN -> failed();
            case ENDED -> {
                ended = true;
                if (!deviceFailed) {
                    failed();
                }
            }
            // A device that was removed leaves its descriptor readable for ever.
            case NONE -> ended = deviceFailed;
            case RECEIVES_RAN_LOW -> {
                SharedReceiveQueue queue = sharedQueues.get(event.object());
                if (queue != null) {
                    callbacks.execute(queue::ranLow);
                }
            }
            case DATA_CAME -> {
                ConnectionEvents cm = connections;
                if (cm != null) {
                    cm.dataCame(event.object());
                }
            }
            case LAST_RECEIVE_REACHED -> {
                QueuePair queuePair = sharingQueuePairs.get(event.object());
                if (queuePair != null) {
                    queuePair.lastReceiveReached();
                }
            }
            case SHARED_QUEUE_BROKEN -> {
                SharedReceiveQueue queue = sharedQueues.get(event.object());
                if (queue != null) {
                    callbacks.execute(queue::breakDown);
                }
            }
            case OTHER -> {} // completions tell of a queue pair's end
        }
    }
}
