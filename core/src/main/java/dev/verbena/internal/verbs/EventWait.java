package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * What waiting for one completion channel takes in native memory, made once: waiting is part of the
 * data path of whoever sleeps between messages. For one thread at a time. Tests override it.
 */
public class EventWait {
    /** In what {@link #await} answers: the channel has an event. */
    public static final int EVENT = 1;

    /** In what {@link #await} answers: the alarm was raised. */
    public static final int ALARM = 2;

    private final MemorySegment descriptors;
    final MemorySegment channel;
    final MemorySegment state;
    final MemorySegment queue;
    final MemorySegment queueContext;
    private MemorySegment told = MemorySegment.NULL;

    /**
     * Prepares waiting.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param descriptor its descriptor
     * @param alarm the other descriptor to wait for
     */
    public EventWait(long channel, int descriptor, int alarm) {
        Arena arena = Arena.ofAuto();
        this.channel = MemorySegment.ofAddress(channel);
        this.state = arena.allocate(Scratch.STATE);
        this.queue = arena.allocate(ADDRESS);
        this.queueContext = arena.allocate(ADDRESS);
        this.descriptors = arena.allocate(2 * Descriptors.POLLFD, Integer.BYTES);
        descriptors.set(JAVA_INT, 0, descriptor);
        descriptors.set(JAVA_SHORT, Descriptors.EVENTS, Descriptors.POLLIN);
        descriptors.set(JAVA_INT, Descriptors.POLLFD, alarm);
        descriptors.set(JAVA_SHORT, Descriptors.POLLFD + Descriptors.EVENTS, Descriptors.POLLIN);
    }

    /**
     * Sleeps until the channel has an event or the alarm is raised: {@code poll(2)}. Holds its
     * carrier thread when called on a virtual one.
     *
     * @param milliseconds how long at most; negative is for ever
     * @return {@link #EVENT} and {@link #ALARM}; 0 when the time ran out or a signal came; or a
     *     negative errno
     */
    public int await(int milliseconds) {
        try {
            int ready = (int) Descriptors.Plain.POLL.invokeExact(descriptors, 2L, milliseconds);
            if (ready < 0) { // for a signal, or for good: asked again, without waiting
                ready = (int) Descriptors.POLL.invokeExact(state, descriptors, 2L, 0);
            }
            if (ready < 0) {
                int errno = Scratch.errno(state);
                return errno == Descriptors.EINTR ? 0 : -errno;
            }
            return (readable(0) ? EVENT : 0) | (readable(Descriptors.POLLFD) ? ALARM : 0);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * The completion queue that the event was of: always the same one, so nothing is made for it.
     */
    MemorySegment told() {
        long address = queue.get(JAVA_LONG, 0);
        if (told.address() != address) {
            told = MemorySegment.ofAddress(address);
        }
        return told;
    }

    private boolean readable(long which) {
        return descriptors.get(JAVA_SHORT, which + Descriptors.REVENTS) != 0;
    }
}
