package dev.verbena;

import dev.verbena.internal.verbs.AsyncEvent;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;

import java.time.Duration;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;

/**
 * The one thread of an adapter that waits for what a device tells unasked: a completion queue that
 * overran, a shared receive queue that ran low, a device that failed. It runs the callbacks of
 * shared receive queues, one after the other.
 */
final class AdapterEvents {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final DeviceControl control;
    private final int alarm;
    private final Thread thread;
    private final Map<Long, CompletionQueue> completionQueues = new ConcurrentHashMap<>();
    private final Map<Long, SharedReceiveQueue> sharedQueues = new ConcurrentHashMap<>();
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private volatile boolean stopped;

    AdapterEvents(String device, DeviceControl control) {
        this.control = control;
        this.alarm = (int) VerbenaException.check(Descriptors.newAlarm(), "eventfd", "");
        this.thread =
                Thread.ofPlatform().daemon().name("verbena-events-" + device).start(this::run);
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

    /** Runs something on this thread. */
    void execute(Runnable task) {
        tasks.add(task);
        Descriptors.raise(alarm);
    }

    /** Waits until what runs on this thread now is over; not when called by it. */
    void finish() {
        CountDownLatch over = new CountDownLatch(1);
        execute(over::countDown);
        if (Thread.currentThread() != thread) {
            Threads.await(over, PATIENCE, "a callback of a shared receive queue");
        }
    }

    /** Ends the thread; called when no object of the adapter is left. */
    void stop() {
        stopped = true;
        Descriptors.raise(alarm);
        Threads.join(thread, PATIENCE, "a callback of a shared receive queue");
    }

    private void run() {
        try {
            while (!stopped) {
                int ready = Descriptors.await(control.asyncDescriptor(), alarm, -1);
                if ((ready & 2) != 0) {
                    Descriptors.silence(alarm);
                }
                for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                    task.run();
                }
                if (stopped) {
                    break; // a task closed the last object: the device may be closed
                }
                if ((ready & 1) != 0) {
                    handle(control.takeAsyncEvent());
                }
            }
        } finally {
            Descriptors.close(alarm);
        }
    }

    private void handle(AsyncEvent event) {
        switch (event.kind()) {
            case COMPLETION_QUEUE_BROKEN -> {
                CompletionQueue queue = completionQueues.get(event.object());
                if (queue != null) {
                    queue.breakDownIfOpen(Status.BUFFER_OVERFLOW);
                }
            }
            case DEVICE_BROKEN ->
                    completionQueues
                            .values()
                            .forEach(q -> q.breakDownIfOpen(Status.INTERNAL_ERROR));
            case RECEIVES_RAN_LOW -> {
                SharedReceiveQueue queue = sharedQueues.get(event.object());
                if (queue != null) {
                    queue.ranLow();
                }
            }
            case NONE, OTHER -> {} // completions tell of a queue pair's end
        }
    }
}
