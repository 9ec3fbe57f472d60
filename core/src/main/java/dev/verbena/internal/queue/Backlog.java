package dev.verbena.internal.queue;

import java.util.Arrays;

/**
 * Completions that this layer had to take from the provider on its own, until the consumer asks for
 * them: as many as come, oldest first, each with who is told when the consumer has it.
 */
class Backlog {
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
     * Makes room for a record. For as many more as there are, so that adding takes constant time.
     *
     * @return false when the heap has no memory for it; nothing has changed then
     */
    boolean makeRoom() {
        if (records.room() > 0) {
            return true;
        }
        try {
            CompletionRecords grown =
                    allocate(Math.max(records.capacity(), 2 * (records.size() - first)));
            Credit[] moved = Arrays.copyOfRange(credits, first, first + grown.capacity());
            records.moveInto(first, grown);
            credits = moved;
            first = 0;
            return true;
        } catch (OutOfMemoryError e) {
            return false;
        }
    }

    /** Allocates an empty array of records; tests let it fail. */
    CompletionRecords allocate(int capacity) {
        return new CompletionRecords(capacity);
    }

    /**
     * Where the next record is to be added, after {@link #makeRoom} has answered true.
     *
     * @param credit who is told when the consumer has it, or null
     */
    CompletionRecords next(Credit credit) {
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
