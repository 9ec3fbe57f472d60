package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;

/**
 * Completions that this library polled on its own, until the consumer polls: as many as come,
 * oldest first, each with the queue that gets a slot back once it is delivered.
 */
class UndeliveredCompletions {
    private final CompletionRecords records;
    private @Nullable Credit[] credits; // of each record; null where no slot is freed
    private int first; // the records before it were delivered

    /** Makes an empty store. */
    UndeliveredCompletions(int capacity) {
        records = new CompletionRecords(capacity);
        credits = new Credit[capacity];
    }

    boolean isEmpty() {
        return records.size() == 0;
    }

    /**
     * Makes room for one record: for twice as many as there are, so that adding takes constant
     * time.
     *
     * @return false when the heap has no memory for it; nothing has changed then
     */
    boolean makeRoom() {
        if (records.remaining() > 0) {
            return true;
        }
        try {
            CompletionRecords grown =
                    allocate(Math.max(records.capacity(), 2 * (records.size() - first)));
            @Nullable Credit[] moved = Arrays.copyOfRange(credits, first, first + grown.capacity());
            records.moveInto(first, grown);
            credits = moved;
            first = 0;
            return true;
        } catch (OutOfMemoryError e) {
            return false;
        }
    }

    /** Allocates empty records; tests let it fail. */
    CompletionRecords allocate(int capacity) {
        return new CompletionRecords(capacity);
    }

    /**
     * Where the next record is to be added, after {@link #makeRoom} returned true.
     *
     * @param credit the queue that gets a slot back on delivery, or null
     */
    CompletionRecords next(@Nullable Credit credit) {
        credits[records.size()] = credit;
        return records;
    }

    /** Delivers the oldest, as many as fit, and frees their slots. */
    void moveTo(CompletionRecords to) {
        while (to.remaining() > 0 && first < records.size()) {
            to.addFrom(records, first);
            free();
        }
        clearIfEmpty();
    }

    /** Drops all, and frees their slots. */
    void forget() {
        while (first < records.size()) {
            free();
        }
        clearIfEmpty();
    }

    private void free() {
        Credit credit = credits[first];
        if (credit != null) {
            credit.delivered();
        }
        first++;
    }

    private void clearIfEmpty() {
        if (first == records.size()) {
            records.clear();
            first = 0;
        }
    }
}
