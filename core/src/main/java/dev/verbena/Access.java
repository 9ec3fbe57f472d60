package dev.verbena;

import dev.verbena.internal.verbs.Rights;

/** Access rights of a memory region: NDK_MR_FLAG_*. Local reads are always allowed. */
public enum Access {
    /** Receives, and the results of reads and atomics posted here, may be written into it. */
    LOCAL_WRITE(0x1, Rights.LOCAL_WRITE),
    /**
     * The peer may read it. Together with {@link #REMOTE_WRITE} the peer may also execute atomics
     * on it (beyond NDK), if the device has them.
     */
    REMOTE_READ(0x2, Rights.REMOTE_READ),
    /** The peer may write into it; contains {@link #LOCAL_WRITE}. */
    REMOTE_WRITE(0x5, Rights.REMOTE_WRITE | Rights.LOCAL_WRITE),
    /**
     * The results of reads may be written into it. InfiniBand and RoCE have no such right: there it
     * equals {@link #LOCAL_WRITE}. On iWARP (see {@link AdapterInfo#readSinkRequired}) the result
     * of a read arrives as a write from the peer: there it includes REMOTE_WRITE, and LOCAL_WRITE
     * alone is not sufficient.
     */
    RDMA_READ_SINK(0x8, Rights.LOCAL_WRITE),
    /**
     * Windows may be bound to it. Beyond NDK, which has no flag for it, so its value is 0. Needed
     * only for a {@linkplain java.lang.foreign.MemorySegment#isReadOnly read-only} segment: on a
     * device with windows, all other regions have this right anyway. The kernel pins such memory as
     * writable, so it refuses memory that is mapped read-only, such as a read-only mapping of a
     * file.
     */
    WINDOWS(0, Rights.BIND_WINDOWS),
    /**
     * Its pages are not pinned: the device fetches each when it needs it, and the kernel may take
     * it away again (on-demand paging, IBV_ACCESS_ON_DEMAND). For memory that is larger than the
     * process may lock, and of which little is used at a time. An access to a page that is not
     * there takes many microseconds, or the time of reading it from a disk; {@link
     * MemoryRegion#prefetch} brings pages into memory beforehand. Not a right, but a way to
     * register; beyond NDK. Needs {@link AdapterInfo#onDemandPaging}. Not for data with Soft-RoCE:
     * on Linux 7.3.4 its driver puts bytes at the start of their page, whatever their offset there;
     * a warning is logged.
     */
    ON_DEMAND(0, Rights.ON_DEMAND),
    /**
     * The device's writes may arrive in memory in any order (IBV_ACCESS_RELAXED_ORDERING), which is
     * faster on some processors. Still guaranteed: when a completion was polled, all bytes are
     * there that its request and those before it on its queue pair received or read; and when a
     * message was received, those that the peer wrote before sending it. No longer guaranteed: a
     * program that polls memory for a last byte, or for a flag that the peer writes after its data,
     * may see that first and the data later. Not a right, but a hint; beyond NDK: a library, kernel
     * or device that does not know it keeps the order, without an error.
     */
    RELAXED_ORDERING(0, Rights.RELAXED_ORDERING);

    private final int value;
    private final int verbs;

    Access(int value, int verbs) {
        this.value = value;
        this.verbs = verbs;
    }

    /**
     * NDK's value. {@link #REMOTE_WRITE} has two bits: test {@code (flags & x) == x}.
     *
     * @return the flag's bits
     */
    public int value() {
        return value;
    }

    /** Whether it allows writes, local or remote. */
    boolean writes() {
        return (verbs & (Rights.LOCAL_WRITE | Rights.REMOTE_WRITE)) != 0;
    }

    static int verbs(Access[] rights, boolean iwarp) {
        int bits = 0;
        for (Access right : rights) {
            bits |= right.verbs;
            if (iwarp && right == RDMA_READ_SINK) {
                bits |= Rights.REMOTE_WRITE;
            }
        }
        return bits;
    }
}
