package dev.verbena.child;

import java.lang.ref.Reference;

/** A heap that has no memory for anything more. */
public final class FullHeap {
    private FullHeap() {}

    /** Runs something while the heap is full. */
    public static void during(Runnable action) {
        Reference.reachabilityFence(
                action); // resolved here: the other one finds no memory for that
        Object[] all = fill();
        try {
            action.run();
        } finally {
            Reference.reachabilityFence(all);
        }
    }

    /** Takes all memory, until nobody has what this returns. */
    public static Object[] fill() {
        Object[] last = null;
        for (int length = 1 << 16; length > 0; length /= 4) {
            try {
                while (true) {
                    Object[] one = new Object[length];
                    one[0] = last;
                    last = one;
                }
            } catch (OutOfMemoryError e) {
                continue; // with shorter ones
            }
        }
        return last;
    }
}
