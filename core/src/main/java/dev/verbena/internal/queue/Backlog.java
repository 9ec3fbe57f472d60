package dev.verbena.internal.queue;

import java.util.Arrays;

/**
 * Completions that this layer had to take from the provider on its own, until the consumer asks for
 * them: as many as come, oldest first, each with who is told when the consumer has it.
 */
final class Backlog {
    private final CompletionRecords records;
    private Credit[] credits; // of each record, null where nobody is told
    private int first; // what is before it has been moved on

    /**
     * Makes an empty one.
     *
     * @param capacity how many fit before it grows
     */
    Backlog(int capacity) {
        records = new CompletionRecords(capacity);
        credits = new Credit[capacity];
    }

    boolean isEmpty() {
        return records.size() == 0;
    }

    /**
     * Makes room for a record, to be added to what this returns.
     *
     * @param credit who is told when the consumer has it, or null
     */
    CompletionRecords next(Credit credit) {
        if (records.room() == 0) {
            records.grow(first);
            int capacity = records.size() + records.room();
            credits = Arrays.copyOfRange(credits, first, first + capacity);
            first = 0;
        }
        credits[records.size()] = credit;
        return records;
    }

    /** Moves the oldest, as many as fit, and gives their places back. */
    void moveTo(CompletionRecords to) {
        while (to.room() > 0 && first < records.size()) {
            to.addFrom(records, first);
            if (credits[first] != null) {
                credits[first].told();
            }
            first++;
        }
        if (first == records.size()) {
            records.clear();
            first = 0;
        }
    }
}
