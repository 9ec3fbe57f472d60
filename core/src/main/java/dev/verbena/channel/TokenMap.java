package dev.verbena.channel;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.ThreadLocalRandom;

/**
 * Remote keys (NDK: tokens) and what belongs to each, up to a number of them. Allocates nothing
 * after it was made. Not for several threads at a time.
 */
final class TokenMap<T> {
    private final int most;
    private final int mask;
    private final int shift;
    private final long multiplier = ThreadLocalRandom.current().nextLong() | 1;
    private final int[] tokens;
    private final @Nullable Object[] values; // null where there is none
    private int size;

    TokenMap(int most) {
        this.most = most;
        int length = Integer.highestOneBit(Math.max(1, most)) << 2; // at most half full
        this.mask = length - 1;
        this.shift = Long.SIZE - Integer.numberOfTrailingZeros(length);
        this.tokens = new int[length];
        this.values = new Object[length];
    }

    /** By a multiplier of this map, which a peer that chooses its tokens cannot know. */
    private int home(int token) {
        return (int) (Integer.toUnsignedLong(token) * multiplier >>> shift);
    }

    private int find(int token) {
        int at = home(token);
        while (values[at] != null && tokens[at] != token) {
            at = at + 1 & mask;
        }
        return at;
    }

    /** How many places a search for a token goes past. */
    int distance(int token) {
        return find(token) - home(token) & mask;
    }

    @SuppressWarnings("unchecked") // put has a T
    @Nullable T get(int token) {
        return (T) values[find(token)];
    }

    boolean contains(int token) {
        return values[find(token)] != null;
    }

    /**
     * Adds a token.
     *
     * @return false, without effect, when it is there already, or there are as many as may be
     */
    boolean put(int token, T value) {
        int at = find(token);
        if (values[at] != null || size == most) {
            return false;
        }
        tokens[at] = token;
        values[at] = value;
        size++;
        return true;
    }

    /** Removes a token; null when it was not there. */
    @SuppressWarnings("unchecked") // put has a T
    @Nullable T remove(int token) {
        int hole = find(token);
        T removed = (T) values[hole];
        if (removed == null) {
            return null;
        }
        size--;
        // What was pushed on by it moves back, so that no search ends at the hole.
        for (int at = hole + 1 & mask; values[at] != null; at = at + 1 & mask) {
            if ((at - home(tokens[at]) & mask) >= (at - hole & mask)) {
                tokens[hole] = tokens[at];
                values[hole] = values[at];
                hole = at;
            }
        }
        values[hole] = null;
        return removed;
    }

    int size() {
        return size;
    }

    /** How many places there are for values. */
    int places() {
        return values.length;
    }

    /** The value in a place; null where there is none. */
    @SuppressWarnings("unchecked") // put has a T
    @Nullable T at(int place) {
        return (T) values[place];
    }

    /** One of the values; null when there is none. */
    @Nullable T any() {
        for (int i = 0; size > 0; i++) {
            T value = at(i);
            if (value != null) {
                return value;
            }
        }
        return null;
    }
}
