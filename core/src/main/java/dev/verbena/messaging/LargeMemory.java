package dev.verbena.messaging;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Closing;

import org.jspecify.annotations.Nullable;

import java.util.Objects;
import java.util.function.IntSupplier;

/**
 * The registered memory of a {@link Poller} for large messages: blocks of some sizes, which are
 * kept for the next message of that size until nobody has taken them for some seconds. Of several
 * blocks, that which was given back last is taken first. May be used from any thread.
 *
 * <p>A block for a message that comes is cleared if another channel may have used it: a peer that
 * announces a message, and does not write it, must not make a program send it what other peers have
 * sent. All blocks for messages that come have a limit, so that many peers cannot take all memory
 * that a process may lock. Its last quarter is for channels that have no message, and the quarter
 * before that is not for channels whose messages were copied to the heap: those with many that
 * nobody reads or writes do not stall the others. Blocks are kept only as far as all blocks
 * together do not exceed what the channels may take.
 *
 * <p>To map and pin memory, or to clear it, takes the polling thread up to a second for a GiB. It
 * does so for one block in each tick, or for several that have 256 MiB together, or four times as
 * much to clear: so peers that announce large messages do not keep it from its other channels.
 */
final class LargeMemory implements AutoCloseable {
    private static final int KEPT_TICKS = 50;
    private static final long MOST_PREPARED = 256 << 20; // bytes in a tick
    private static final int SMALLEST_SHIFT = 12;
    private static final int MOST_SHARES = 64; // of what one channel may take
    private static final int SHARES_OF_MORE = 48; // of these, for channels that have a message
    private static final int SHARES_BEHIND_COPIES = 32; // for channels with copies on the heap
    private static final int STEPS = 4; // sizes from one power of two to the next
    private static final int STEP_SHIFT = Integer.numberOfTrailingZeros(STEPS);
    private static final int SIZES = (Integer.SIZE - SMALLEST_SHIFT) * STEPS;

    static final class Block {
        final MemoryRegion region;
        final int size; // which of the sizes
        private boolean comes; // the message
        private @Nullable MessageChannel user; // the last one, or null after several
        private int givenBack; // the tick
        private @Nullable Block next; // was given back before this one

        Block(MemoryRegion region, int size, MessageChannel user) {
            this.region = region;
            this.size = size;
            this.user = user;
        }

        long bytes() {
            return bytesOf(size);
        }
    }

    private final ProtectionDomain domain;
    // By size, the last one given back. The blocks are linked: to give one back needs no memory.
    private final @Nullable Block[] free = new Block[SIZES];
    private final IntSupplier channels; // how many there are
    private long mostOfChannel; // for messages that come, and again for copies
    private long taken; // for messages that come
    private long registered; // all blocks
    private long prepared; // for messages that come, in this tick
    private int tick;
    private boolean closed;

    LargeMemory(ProtectionDomain domain, IntSupplier channels) {
        this.domain = domain;
        this.channels = channels;
    }

    /** The number of the smallest size with room for so many bytes. */
    static int sizeOf(int bytes) {
        int most = Math.max(bytes, (1 << SMALLEST_SHIFT) + 1) - 1;
        int shift = Integer.SIZE - 1 - Integer.numberOfLeadingZeros(most);
        int step = most >>> shift - STEP_SHIFT; // STEPS to 2 * STEPS - 1
        return (shift - SMALLEST_SHIFT) * STEPS + step + 1 - STEPS;
    }

    /** How many bytes a block for so many has. */
    static long blockBytes(int bytes) {
        return bytesOf(sizeOf(bytes));
    }

    /** How many bytes a size has. */
    static long bytesOf(int size) {
        return (long) (STEPS + size % STEPS) << size / STEPS + SMALLEST_SHIFT - STEP_SHIFT;
    }

    /** A channel may take so much for messages that come. */
    synchronized void raiseLimit(long ofChannel) {
        long most = Math.min(ofChannel, Long.MAX_VALUE / (2 * MOST_SHARES)); // no overflow
        mostOfChannel = Math.max(mostOfChannel, most);
    }

