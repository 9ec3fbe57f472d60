package dev.verbena.internal.queue;

/**
 * The 64 bits that travel with a request and come back with its completion, when nothing else about
 * a failed one can be trusted (its opcode for one: the man page says so, and rxe leaves 0 there).
 *
 * <p>From the top: 1 bit direction, 1 bit for a shared receive queue, 14 bits generation, 16 bits
 * slot in the completion queue's table (in the adapter's for a shared one), 32 bits sequence
 * number.
 */
public final class WorkId {
    /**
     * How many queues one completion queue can serve; a queue pair that reports to it with both
     * counts twice.
     */
    public static final int SLOTS = 1 << 16;

    private static final int GENERATIONS = 1 << 14;
    private static final long RECEIVE = 1L << 63;
    private static final long SHARED = 1L << 62;

    private WorkId() {}

    /**
     * The part that stays the same for one queue.
     *
     * @param generation how often the slot was used before; only its low bits count
     */
    public static long queue(int slot, int generation, boolean receive) {
        return (receive ? RECEIVE : 0)
                | (long) (generation & GENERATIONS - 1) << 48
                | (long) slot << 32;
    }

    /** The same for one shared receive queue. */
    public static long sharedQueue(int slot, int generation) {
        return SHARED | queue(slot, generation, true);
    }

    public static long of(long queue, int sequence) {
        return queue | sequence & 0xFFFF_FFFFL;
    }

    public static boolean isReceive(long id) {
        return id < 0;
    }

    /** Whether it is a receive of a shared queue. */
    public static boolean isShared(long id) {
        return (id & SHARED) != 0;
    }

    /** The slot in the completion queue's table. */
    public static int slot(long id) {
        return (int) (id >>> 32) & SLOTS - 1;
    }

    /** Whether an id is one of a queue's, and not what an earlier user of the slot left behind. */
    public static boolean belongsTo(long id, long queue) {
        return (id ^ queue) >>> 32 == 0;
    }

    public static int sequence(long id) {
        return (int) id;
    }
}
