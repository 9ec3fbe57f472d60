package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/**
 * A command on its way: what it asks, its data, and its answer. Those who carry out commands know
 * no more of the connection than this, so that they can be tested without one.
 *
 * <p>Each command is answered once, by one of the methods that say so. All are called by the
 * polling thread; only {@link #aside} leaves it.
 */
interface Exchange {
    Command command();

    /** Memory of {@link #PAGE_BYTES} for the data of commands that are about no disk; zeros. */
    MemorySegment page();

    /** The longest data that goes through {@link #page}. */
    int PAGE_BYTES = 4096;

    /** Answers: done. */
    void succeed(long result);

    /** Answers: not done, and why. */
    void fail(NvmeStatus status, long result);

    default void fail(NvmeStatus status) {
        fail(status, 0);
    }

    /** Writes the beginning of the page into the host's memory, and answers that it is done. */
    void sendPage();

    /**
     * Reads the beginning of the host's data into the page; goes on when it is there. Answers where
     * it cannot: where the host has less.
     */
    void fetchPage(int length, Consumer<Exchange> then);

    /** Writes a part of a disk into the host's memory, and answers that it is done. */
    void sendBlocks(Namespace from, long offset, long length);

    /** Reads the host's data into a disk; goes on when it is there. Answers where it cannot. */
    void fetchBlocks(Namespace to, long offset, long length, Consumer<Exchange> then);

    /** Does work that takes long on another thread, then answers: done, or INTERNAL_ERROR. */
    void aside(Runnable work);
}
