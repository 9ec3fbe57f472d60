package dev.verbena.trust;

import dev.verbena.MemoryRegion;
import dev.verbena.RemoteMemory;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * The memory of a {@link Side}: as many slots each for what goes out, for what is read, for what
 * the peer writes, and for what the peer reads; and one for the words of its atomic operations. The
 * bytes of a slot follow from its request, or from its number where the peer reads.
 */
final class Slots {
    static final int BYTES = 64; // of a slot: the most of a request

    /** A request that uses a slot: its bytes go out, or are expected. */
    record Use(long context, Kind kind, int bytes) {}

    final MemoryRegion region;
    final int count;
    private final AtomicReferenceArray<Use> last;

    Slots(MemoryRegion region, int depth) {
        this.region = region;
        this.count = count(depth);
        this.last = new AtomicReferenceArray<>(count);
        for (int i = 0; i < count; i++) {
            fill(3L * count + i, i);
        }
    }

    /** More than can be outstanding, silent requests included. */
    private static int count(int depth) {
        return 4 * depth + 128;
    }

    /** How much memory a side needs. */
    static long bytes(int depth) {
        return (4L * count(depth) + 1) * BYTES;
    }

    /** What the peer may use. */
    RemoteMemory target() {
        return region.remoteMemory().slice(2L * count * BYTES, (2L * count + 1) * BYTES);
    }

    /** Where a slot's write or read goes, in what the peer may use. */
    long remote(boolean reads, int slot) {
        return (reads ? (long) count + slot : slot) * BYTES;
    }

    /** Where the words of atomic operations are, in what the peer may use. */
    long words() {
        return 2L * count * BYTES;
    }

    /** Prepares a request's bytes, or the place where they will be read. */
    void use(int slot, Use use) {
        last.set(slot, use);
        if (use.kind == Kind.READ) {
            region.memory().asSlice(((long) count + slot) * BYTES, BYTES).fill((byte) 0);
        } else if (!use.kind.isAtomic()) {
            fill(slot, use.context);
        }
    }

    /** The request was refused. */
    void forget(int slot) {
        last.set(slot, null);
    }

    /** The last request that used a slot; null if it was refused. */
    Use last(int slot) {
        return last.get(slot);
    }

    /** Whether a later request has the slot: then its bytes say nothing. */
    boolean reused(int slot, Use use) {
        VarHandle.loadLoadFence(); // the bytes were read before
        return last.get(slot) != use;
    }

    /** Whether a slot has the bytes that were read. */
    boolean read(int slot, Use use) {
        return holds(region.memory(), (long) count + slot, slot, use.bytes);
    }

    /** Whether a slot has the bytes that the peer has written. */
    boolean written(int slot, Use use) {
        return holds(region.memory(), 2L * count + slot, use.context, use.bytes);
    }

    /** Whether a slot of some memory begins with these bytes of a request. */
    static boolean holds(MemorySegment memory, long slot, long key, int bytes) {
        long[] expected = new long[BYTES / Long.BYTES];
        for (int i = 0; i < expected.length; i++) {
            expected[i] = word(key, i);
        }
        return MemorySegment.mismatch(
                        MemorySegment.ofArray(expected),
                        0,
                        bytes,
                        memory,
                        slot * BYTES,
                        slot * BYTES + bytes)
                < 0;
    }

    private void fill(long slot, long key) {
        for (int i = 0; i < BYTES / Long.BYTES; i++) {
            region.memory().set(ValueLayout.JAVA_LONG, slot * BYTES + i * Long.BYTES, word(key, i));
        }
    }

    /** The first word is the key; the others follow from it and from where they are. */
    private static long word(long key, int index) {
        long mixed = (key + index) * 0x9E37_79B9_7F4A_7C15L;
        return index == 0 ? key : (mixed ^ mixed >>> 29) * 0xBF58_476D_1CE4_E5B9L;
    }
}
