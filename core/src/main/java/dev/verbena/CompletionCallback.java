package dev.verbena;

import dev.verbena.NativeObject.ClosedException;
import dev.verbena.internal.queue.EventChannel;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.runtime.Uncaught;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * The thread of a completion queue with a callback: waits for the queue and calls back. Failures of
 * a wait or of the callback are reported, and the thread goes on.
 */
final class CompletionCallback {
    /** How long {@link #join} waits. */
    static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);

    // The pause after a wait that failed doubles from one to the other.
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final CompletionQueue queue;
    private final EventChannel<CompletionQueue.Events> channel;
    private final Consumer<Status> callback;
    private final Thread thread;

    /** Starts the thread, which releases a reference to the queue at its end. */
    CompletionCallback(
            ThreadFactory threads,
            CompletionQueue queue,
            EventChannel<CompletionQueue.Events> channel,
            Consumer<Status> callback) {
        this.queue = queue;
        this.channel = channel;
        this.callback = callback;
        this.thread = threads.newThread(this::run);
        thread.setName("verbena-completions-" + queue.adapter().name());
        thread.start();
    }

    private void run() {
        try {
            long pause = SHORTEST_PAUSE;
            while (!channel.closed()) {
                try {
                    waitAndCall();
                    if (channel.failure() == 0) {
                        pause = SHORTEST_PAUSE;
                        continue;
                    }
                } catch (Throwable t) { // most likely temporary, such as an exhausted heap
                    Uncaught.report(t);
                }
                if (!channel.closed()) {
                    LockSupport.parkNanos(pause);
                    pause = Math.min(2 * pause, LONGEST_PAUSE);
                }
            }
        } finally {
            queue.release();
        }
    }

    private void waitAndCall() {
        CompletionQueue.Events fired = queue.awaitEvents(Long.MAX_VALUE);
        if (fired != null && !channel.closed()) {
            call(fired.last());
        }
    }

    /**
     * Calls back. A callback that still polls or arms its queue when another thread closes it has
     * made no mistake: the exception that ends it is not reported.
     */
    private void call(Status status) {
        try {
            callback.accept(status);
        } catch (ClosedException e) {
            if (!queue.isClosed()) {
                Uncaught.report(e);
            }
        } catch (Throwable t) {
            Uncaught.report(t);
        }
    }

    /**
     * Waits until the thread has ended, after the channel was closed; not on that thread itself.
     */
    boolean join() {
        LockSupport.unpark(thread);
        return Threads.join(thread, CLOSE_TIMEOUT);
    }
}
