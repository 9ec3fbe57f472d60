package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.text.Arguments;

import org.jspecify.annotations.Nullable;

import java.util.function.Consumer;

/**
 * Options of {@link Adapter#createCompletionQueue(CompletionQueueOptions)}. Start from {@link
 * #depth} and change what differs: {@code CompletionQueueOptions.depth(256).confined().vector(3)}.
 *
 * <p>Immutable.
 */
@CheckReturnValue
public final class CompletionQueueOptions {
    /** The vector of a queue that leaves the choice to its adapter. */
    static final int SPREAD = -1;

    final int depth;
    final boolean confined;
    final @Nullable Consumer<Status> callback;
    final int vector;
    final @Nullable CompletionChannel channel;

    private CompletionQueueOptions(
            int depth,
            boolean confined,
            @Nullable Consumer<Status> callback,
            int vector,
            @Nullable CompletionChannel channel) {
        if (callback != null && confined) {
            throw new IllegalArgumentException(
                    "A completion queue has a callback or is confined, not both: its callback runs on a thread of its own");
        }
        if (callback != null && channel != null) {
            throw new IllegalArgumentException(
                    "A completion queue has a callback or a shared channel, not both: the thread that waits for the channel is notified");
        }
        this.depth = depth;
        this.confined = confined;
        this.callback = callback;
        this.vector = vector;
        this.channel = channel;
    }

    /**
     * A queue that any thread may use, without a callback, with a channel of its own, on the next
     * completion vector in turn.
     *
     * @param depth how many completions it must hold: the sum of the depths of all queues that
     *     report to it
     * @return the options
     */
    public static CompletionQueueOptions depth(int depth) {
        return new CompletionQueueOptions(depth, false, null, SPREAD, null);
    }

    /**
     * Confines the queue to the thread that creates it: see {@link
     * Adapter#createConfinedCompletionQueue}.
     *
     * @return a changed copy of these options
     */
    public CompletionQueueOptions confined() {
        return new CompletionQueueOptions(depth, true, callback, vector, channel);
    }

    /**
     * Makes the queue call back when it fires: see {@link Adapter#createCompletionQueue(int,
     * Consumer)}.
     *
     * @param callback called once for each {@link CompletionQueue#arm}
     * @return a changed copy of these options
     */
    public CompletionQueueOptions callback(Consumer<Status> callback) {
        return new CompletionQueueOptions(
                depth, confined, Arguments.notNull(callback, "callback"), vector, channel);
    }

    /**
     * Chooses the completion vector (NDK: affinity): the interrupt by which the device signals the
     * queue's events. Which processor handles it, the kernel's settings say ({@code
     * /proc/irq/*\/smp_affinity}). Without this option an adapter gives its queues the vectors in
     * turn.
     *
     * @param vector 0 to {@link Adapter#completionVectors} - 1
     * @return a changed copy of these options
     */
    public CompletionQueueOptions vector(int vector) {
        if (vector < 0) {
            throw new IllegalArgumentException("Completion vectors count from 0, not " + vector);
        }
        return new CompletionQueueOptions(depth, confined, callback, vector, channel);
    }

    /**
     * Makes the queue share a channel with others, so that one thread can wait for all of them, by
     * {@link CompletionChannel#await} instead of {@link CompletionQueue#await}.
     *
     * @param channel a channel of the same adapter
     * @return a changed copy of these options
     */
    public CompletionQueueOptions channel(CompletionChannel channel) {
        return new CompletionQueueOptions(
                depth, confined, callback, vector, Arguments.notNull(channel, "channel"));
    }

    @Override
    public String toString() {
        return "CompletionQueueOptions(depth %d%s%s, %s%s)"
                .formatted(
                        depth,
                        confined ? ", confined" : "",
                        callback == null ? "" : ", with a callback",
                        vector == SPREAD ? "any vector" : "vector " + vector,
                        channel == null ? "" : ", " + channel);
    }
}
