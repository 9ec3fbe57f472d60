package dev.verbena.internal.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;

/**
 * The native memory for waiting on one completion channel. Allocated once, so that waiting
 * allocates nothing: a program that blocks between messages waits on its data path. For one thread
 * at a time. Tests override it.
 */
public class EventWait {
    /** Bit in the result of {@link #await}: the channel has an event. */
    public static final int EVENT = 1;

    /** Bit in the result of {@link #await}: the wake-up descriptor is readable. */
    public static final int WAKE_UP = 2;

    // Two struct pollfd, and behind them what ibv_get_cq_event writes: an ibv_cq and its context.
    private static final long QUEUE = 2 * Descriptors.POLLFD;
    private static final long CONTEXT = QUEUE + Long.BYTES;
    private static final long BYTES = CONTEXT + Long.BYTES;

    private final long channel;
    private final MemorySegment memory; // keeps it reachable
    private final long address;

    /** Allocates the memory and fills in the descriptors. */
    public EventWait(long channel, int descriptor, int wakeUp) {
        this.channel = channel;
        this.memory = Arena.ofAuto().allocate(BYTES, Long.BYTES);
        this.address = memory.address();
        Descriptors.putPollIn(address, descriptor);
        Descriptors.putPollIn(address + Descriptors.POLLFD, wakeUp);
    }

    /**
     * Blocks in {@code poll(2)} until the channel has an event or the wake-up descriptor is
     * readable. A virtual thread that calls this keeps its carrier thread.
     *
     * @param milliseconds the timeout; negative means none
     * @return {@link #EVENT}, {@link #WAKE_UP} or both; 0 after the timeout or a signal; or a
     *     negative errno
     */
    public int await(int milliseconds) {
        try {
            int ready = Descriptors.poll(address, 2, milliseconds);
            if (ready < 0) {
                return ready == -Descriptors.EINTR ? 0 : ready;
            }
            return (Descriptors.readable(address) ? EVENT : 0)
                    | (Descriptors.readable(address + Descriptors.POLLFD) ? WAKE_UP : 0);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Takes an event of the channel, if there is one, and acknowledges it: whether it did. */
    boolean takeEvent() {
        try {
            boolean taken =
                    VerbsFunctions.GET_CQ_EVENT.callWithoutErrno(
                                    channel, address + QUEUE, address + CONTEXT)
                            == 0;
            if (taken) {
                acknowledge();
            }
            return taken;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The same, slower: 0 if it did, otherwise the negative errno. */
    int takeEventOrErrno() {
        try {
            int answer =
                    VerbsFunctions.GET_CQ_EVENT.value(channel, address + QUEUE, address + CONTEXT);
            if (answer == 0) {
                acknowledge();
            }
            return answer;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Immediately, as {@code ibv_destroy_cq} blocks until all events are acknowledged. */
    private void acknowledge() {
        VerbsFunctions.ACK_CQ_EVENTS.callWithoutErrno(Native.getLong(address, QUEUE), 1, 0);
    }

    /** The context of the completion queue that the last event names. */
    public long context() {
        return Native.getLong(address, CONTEXT);
    }

    /** For a fake device: as {@code ibv_get_cq_event} stores it. */
    void context(long context) {
        Native.putLong(address, CONTEXT, context);
    }
}
