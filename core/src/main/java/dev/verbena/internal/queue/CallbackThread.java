package dev.verbena.internal.queue;

import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * The thread of a completion queue with a callback: waits for the queue and calls back. Failures of
 * a wait or of the callback are reported, and the thread goes on.
 *
 * @param <M> the type of the completion queue
 */
public final class CallbackThread<M extends EventChannel.Member> {
    /** How long {@link #join} waits. */
    public static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);

    // The pause after a wait that failed doubles from one to the other.
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final EventChannel<M> channel;
    private final Consumer<M> callback;
    private final Supplier<@Nullable M> wait;
    private final Thread thread;

    /**
     * Starts the thread.
     *
     * @param device the name of the queue's device
     * @param channel the queue's own
     * @param callback called when the queue has fired
     * @param wait waits until the queue has fired
     * @param ended run when the thread ends
     */
    public CallbackThread(
            ThreadFactory threads,
            String device,
            EventChannel<M> channel,
            Consumer<M> callback,
            Supplier<@Nullable M> wait,
            Runnable ended) {
        this.channel = channel;
        this.callback = callback;
        this.wait = wait;
        this.thread =
                threads.newThread(
                        () -> {
                            try {
                                run();
                            } finally {
                                ended.run();
                            }
                        });
        thread.setName("verbena-completions-" + device);
        thread.start();
    }

    private void run() {
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
                var _ = Thread.interrupted(); // by a callback: it would not park
                Uncaught.pause(pause);
                pause = Math.min(2 * pause, LONGEST_PAUSE);
            }
        }
    }

    private void waitAndCall() {
        M fired = wait.get();
        if (fired != null && !channel.closed()) {
            Uncaught.run(() -> callback.accept(fired));
        }
    }

    /**
     * Waits until the thread has ended, after the channel was closed; not on that thread itself.
     */
    public boolean join() {
        LockSupport.unpark(thread);
        return Threads.join(thread, CLOSE_TIMEOUT);
    }
}
