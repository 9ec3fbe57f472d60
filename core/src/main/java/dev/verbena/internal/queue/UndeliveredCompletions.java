package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

/**
 * Completions that this library polled on its own, until the consumer polls: a ring, oldest first,
 * each with the queue that gets a slot back once it is delivered. When the ring is full, further
 * completions stay in the native completion queue, or in their {@link RequestLedger}.
 */
final class UndeliveredCompletions {
    private final CompletionRecords records;
    private final @Nullable Credit[] credits; // of each record; null where no slot is freed
    private int first;
    private int size;

    /** Makes an empty store. */
    UndeliveredCompletions(int capacity) {
        records = new CompletionRecords(capacity);
        credits = new Credit[capacity];
    }

    int capacity() {
        return credits.length;
    }

    boolean isEmpty() {
        return size == 0;
    }

    boolean isFull() {
        return size == credits.length;
    }

    /**
     * Adds a completion. The store must not be full.
     *
     * @param credit the queue that gets a slot back on delivery, or null
     */
    void add(@Nullable Credit credit, Endpoint endpoint, long context, long kind, int extra) {
        int at = at(size++);
        credits[at] = credit;
        records.set(at, endpoint, context, kind, extra);
    }

    /** Adds all completions of another store, which is not used any more. */
    void addAll(UndeliveredCompletions other) {
        for (int i = 0; i < other.size; i++) {
            int at = at(size++);
            credits[at] = other.credits[other.at(i)];
            records.set(at, other.records, other.at(i));
        }
    }

    /** Delivers the oldest, as many as fit, and frees their slots. */
    void moveTo(CompletionRecords to) {
        while (to.remaining() > 0 && size > 0) {
            to.addFrom(records, first);
            free();
        }
    }

    /** Drops all, and frees their slots. */
    void forget() {
        while (size > 0) {
            free();
        }
    }

    private void free() {
        Credit credit = credits[first];
        first = at(1);
        size--;
        if (credit != null) {
            credit.delivered();
        }
    }

    private int at(int index) {
        int at = first + index;
        return at < credits.length ? at : at - credits.length;
    }
}
