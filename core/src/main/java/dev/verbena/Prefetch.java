package dev.verbena;

/** What {@link MemoryRegion#prefetch} prepares pages for. */
public enum Prefetch {
    /**
     * The device will read them: they are the source of sends and writes, or the peer reads them.
     */
    READ(0),
    /**
     * The device will write them. A page that is shared with a file or another process (copy on
     * write) is copied first.
     */
    WRITE(1),
    /** Only pages that are in memory already: none is allocated or read from a file. */
    PRESENT(2);

    private final int advice;

    Prefetch(int advice) {
        this.advice = advice;
    }

    /** {@code enum ib_uverbs_advise_mr_advice}. */
    int advice() {
        return advice;
    }
}
