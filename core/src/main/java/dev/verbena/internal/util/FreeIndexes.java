package dev.verbena.internal.util;

import java.util.concurrent.atomic.AtomicLong;

/** The indexes of a pool's free buffers: a stack that takes no lock. */
public final class FreeIndexes {
    public static final int NONE = -1;

    // The lower half of "head" is the index of the top, or NONE, and "next" has the index of the
    // buffer below each. The upper half counts the changes, so that a compare-and-set fails after
    // changes by others, even if the top is the same again.
    private final AtomicLong head = new AtomicLong(Integer.toUnsignedLong(NONE));
    private final int[] next;

    /** Makes an empty one for indexes below a count. */
    public FreeIndexes(int count) {
        next = new int[count];
    }

    /** Adds one that is not there. */
    public void push(int index) {
        long seen;
        do {
            seen = head.get();
            next[index] = (int) seen;
        } while (!head.compareAndSet(seen, changed(seen, index)));
    }

    /** Takes the one that was added last, or NONE. */
    public int pop() {
        long seen;
        int first;
        do {
            seen = head.get();
            first = (int) seen;
            if (first == NONE) {
                return NONE;
            }
        } while (!head.compareAndSet(seen, changed(seen, next[first])));
        return first;
    }

    private static long changed(long before, int first) {
        return ((before >>> Integer.SIZE) + 1 << Integer.SIZE) | Integer.toUnsignedLong(first);
    }
}
