package dev.verbena.trust;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The atomic operations of a {@link Side}. Each fetch-and-add adds one to a word of the peer, each
 * compare-and-swap swaps the number of swaps before it for the next one in another word. So each
 * must bring the number of those that were posted before it, all of which were carried out once.
 */
final class Atomics {
    private final Map<Long, Long> expected = new ConcurrentHashMap<>();
    private long added; // fetch-and-adds so far; by the posting thread
    private long swapped;

    void open(long context, Kind kind) {
        expected.put(context, kind == Kind.FETCH_AND_ADD ? added++ : swapped++);
    }

    void refuse(long context, Kind kind) {
        if (expected.remove(context) != null) {
            added -= kind == Kind.FETCH_AND_ADD ? 1 : 0;
            swapped -= kind == Kind.FETCH_AND_ADD ? 0 : 1;
        }
    }

    /** How many swaps there are, the one that is being posted included. */
    long swaps() {
        return swapped;
    }

    /** It has completed. Returns what it must have brought; null if it is none of these. */
    Long end(long context) {
        return expected.remove(context);
    }
}
