package dev.verbena.internal.device;

import dev.verbena.HugePages;
import dev.verbena.MemoryOptions;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.util.Log;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Pages;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Memory that a region owns. Java's access to it ends when the region is closed ({@link
 * #endJavaAccess}), and the device's when the region is deregistered, which may be later. Only then
 * {@link #free} gives the pages back.
 */
public final class OwnedMemory {
    private static final long LONGEST_PAUSE = 1000; // milliseconds
    private static final long ADDRESSES = 1L << 57; // more than user space has

    private final Arena javaAccess;
    private final MemorySegment segment;
    private final long address;
    private final long mapped; // bytes, in whole pages
    private final long pageBytes;

    private OwnedMemory(Arena javaAccess, long address, long bytes, long mapped, long pageBytes) {
        this.javaAccess = javaAccess;
        this.address = address;
        this.mapped = mapped;
        this.pageBytes = pageBytes;
        try {
            this.segment = Pages.segment(address, bytes, javaAccess);
        } catch (Throwable t) { // another thread has closed the arena
            discard();
            throw t;
        }
    }

    /**
     * Allocates zeroed memory in whole pages.
     *
     * @param javaAccess the scope of the segment
     */
    public static OwnedMemory allocate(long bytes, MemoryOptions options, Arena javaAccess) {
        if (bytes < 1) {
            throw new IllegalArgumentException("Allocate at least 1 byte, not " + bytes);
        }
        if (bytes > ADDRESSES) { // which rounding up could overflow
            throw cannotMap(bytes, -Errno.ENOMEM);
        }
        HugePages pages = options.hugePages();
        if (pages == HugePages.PREFERRED || pages == HugePages.REQUIRED) {
            long huge = Pages.hugeSize();
            long mapped = roundUp(bytes, huge);
            long address = Pages.mapHuge(mapped, options.alignment());
            if (address >= 0) {
                return new OwnedMemory(javaAccess, address, bytes, mapped, huge);
            }
            String problem = tooFewHugePages(bytes, mapped / huge, huge, (int) -address);
            if (pages == HugePages.REQUIRED) {
                throw new VerbenaException(Status.INSUFFICIENT_RESOURCES, problem);
            }
            Log.info(problem + " Transparent huge pages are used instead.");
        }
        long mapped = roundUp(bytes, Pages.SIZE);
        boolean transparent = pages != HugePages.DEFAULT;
        long huge = transparent ? Pages.hugeSize() : 1;
        long alignment =
                transparent && bytes >= huge
                        ? Math.max(huge, options.alignment())
                        : options.alignment();
        long address = Pages.map(mapped, alignment);
        if (address < 0) {
            throw cannotMap(mapped, address);
        }
        if (transparent) {
            int _ = Pages.preferHuge(address, mapped); // a hint: without it, ordinary pages
        }
        return new OwnedMemory(javaAccess, address, bytes, mapped, Pages.SIZE);
    }

    private static VerbenaException cannotMap(long bytes, long answer) {
        return new VerbenaException(
                "mmap(%,d bytes)".formatted(bytes),
                (int) -answer,
                "The system cannot provide that much memory to this process: see ulimit -v,"
                        + " vm.overcommit_memory, and the memory limit of its control group.");
    }

    private static String tooFewHugePages(long bytes, long needed, long huge, int errno) {
        return "%,d bytes need %,d huge pages of %,d KiB, and %,d are free (%s): reserve more by sysctl vm.nr_hugepages."
                .formatted(bytes, needed, huge >> 10, Pages.hugeFree(), Errno.describe(errno));
    }

    private static long roundUp(long bytes, long to) {
        return bytes + to - 1 & -to;
    }

    public MemorySegment segment() {
        return segment;
    }

    public long pageBytes() {
        return pageBytes;
    }

    /**
     * Makes each later access by Java throw IllegalStateException.
     *
     * @return false while a thread is inside a call that uses the memory, such as a read of a file
     */
    public boolean endJavaAccess() {
        try {
            if (segment.scope().isAlive()) {
                javaAccess.close();
            }
        } catch (IllegalStateException inUse) {
            // In use, or closed by another thread at this moment.
        }
        return !segment.scope().isAlive();
    }

    /**
     * Gives the pages back; when a thread is inside a call that uses them, as soon as it has left.
     * Only after the region was deregistered.
     */
    public void free() {
        freeAfter(1);
    }

    /** Gives the pages back, for memory that nobody else has seen. */
    public void discard() {
        int _ = Pages.unmap(address, mapped); // fails only for a wrong address
    }

    private void freeAfter(long pause) {
        if (endJavaAccess()) {
            discard();
        } else {
            // No event says when the thread has left.
            CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS, Threads.CALLBACKS)
                    .execute(() -> freeAfter(Math.min(2 * pause, LONGEST_PAUSE)));
        }
    }
}
