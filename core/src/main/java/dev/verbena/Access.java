package dev.verbena;

import dev.verbena.internal.verbs.Rights;

/**
 * What may be done to a memory region, as NDK's NDK_MR_FLAG_* say it. Reading it locally is always
 * allowed.
 */
public enum Access {
    /** Receives and reads may write into it. */
    LOCAL_WRITE(0x1, Rights.LOCAL_WRITE),
    /**
     * The peer may read it. With {@link #REMOTE_WRITE}, and on a device that has them, atomics too
     * (beyond NDK).
     */
    REMOTE_READ(0x2, Rights.REMOTE_READ),
    /** The peer may write into it; contains {@link #LOCAL_WRITE}. */
    REMOTE_WRITE(0x5, Rights.REMOTE_WRITE | Rights.LOCAL_WRITE),
    /**
     * Reads may write into it. InfiniBand and RoCE know no such right: there it is {@link
     * #LOCAL_WRITE}. On iWARP (see {@link AdapterInfo#readSinkRequired}) the answer to a read is a
     * write of the peer's: there it contains REMOTE_WRITE, and LOCAL_WRITE alone is not enough.
     */
    RDMA_READ_SINK(0x8, Rights.LOCAL_WRITE),
    /**
     * Windows may be bound to it (beyond NDK, which has no flag for it: 0). To be asked for with a
     * {@linkplain java.lang.foreign.MemorySegment#isReadOnly read-only} segment only, all others
     * have it on a device that has windows. The kernel pins the memory as writable for it, and
     * refuses what is mapped read-only, such as a read-only mapping of a file.
     */
    WINDOWS(0, Rights.BIND_WINDOWS);

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

    /** Whether it lets anybody write. */
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
