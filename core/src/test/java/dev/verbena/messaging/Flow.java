package dev.verbena.messaging;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * The messages of one direction of a channel, and what became of each. One thread at a time sends.
 * The bytes of a message follow from the flow and from the number of the message, so that one of a
 * single byte needs no header: each message that arrives must be the next one that was not refused.
 */
final class Flow {
    private static final byte REFUSED = 1;
    private static final byte SUCCEEDED = 2;
    private static final byte FAILED = 3;
    private static final byte STATE = 3; // the bits of these
    private static final byte REPORTS = 4; // the channel says how it ends
    private static final byte ARRIVED = 8;

    private static final int LOOKED_AT = 64; // messages, to say which one came instead

    final String name;
    private final long key;
    private final Consumer<String> complain;
    private final Map<Integer, byte[]> beginnings = new ConcurrentHashMap<>();
    private int[] lengths = new int[64];
    private byte[] states = new byte[64];
    private int count;
    private int next; // that may arrive
    private int unreported; // those that the channel will report
    private long bytes; // that arrived

    Flow(String name, long key, Consumer<String> complain) {
        this.name = name;
        this.key = key;
        this.complain = complain;
    }

    // ---- bytes

    /** Writes the bytes that have this key and number. */
    static void fill(MemorySegment to, long key, int number) {
        long word = word(key, number);
        long length = to.byteSize();
        long i = 0;
        for (; i + Long.BYTES <= length; i += Long.BYTES) {
            to.set(JAVA_LONG_UNALIGNED, i, word + i * 0x9E37_79B9_7F4A_7C15L);
        }
        for (; i < length; i++) {
            to.set(JAVA_BYTE, i, (byte) (word >>> 8 * (i & 7)));
        }
    }

    /** The first byte from there on that is not as {@link #fill} writes it, or -1. */
    static long mismatch(MemorySegment of, long from, long key, int number) {
        long word = word(key, number);
        long length = of.byteSize();
        long i = 0;
        for (; i + Long.BYTES <= length; i += Long.BYTES) {
            if (i >= from && of.get(JAVA_LONG_UNALIGNED, i) != word + i * 0x9E37_79B9_7F4A_7C15L) {
                return i;
            }
        }
        for (; i < length; i++) {
            if (i >= from && of.get(JAVA_BYTE, i) != (byte) (word >>> 8 * (i & 7))) {
                return i;
            }
        }
        return -1;
    }

    private static long word(long key, int number) {
        long mixed = (key + number * 0xD6E8_FEB8_6659_FD93L) * 0x9E37_79B9_7F4A_7C15L;
        return mixed ^ mixed >>> 29;
    }

    void fill(MemorySegment to, int number) {
        fill(to, key, number);
        byte[] beginning = beginnings.get(number);
        if (beginning != null) {
            MemorySegment.copy(beginning, 0, to, JAVA_BYTE, 0, beginning.length);
        }
    }

    // ---- what is sent

    /**
     * Before a message is sent.
     *
     * @param reports whether the channel will say how it has ended, unless it refuses it
     * @param beginning its first bytes, or null
     */
    synchronized int open(int length, boolean reports, byte @Nullable [] beginning) {
        if (count == states.length) {
            lengths = Arrays.copyOf(lengths, 2 * count);
            states = Arrays.copyOf(states, 2 * count);
        }
        if (beginning != null) {
            beginnings.put(count, beginning);
        }
        lengths[count] = length;
        states[count] = reports ? REPORTS : 0;
        unreported += reports ? 1 : 0;
        return count++;
    }

    /** It was not accepted, so it must not arrive. */
    void refused(int number) {
        end(number, REFUSED, "refused");
    }

    /** The channel says how it has ended. */
    void ended(int number, Status status) {
        end(number, status.isSuccess() ? SUCCEEDED : FAILED, status.name());
    }

    private synchronized void end(int number, byte state, String how) {
        int before = states[number] & STATE;
        if (before != 0) {
            complain(number, "has ended twice: %d, and %s".formatted(before, how));
            return;
        }
        unreported -= (states[number] & REPORTS) == 0 ? 0 : 1;
        states[number] |= state;
        if (state == REFUSED && (states[number] & ARRIVED) != 0) {
            complain(number, "was refused, and arrived");
        }
    }

    // ---- what arrives

    /** A message has come; returns its number, or -1 if it is none of these. */
    int arrived(MemorySegment data) {
        int number;
        synchronized (this) {
            while (next < count && (states[next] & STATE) == REFUSED) {
                next++;
            }
            if (next == count) {
                complain.accept(
                        "%s: %d bytes came that nobody sent".formatted(name, data.byteSize()));
                return -1;
            }
            number = next++;
            states[number] |= ARRIVED;
            bytes += data.byteSize();
        }
        check(number, data);
        return number;
    }

    /** Complains about a message that is not as it was sent. */
    void check(int number, MemorySegment data) {
        String wrong = wrong(number, data);
        if (wrong != null) {
            complain(number, wrong + "; it is " + other(number, data));
        }
    }

    private @Nullable String wrong(int number, MemorySegment data) {
        byte[] beginning = beginnings.getOrDefault(number, new byte[0]);
        if (data.byteSize() != length(number)) {
            return "came with %d of %d bytes".formatted(data.byteSize(), length(number));
        }
        long at = data.asSlice(0, beginning.length).mismatch(MemorySegment.ofArray(beginning));
        at = at == -1 ? mismatch(data, beginning.length, key, number) : at;
        return at == -1
                ? null
                : "came with a wrong byte at %d of %d: %x"
                        .formatted(at, data.byteSize(), data.get(JAVA_BYTE, at));
    }

    private synchronized int length(int number) {
        return lengths[number];
    }

    private String other(int number, MemorySegment data) {
        int from = Math.max(0, number - LOOKED_AT);
        int to = Math.min(sent(), number + LOOKED_AT);
        for (int i = from; i < to; i++) {
            if (i != number && wrong(i, data) == null) {
                return "message " + i;
            }
        }
        return "none of its neighbors";
    }

    // ---- the end

    synchronized int sent() {
        return count;
    }

    synchronized long bytes() {
        return bytes;
    }

    /** How many have ended of which the channel has not said how. */
    synchronized int unreported() {
        return unreported;
    }

    /**
     * Once both ends of the channel have ended. Returns how many arrived.
     *
     * @param mayLose whether the receiver may have ended before it was given what had arrived; not
     *     asked if all has come
     */
    synchronized int settle(BooleanSupplier mayLose) {
        int arrived = 0;
        for (int i = 0; i < count; i++) {
            int state = states[i] & STATE;
            boolean here = (states[i] & ARRIVED) != 0;
            arrived += here ? 1 : 0;
            if (state == 0 && (states[i] & REPORTS) != 0) {
                complain(i, "never ended");
            } else if (state == SUCCEEDED && !here && !mayLose.getAsBoolean()) {
                complain(
                        i,
                        "was acknowledged, and lost; %d was the first that did not come"
                                .formatted(next));
            }
        }
        return arrived;
    }

    private void complain(int number, String what) {
        complain.accept(
                "message %d of %s (%d bytes) %s".formatted(number, name, length(number), what));
    }
}
