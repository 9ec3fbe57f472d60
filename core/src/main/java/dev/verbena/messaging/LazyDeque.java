package dev.verbena.messaging;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Deques that begin as one shared empty one: most of ten thousand channels never put anything in
 * theirs. The shared one stays in the processor's cache, and takes no memory of each channel.
 */
final class LazyDeque {
    private static final Deque<Object> EMPTY = new ArrayDeque<>(1); // never written

    private LazyDeque() {}

    /** An empty deque, not to be written: see {@link #own}. */
    @SuppressWarnings("unchecked") // nothing is in it
    static <E> Deque<E> empty() {
        return (Deque<E>) EMPTY;
    }

    /** The deque to write to, in the place of the one so far. */
    @SuppressWarnings("ReferenceEquality") // it is about that deque
    static <E> Deque<E> own(Deque<E> soFar) {
        return soFar == (Deque<?>) EMPTY ? new ArrayDeque<>(1) : soFar;
    }
}
