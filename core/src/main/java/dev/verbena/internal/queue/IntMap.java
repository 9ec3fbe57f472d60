package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

/**
 * A map from ints that boxes none and allocates only when it grows. Open addressing with linear
 * probing; not for several threads at once.
 */
final class IntMap<V> {
    private int[] keys = new int[16];
    private @Nullable Object[] values = new Object[16];
    private int size;

    @SuppressWarnings("unchecked") // only put stores
    @Nullable V get(int key) {
        return (V) values[find(key)];
    }

    void put(int key, V value) {
        int at = find(key);
        if (values[at] == null) {
            makeRoom();
            size++;
            at = find(key);
        }
        keys[at] = key;
        values[at] = value;
    }

    /** Makes room for one more key, the only thing that needs memory. */
    void makeRoom() {
        if ((size + 1) * 2 > keys.length) {
            grow();
        }
    }

    void remove(int key) {
        int gap = find(key);
        if (values[gap] == null) {
            return;
        }
        size--;
        values[gap] = null;
        // What was pushed past the gap moves back into it, so that no search ends too early.
        for (int at = next(gap); values[at] != null; at = next(at)) {
            int home = home(keys[at]);
            boolean stays = gap <= at ? gap < home && home <= at : gap < home || home <= at;
            if (!stays) {
                keys[gap] = keys[at];
                values[gap] = values[at];
                values[at] = null;
                gap = at;
            }
        }
    }

    private void grow() {
        int[] oldKeys = keys;
        @Nullable Object[] oldValues = values;
        int[] newKeys = new int[2 * oldKeys.length];
        values = new Object[newKeys.length]; // if there is no memory, nothing has changed
        keys = newKeys;
        for (int i = 0; i < oldKeys.length; i++) {
            if (oldValues[i] != null) {
                int at = find(oldKeys[i]);
                keys[at] = oldKeys[i];
                values[at] = oldValues[i];
            }
        }
    }

    private int find(int key) {
        int at = home(key);
        while (values[at] != null && keys[at] != key) {
            at = next(at);
        }
        return at;
    }

    private int home(int key) {
        return (key * 0x9E3779B9 >>> 16) & keys.length - 1;
    }

    private int next(int at) {
        return at + 1 & keys.length - 1;
    }
}