    /**
     * Takes memory for a message that comes.
     *
     * @param has how many bytes the channel has, in blocks and on the heap
     * @param copies how many of these on the heap
     * @return null when all channels have taken as much as they may, or until the next tick
     * @throws VerbenaException as {@link ProtectionDomain#allocate} does
     */
    @Nullable Block take(int bytes, MessageChannel user, long has, long copies) {
        int more = copies == 0 ? SHARES_OF_MORE : SHARES_BEHIND_COPIES;
        if (!count(blockBytes(bytes), has == 0 ? MOST_SHARES : more)) {
            return null;
        }
        Block block = null;
        try {
            block = takeAny(bytes, user, true);
            if (block != null) {
                block.comes = true;
            }
            return block;
        } finally {
            if (block == null) {
                boolean ignored = count(-blockBytes(bytes), MOST_SHARES);
            }
        }
    }

    private synchronized boolean count(long bytes, int shares) {
        boolean fits = taken + bytes <= shares * mostOfChannel;
        taken += fits ? bytes : 0;
        return fits;
    }

    /**
     * Takes memory for a copy of a message that is sent.
     *
     * @throws VerbenaException as {@link ProtectionDomain#allocate} does
     */
    Block takeForCopy(int bytes, MessageChannel user) {
        return Objects.requireNonNull(takeAny(bytes, user, false));
    }

    @SuppressWarnings("ReferenceEquality") // the same channel
    private @Nullable Block takeAny(int bytes, MessageChannel user, boolean clears) {
        int size = sizeOf(bytes);
        Block block = kept(size);
        boolean isKnown = block != null && block.user == user;
        if (clears && !isKnown && !mayPrepare(block == null ? bytesOf(size) : bytesOf(size) / 4)) {
            keep(block);
            return null;
        }
        if (block == null) {
            block = new Block(allocate(bytesOf(size)), size, user);
        } else if (block.user != user) {
            block.user = clears ? user : null; // a copy may leave bytes of the one before
            if (clears) {
                block.region.memory().fill((byte) 0);
            }
        }
        return block;
    }

    private synchronized boolean mayPrepare(long bytes) {
        boolean may = prepared < MOST_PREPARED;
        prepared += may ? bytes : 0;
        return may;
    }

    private synchronized void keep(@Nullable Block block) {
        if (block != null) {
            block.next = free[block.size];
            free[block.size] = block;
        }
    }

    private MemoryRegion allocate(long bytes) {
        makeRoom(bytes);
        MemoryRegion region = null;
        try {
            region = domain.allocate(bytes, Access.LOCAL_WRITE);
            return region;
        } finally {
            if (region == null) {
                makeRoom(-bytes);
            }
        }
    }

    /** Counts memory, and frees other blocks that are kept if the channels may not take all. */
    private synchronized void makeRoom(long bytes) {
        registered += bytes;
        long most = 2 * mostOfChannel * Math.clamp(channels.getAsInt(), 1, MOST_SHARES);
        int size = SIZES - 1;
        while (registered > most && size >= 0) {
            Block block = kept(size);
            if (block == null) {
                size--;
            } else {
                close(block);
            }
        }
    }

    private void close(Block block) {
        registered -= block.bytes();
        Closing.quietly(domain, block.region);
    }

    private synchronized @Nullable Block kept(int size) {
        Block block = free[size];
        if (block != null) {
            free[size] = block.next;
            block.next = null;
        }
        return block;
    }

    /** Gives memory back that neither the device nor the program uses any more. */
    void giveBack(Block block) {
        synchronized (this) {
            taken -= block.comes ? block.bytes() : 0;
            block.comes = false;
            if (!closed) {
                block.givenBack = tick;
                keep(block);
                return;
            }
        }
        block.region.close();
    }

    /** At a tick: frees what nobody has taken for some seconds. */
    synchronized void tick(int now) {
        tick = now;
        prepared = 0;
        free(KEPT_TICKS);
        makeRoom(0); // there may be fewer channels
    }

    /** Frees what was given back more than so many ticks ago. */
    private void free(int ticks) {
        for (int size = 0; size < SIZES; size++) {
            Block younger = null;
            Block block = free[size];
            while (block != null && tick - block.givenBack <= ticks) {
                younger = block;
                block = block.next;
            }
            for (; block != null; block = block.next) { // none after it is younger
                if (younger == null) {
                    free[size] = block.next;
                } else {
                    younger.next = block.next;
                }
                close(block); // last: others stay, whatever it throws
            }
        }
    }

    /** Frees what is kept; what is taken is freed when it is given back. */
    @Override
    public synchronized void close() {
        closed = true;
        free(-1);
    }
}
