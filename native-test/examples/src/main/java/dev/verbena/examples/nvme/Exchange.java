package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/**
 * A command that is being carried out: what it asks for, its data, and its answer. This is all that
 * {@link FabricsCommands}, {@link AdminCommands} and {@link IoCommands} know of the connection, so
 * that they can be tested without one.
 *
 * <p>Each command is answered once, by one of the methods that say so. All methods are called by
 * the polling thread; only the work of {@link #aside} runs on another.
 */
interface Exchange {
    Command command();

    /** Memory of {@link #PAGE_BYTES}, zeros at first, for data that is not a disk's. */
    MemorySegment page();

    /** The longest data that goes through {@link #page}. */
    int PAGE_BYTES = 4096;

    /** Answers that the command has succeeded. */
    void succeed(long result);

    /** Answers that the command has failed, and why. */
    void fail(NvmeStatus status, long result);

    default void fail(NvmeStatus status) {
        fail(status, 0);
    }

    /**
     * Writes the beginning of the page into the host's memory, and answers with success. Answers
     * with a failure if the host has less room.
     */
    void sendPage(int length);

    /**
     * Reads the beginning of the host's data into the page, then calls {@code then}. Answers with a
     * failure if the host offers less data.
     */
    void fetchPage(int length, Consumer<Exchange> then);

    /** Writes a part of a disk into the host's memory, and answers with success. */
    void sendBlocks(Namespace from, long offset, long length);

    /**
     * Reads the host's data into a disk, then calls {@code then}. Answers with a failure if the
     * data has another length, or the host has none.
     */
    void fetchBlocks(Namespace to, long offset, long length, Consumer<Exchange> then);

    /**
     * Runs work that takes long on another thread, then answers with success, or with
     * INTERNAL_ERROR if the work has thrown. It does not begin once the connection has ended.
     */
    void aside(Runnable work);

    /**
     * Goes on with a command after others had their turn, on the polling thread; not at all once
     * the connection has ended. So nothing of a command is done any more when its host connects
     * again and may write to the same blocks.
     */
    void later(Runnable rest);
}
