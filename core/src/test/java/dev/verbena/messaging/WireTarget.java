package dev.verbena.messaging;

import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.Announcement;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.Locale;

/**
 * What reads bytes of a peer, with a check of what it does with any bytes: it throws nothing but
 * the documented exception, and does not say more than there is. See {@link WireFuzzTest}.
 */
enum WireTarget {
    /** The private data of a channel's request or reply. */
    HANDSHAKE {
        @Override
        void run(byte[] input) {
            Handshake read;
            try {
                read = Handshake.read(input);
            } catch (MessagingException e) {
                check(e.status() == Status.NOT_SUPPORTED && isPrintable(e), "reason: " + e);
                return;
            }
            byte[] again = read.toBytes();
            byte[] known = Arrays.copyOf(input, Handshake.BYTES);
            known[5] &= 1;
            check(Arrays.equals(again, known), "says something else: " + read);
            check(
                    read.receives() > 0 && read.maxMessage() > 0 && read.eagerLimit() > 0,
                    "limits: " + read);
        }
    },

    /** The private data of a rejection. */
    REFUSAL {
        private final VerbenaException refused =
                new MessagingException(Status.CONNECTION_REFUSED, "");

        @Override
        void run(byte[] input) {
            Refusal read = Refusal.read(input);
            if (read == null) {
                return;
            }
            check(
                    read.status() == Status.NOT_SUPPORTED
                            || read.status() == Status.CONNECTION_REFUSED,
                    "status: " + read);
            check(read.why().length() <= input.length - 8, "longer than the data");
            check(
                    isPrintable(
                            Refusal.explained(
                                    read, refused, InetSocketAddress.createUnresolved("a", 1))),
                    "control characters of the peer's reach a log");
        }
    },

    /** The private data of any connection. */
    ANNOUNCEMENT {
        @Override
        void run(byte[] input) {
            Announcement read = Announcement.read(input);
            if (read == null) {
                return;
            }
            int header = Byte.toUnsignedInt(input[6]);
            byte[] data = read.data();
            check(
                    Arrays.equals(data, Arrays.copyOfRange(input, header, header + data.length)),
                    "other data");
            check(header + data.length <= input.length, "more data than there are");
            check(
                    read.inboundReads() >= 0
                            && read.inboundReads() < 1 << 16
                            && read.outboundReads() >= 0
                            && read.outboundReads() < 1 << 16,
                    "reads");
            Announcement again = Announcement.read(read.bytes());
            check(again != null && Arrays.equals(again.data(), data), "written and read");
        }
    },

    /** Remote memory in a message; the first two bytes are the offset. */
    REMOTE_MEMORY {
        @Override
        void run(byte[] input) {
            int offset = input.length < 2 ? 0 : (short) (input[0] << 8 | input[1] & 0xFF);
            RemoteMemory read;
            try {
                read = RemoteMemory.readFrom(MemorySegment.ofArray(input), offset);
            } catch (IndexOutOfBoundsException e) {
                check(offset < 0 || offset + 20 > input.length, "there is room: " + e);
                return;
            } catch (IllegalArgumentException e) {
                check(input[offset + 8] < 0, "the length is not negative: " + e);
                return;
            }
            byte[] again = new byte[RemoteMemory.MESSAGE_BYTES];
            read.writeTo(MemorySegment.ofArray(again), 0);
            check(Arrays.equals(again, Arrays.copyOfRange(input, offset, offset + 20)), "" + read);
            long[] bounds = {
                0, 1, read.bytes() - 1, read.bytes(), read.bytes() + 1, Long.MAX_VALUE
            };
            for (long from : bounds) {
                for (long length : bounds) {
                    boolean inside =
                            from >= 0
                                    && length >= 0
                                    && from <= read.bytes()
                                    && length <= read.bytes() - from;
                    check(inside == slices(read, from, length), from + ", " + length + ": " + read);
                }
            }
        }

        @Override
        int inputs() {
            return 20_000; // each tries 36 slices
        }

        private static boolean slices(RemoteMemory memory, long from, long length) {
            try {
                RemoteMemory slice = memory.slice(from, length);
                check(slice.bytes() == length && slice.token() == memory.token(), "" + slice);
                return true;
            } catch (IndexOutOfBoundsException e) {
                return false;
            }
        }
    },

    /** Frames, notes, calls, tokens and writes of a peer: see {@link WireWorld}. */
    FRAMES {
        private @Nullable WireWorld world;

        @Override
        void run(byte[] input) {
            WireWorld there = world;
            if (there == null) {
                there = new WireWorld();
                world = there;
            }
            there.run(input);
        }

        @Override
        int inputs() {
            return 20_000;
        }

        @Override
        void close() {
            WireWorld there = world;
            world = null;
            if (there != null) {
                there.close();
            }
        }
    };

    /** Reads an input; throws an AssertionError, or what the code under test threw. */
    abstract void run(byte[] input);

    /** How many inputs there are in each CI run: those of some seconds. */
    int inputs() {
        return 100_000;
    }

    /** Frees what the inputs have shared. */
    void close() {}

    /** The resource with its corpus. */
    String corpus() {
        return "/fuzz/" + name().toLowerCase(Locale.ROOT) + ".txt";
    }

    static void check(boolean fact, String otherwise) {
        if (!fact) {
            throw new AssertionError(otherwise);
        }
    }

    /** Whether its message can stand in a log: no control characters, no lines of the peer's. */
    static boolean isPrintable(Throwable thrown) {
        return String.valueOf(thrown.getMessage()).chars().allMatch(c -> c >= ' ' && c != 0x7F);
    }
}
