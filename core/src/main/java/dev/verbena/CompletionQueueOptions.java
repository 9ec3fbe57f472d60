package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.OptionValues;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.List;
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

    static final class Values extends OptionValues<Values> {
        int depth;
        boolean confined;
        @Nullable Consumer<Status> callback;
        int vector = SPREAD;
        @Nullable CompletionChannel channel;

        @Override
        protected List<?> all() {
            return Arrays.asList(depth, confined, callback, vector, channel);
        }
    }

    final Values values;

    private CompletionQueueOptions(Values values) {
        if (values.callback != null && values.confined) {
            throw new IllegalArgumentException(
                    "A completion queue has a callback or is confined, not both: its callback runs on a thread of its own");
        }
        if (values.callback != null && values.channel != null) {
            throw new IllegalArgumentException(
                    "A completion queue has a callback or a shared channel, not both: the thread that waits for the channel is notified");
        }
        this.values = values;
    }

    private CompletionQueueOptions with(Consumer<Values> change) {
        return new CompletionQueueOptions(values.with(change));
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
        Values values = new Values();
        values.depth = depth;
        return new CompletionQueueOptions(values);
    }

    /**
     * Confines the queue to the thread that creates it: see {@link
     * Adapter#createConfinedCompletionQueue}.
     *
     * @return a changed copy of these options
     */
    public CompletionQueueOptions confined() {
        return with(changed -> changed.confined = true);
    }

    /**
     * Makes the queue call back when it fires: see {@link Adapter#createCompletionQueue(int,
     * Consumer)}.
     *
     * @param callback called once for each {@link CompletionQueue#arm}
     * @return a changed copy of these options
     */
    public CompletionQueueOptions callback(Consumer<Status> callback) {
        return with(changed -> changed.callback = Arguments.notNull(callback, "callback"));
    }

    /**
     * Chooses the completion vector (NDK: affinity): the interrupt by which the device signals the
     * queue's events. The kernel's settings decide which processor handles it ({@code
     * /proc/irq/*\/smp_affinity}). Without this option an adapter assigns the vectors to its queues
     * in turn.
     *
     * @param vector 0 to {@link Adapter#completionVectors} - 1
     * @return a changed copy of these options
     */
    public CompletionQueueOptions vector(int vector) {
        if (vector < 0) {
            throw new IllegalArgumentException("Completion vectors count from 0, not " + vector);
        }
        return with(changed -> changed.vector = vector);
    }

    /**
     * Makes the queue share a channel with others, so that one thread can wait for all of them, by
     * {@link CompletionChannel#await} instead of {@link CompletionQueue#await}.
     *
     * @param channel a channel of the same adapter
     * @return a changed copy of these options
     */
    public CompletionQueueOptions channel(CompletionChannel channel) {
        return with(changed -> changed.channel = Arguments.notNull(channel, "channel"));
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof CompletionQueueOptions that && values.equals(that.values);
    }

    @Override
    public int hashCode() {
        return values.hashCode();
    }

    @Override
    public String toString() {
        return "CompletionQueueOptions(depth %d%s%s, %s%s)"
                .formatted(
                        values.depth,
                        values.confined ? ", confined" : "",
                        values.callback == null ? "" : ", with a callback",
                        values.vector == SPREAD ? "any vector" : "vector " + values.vector,
                        values.channel == null ? "" : ", " + values.channel);
    }
}
