package dev.verbena.child;

import dev.verbena.internal.util.SafeQueue;

import java.util.Queue;

/** Adds to a queue until the heap has no memory for more. */
public final class LongQueue {
    private LongQueue() {}

    public static void main(String[] arguments) {
        Queue<Integer> queue = new SafeQueue<>();
        int added = 0;
        int removed = 0;
        try {
            while (true) {
                queue.add(added % 100); // such an Integer takes no memory
                added++;
                if (added % 4 == 0) {
                    queue.remove(); // so that the oldest is somewhere in the array
                    removed++;
                }
            }
        } catch (OutOfMemoryError e) {
            System.out.println("out of memory");
        }
        System.out.println("lost: " + (added - removed - queue.size()));
        while (!queue.isEmpty() && queue.element() == removed % 100) {
            queue.remove();
            removed++;
        }
        System.out.println("in order: " + (removed == added));
    }
}
