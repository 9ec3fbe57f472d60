package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.OptionValues;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.function.Consumer;

/**
 * Options of {@link Adapter#createCompletionQueue(CompletionQueueOptions)}. Start from {@link
 * #depth} and change what differs: {@code CompletionQueueOptions.depth(256).confined().vector(3)}.
 *
 * <p>Immutable.
 */
@CheckReturnValue
public final class CompletionQueueOptions extends OptionValues<CompletionQueueOptions> {
    /** The vector of a queue that leaves the choice to its adapter. */
    static final int SPREAD = -1;

    int depth;
    boolean confined;
    @Nullable Consumer<Status> callback;
    int vector = SPREAD;
    @Nullable CompletionChannel channel;

    private CompletionQueueOptions() {
        super(o -> Arrays.asList(o.depth, o.confined, o.callback, o.vector, o.channel));
    }

    private CompletionQueueOptions checked(Consumer<CompletionQueueOptions> change) {
        CompletionQueueOptions copy = with(change);
        if (copy.callback != null && copy.confined) {
            throw new IllegalArgumentException(
                    "A completion queue has a callback or is confined, not both: its callback runs on a thread of its own");
        }
        if (copy.callback != null && copy.channel != null) {
            throw new IllegalArgumentException(
                    "A completion queue has a callback or a shared channel, not both: the thread that waits for the channel is notified");
        }
        return copy;
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
        return new CompletionQueueOptions().with(made -> made.depth = depth);
    }

    /**
     * Confines the queue to the thread that creates it: see {@link
     * Adapter#createConfinedCompletionQueue}.
     *
     * @return a changed copy of these options
     */
    public CompletionQueueOptions confined() {
        return checked(changed -> changed.confined = true);
    }

    /**
     * Makes the queue call back when it fires: see {@link Adapter#createCompletionQueue(int,
     * Consumer)}.
     *
     * @param callback called once for each {@link CompletionQueue#arm}
     * @return a changed copy of these options
     */
    public CompletionQueueOptions callback(Consumer<Status> callback) {
        return checked(changed -> changed.callback = Arguments.notNull(callback, "callback"));
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
        return checked(changed -> changed.channel = Arguments.notNull(channel, "channel"));
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
