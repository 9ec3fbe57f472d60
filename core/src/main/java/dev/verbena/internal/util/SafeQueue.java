package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.util.AbstractQueue;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.Queue;

/**
 * A queue that an add changes in no way if it finds no memory, or no stack. An ArrayDeque (of JDK
 * 25) counts the element before it grows: if it cannot grow, it looks empty, and what is in it is
 * lost. So a larger one takes its place before it has to grow.
 *
 * <p>A field can begin as one shared empty queue: most of ten thousand channels never put anything
 * in theirs. The shared one stays in the processor's cache, and takes no memory of each channel.
 */
public final class SafeQueue<E> extends AbstractQueue<E> {
    private static final Queue<Object> EMPTY = new SafeQueue<>(); // never written

    private int room = 1; // without growing
    private ArrayDeque<E> all = new ArrayDeque<>(room);

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
    public boolean offer(E added) {
        if (all.size() == room) {
            ArrayDeque<E> larger = new ArrayDeque<>(2 * room);
            larger.addAll(all);
            all = larger;
            room *= 2;
        }
        return all.offer(added);
    }

    @Override
    public @Nullable E peek() {
        return all.peek();
    }

    @Override
    public @Nullable E poll() {
        return all.poll();
    }

    @Override
    public int size() {
        return all.size();
    }

    @Override
    public boolean remove(@Nullable Object removed) {
        return removed != null && all.remove(removed); // needs no memory
    }

    @Override
    public Iterator<E> iterator() {
        return all.iterator();
    }
}
