package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

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

    private final MemorySegment descriptors;
    final MemorySegment channel;
    final MemorySegment state;
    final MemorySegment queue;
    final MemorySegment queueContext;

    /**
     * Allocates the memory and fills in the descriptors.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param descriptor the channel's file descriptor
     * @param wakeUp an eventfd that ends the wait early
     */
    public EventWait(long channel, int descriptor, int wakeUp) {
        Arena arena = Arena.ofAuto();
        this.channel = MemorySegment.ofAddress(channel);
        this.state = arena.allocate(Scratch.STATE);
        this.queue = arena.allocate(ADDRESS);
        this.queueContext = arena.allocate(ADDRESS);
        this.descriptors = arena.allocate(2 * Descriptors.POLLFD, Integer.BYTES);
        descriptors.set(JAVA_INT, 0, descriptor);
        descriptors.set(JAVA_SHORT, Descriptors.EVENTS, Descriptors.POLLIN);
        descriptors.set(JAVA_INT, Descriptors.POLLFD, wakeUp);
        descriptors.set(JAVA_SHORT, Descriptors.POLLFD + Descriptors.EVENTS, Descriptors.POLLIN);
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
            int ready =
                    (int) Descriptors.WithoutErrno.POLL.invokeExact(descriptors, 2L, milliseconds);
            if (ready < 0) { // a signal or an error: repeat the call without waiting, to get errno
                ready = (int) Descriptors.POLL.invokeExact(state, descriptors, 2L, 0);
            }
            if (ready < 0) {
                int errno = Scratch.errno(state);
                return errno == Descriptors.EINTR ? 0 : -errno;
            }
            return (readable(0) ? EVENT : 0) | (readable(Descriptors.POLLFD) ? WAKE_UP : 0);
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /** The address of the {@code ibv_cq} that the last event names. */
    long eventQueue() {
        return queue.get(JAVA_LONG, 0);
    }

    /**
     * The context of the completion queue that the last event names.
     *
     * @return what {@link DeviceControl#createCq} was given
     */
    public long context() {
        return queueContext.get(JAVA_LONG, 0);
    }

    /** For a fake device: as {@code ibv_get_cq_event} stores it. */
    void context(long context) {
        queueContext.set(JAVA_LONG, 0, context);
    }

    private boolean readable(long pollfd) {
        return descriptors.get(JAVA_SHORT, pollfd + Descriptors.REVENTS) != 0;
    }
}
