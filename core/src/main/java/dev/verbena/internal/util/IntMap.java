package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.ThreadLocalRandom;

/**
 * A map from ints that boxes none and allocates only when it grows. Open addressing with linear
 * probing; keys are spread by a random number of this map, so that a peer who chooses them cannot
 * make searches long. Not for several threads at once.
 *
 * @param <V> of the values
 */
public final class IntMap<V> {
    // Of all empty maps; never written.
    private static final int[] NO_KEYS = new int[2];
    private static final @Nullable Object[] NO_VALUES = new Object[2];

    private final long multiplier = ThreadLocalRandom.current().nextLong() | 1;
    private int[] keys;
    private @Nullable Object[] values; // null where there is none
    private int size;

    /**
     * Creates a map that grows when it has more than this many keys; of 0, it has no arrays yet.
     */
    public IntMap(int expected) {
        int length = Integer.highestOneBit(expected) << 2; // at most half full
        keys = expected == 0 ? NO_KEYS : new int[length];
        values = expected == 0 ? NO_VALUES : new Object[length];
    }

    @SuppressWarnings("unchecked") // only put stores
    public @Nullable V get(int key) {
        return (V) values[find(key)];
    }

    public void put(int key, V value) {
        int at = find(key);
        if (values[at] == null) {
            ensureCapacity(size + 1);
            size++;
            at = find(key);
        }
        keys[at] = key;
        values[at] = value;
    }

    /** Makes room for this many keys, which is the only step that allocates memory. */
    @SuppressWarnings("ReferenceEquality") // it is about that array
    public void ensureCapacity(int count) {
        while (count * 2 > keys.length || (count > 0 && keys == NO_KEYS)) {
            grow();
        }
    }

    @SuppressWarnings("unchecked") // only put stores
    public @Nullable V remove(int key) {
        int gap = find(key);
        V removed = (V) values[gap];
        if (removed == null) {
            return null;
        }
        size--;
        // Keys that were pushed past the gap move back into it, so that no search ends too early.
        for (int at = next(gap); values[at] != null; at = next(at)) {
            if (steps(home(keys[at]), at) >= steps(gap, at)) {
                keys[gap] = keys[at];
                values[gap] = values[at];
                gap = at;
            }
        }
        values[gap] = null;
        return removed;
    }

    public int size() {
        return size;
    }

    public int places() {
        return values.length;
    }

    /** The value in a place; null where there is none. */
    @SuppressWarnings("unchecked") // only put stores
    public @Nullable V at(int place) {
        return (V) values[place];
    }

    /** One of the values; null when there is none. */
    public @Nullable V any() {
        for (int i = 0; size > 0; i++) {
            V value = at(i);
            if (value != null) {
                return value;
            }
        }
        return null;
    }

    /** How many places a search for a key goes past. */
    public int distance(int key) {
        return steps(home(key), find(key));
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
        return (int)
                (Integer.toUnsignedLong(key) * multiplier
                        >>> Long.numberOfLeadingZeros(keys.length - 1));
    }

    private int next(int at) {
        return at + 1 & keys.length - 1;
    }

    private int steps(int from, int to) {
        return to - from & keys.length - 1;
    }
}
