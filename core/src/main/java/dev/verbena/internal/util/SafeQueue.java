package dev.verbena.internal.util;

import java.util.ArrayDeque;
import java.util.Queue;

/**
 * A queue to which an add that finds no memory changes nothing. An ArrayDeque (of JDK 25) counts
 * the element before it grows: if it cannot grow, it looks empty, and what is in it is lost.
 *
 * <p>A field can begin as one shared empty queue: most of ten thousand channels never put anything
 * in theirs. The shared one stays in the processor's cache, and takes no memory of each channel.
 */
@SuppressWarnings("serial") // never serialized
public final class SafeQueue<E> extends ArrayDeque<E> {
    private static final Queue<Object> EMPTY = new SafeQueue<>(); // never written

    /** Creates an empty queue. */
    public SafeQueue() {
        super(1);
    }

    /** An empty queue, not to be written: see {@link #own}. */
    @SuppressWarnings("unchecked") // nothing is in it
    public static <E> Queue<E> empty() {
        return (Queue<E>) EMPTY;
    }

    /** The queue to write to, in the place of the one so far. */
    @SuppressWarnings("ReferenceEquality") // it is about that queue
    public static <E> Queue<E> own(Queue<E> soFar) {
        return soFar == (Queue<?>) EMPTY ? new SafeQueue<>() : soFar;
    }

    @Override
    @SuppressWarnings("ReferenceEquality") // it is about that element
    public void addLast(E added) {
        try {
            super.addLast(added);
        } catch (OutOfMemoryError e) {
            if (peekLast() == added) { // the array is full, and has it
                var _ = pollLast();
            }
            throw e;
        }
    }
}
