package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

/**
 * The outstanding requests of a connection. They complete in the order in which they were posted,
 * so their slots are a ring. The slot is the request's number modulo the ring size; all data of a
 * request is adjacent. The ring begins with a few slots and doubles when more requests are
 * outstanding at once, so that of ten thousand connections each takes what it uses. Guarded by the
 * lock of the connection.
 *
 * <p>Each request gets its deadline at the first tick after its post: a post reads no clock, and a
 * poller that was not polled for a long time does not consider a request late.
 *
 * @param <C> the type of their callbacks
 */
final class RequestRing<C> {
    private static final int FIRST = 4; // slots of a new ring
    private static final int REFERENCES = 2; // of each slot: its callback and its attachment

    private final int most;
    private final int timeout; // in ticks; 0 for none
    private final int stride; // numbers of each slot: the last tick in time, and the user's notes
    private @Nullable Object[] references = new Object[REFERENCES * FIRST];
    private int[] numbers;
    private int slots = FIRST; // a power of two
    private int next; // number; wraps around
    private int outstanding;
    private int unmarked; // of those: posted since the last tick

    /**
     * Creates an empty ring.
     *
     * @param most how many requests may be outstanding
     * @param timeoutTicks the deadline of each; 0 for none
     * @param notes how many numbers its user notes for each request
     */
    RequestRing(int most, int timeoutTicks, int notes) {
        this.most = most;
        this.timeout = timeoutTicks;
        this.stride = 1 + notes;
        this.numbers = new int[stride * FIRST];
    }

    boolean isFull() {
        return outstanding == most;
    }

    /** The slot of the next request. May allocate: to be called before the post. */
    int next() {
        if (outstanding == slots && slots < most) {
            grow();
        }
        return next;
    }

    /** Moves each request to the place that its number has in a ring of twice as many slots. */
    private void grow() {
        Object[] moreReferences = new Object[2 * references.length];
        int[] moreNumbers = new int[2 * numbers.length];
        int more = 2 * slots;
        for (int i = 1; i <= outstanding; i++) {
            int slot = before(i);
            int to = slot & more - 1;
            System.arraycopy(
                    references, callbackAt(slot), moreReferences, REFERENCES * to, REFERENCES);
            System.arraycopy(numbers, numbersAt(slot), moreNumbers, stride * to, stride);
        }
        references = moreReferences;
        numbers = moreNumbers;
        slots = more;
    }

    private int callbackAt(int slot) {
        return REFERENCES * (slot & slots - 1);
    }

    private int numbersAt(int slot) {
        return stride * (slot & slots - 1);
    }

    /**
     * The next request was posted. Writes references only where they change, because the collector
     * has to learn of each write: consecutive requests often have the same callback.
     */
    @SuppressWarnings("ReferenceEquality") // it is about the references
    void posted(@Nullable C callback, @Nullable Object attachment) {
        int at = callbackAt(next);
        if (references[at] != callback) {
            references[at] = callback;
        }
        if (references[at + 1] != attachment) {
            references[at + 1] = attachment;
        }
        next++;
        outstanding++;
        unmarked++;
    }

    /** The slot of the request that is to end first; -1 when there is none. */
    int oldest() {
        return outstanding == 0 ? -1 : before(outstanding);
    }

    private int before(int count) {
        return next - count & Integer.MAX_VALUE;
    }

    @SuppressWarnings("unchecked") // what posted() was given
    @Nullable C callback(int slot) {
        return (C) references[callbackAt(slot)];
    }

    @Nullable Object attachment(int slot) {
        return references[callbackAt(slot) + 1];
    }

    /** What the user of the ring has noted for a slot, or for the request that had it before. */
    int note(int slot, int which) {
        return numbers[numbersAt(slot) + 1 + which];
    }

    /** Notes a number for a slot, perhaps before its request is posted. */
    void note(int slot, int which, int number) {
        numbers[numbersAt(slot) + 1 + which] = number;
    }

    int slots() {
        return slots;
    }

    void ended(int slot) {
        int at = callbackAt(slot) + 1;
        if (references[at] != null) {
            references[at] = null;
        }
        outstanding--;
        unmarked = Math.min(unmarked, outstanding);
    }

    /** At a tick: whether the oldest request is late. */
    boolean isLate(int now) {
        for (; unmarked > 0; unmarked--) {
            numbers[numbersAt(before(unmarked))] = now + timeout;
        }
        return timeout > 0 && outstanding > 0 && now - numbers[numbersAt(before(outstanding))] > 0;
    }
}
