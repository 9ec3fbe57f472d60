package dev.verbena;

/** What {@link MemoryRegion#prefetch} fetches pages for. */
public enum Prefetch {
    /** To be read by the device: the source of sends, and what the peer reads. */
    READ(0),
    /**
     * To be written by the device. A page that a file or another process shares is copied first.
     */
    WRITE(1),
    /** Only those that the process has in memory anyway: none is allocated or read from a file. */
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
