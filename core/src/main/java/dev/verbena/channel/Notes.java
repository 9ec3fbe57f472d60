package dev.verbena.channel;

import java.lang.foreign.MemorySegment;

/**
 * What a side has to say of remote keys (NDK: tokens), oldest first: each goes to the peer in the
 * next frame that has room for it. Guarded by the lock of the channel.
 */
final class Notes {
    /** The sender's token may be used by the peer from now on. */
    static final byte EXPOSED = 1;

    /** The peer is asked to use the sender's token no more, and to say so. */
    static final byte ASKED_BACK = 2;

    /** The answer: what was sent before this frame was the last that uses the peer's token. */
    static final byte GIVEN_BACK = 3;

    private final long[] queue; // the kind in the upper half, the token in the lower
    private int head;
    private int size;
    private int urgent; // of those: not EXPOSED

    /**
     * Makes an empty queue.
     *
     * @param most how many notes there may be at a time
     */
    Notes(int most) {
        queue = new long[Math.max(1, most)];
    }

    /** A queue with the same notes, and room for more. */
    Notes withRoomFor(int more) {
        Notes larger = new Notes(queue.length + more);
        for (int i = 0; i < size; i++) {
            long note = queue[(head + i) % queue.length];
            boolean ignored = larger.add((byte) (note >> 32), (int) note);
        }
        return larger;
    }

    /** Adds a note; false when there are as many as may be. */
    boolean add(byte kind, int token) {
        if (size == queue.length) {
            return false;
        }
        queue[(head + size++) % queue.length] = (long) kind << 32 | Integer.toUnsignedLong(token);
        if (kind != EXPOSED) {
            urgent++;
        }
        return true;
    }

    /** Takes back that a token was exposed; false if the peer was notified already. */
    boolean withdrawExposed(int token) {
        long note = (long) EXPOSED << 32 | Integer.toUnsignedLong(token);
        for (int i = 0; i < size; i++) {
            if (queue[(head + i) % queue.length] == note) {
                for (int j = i + 1; j < size; j++) {
                    queue[(head + j - 1) % queue.length] = queue[(head + j) % queue.length];
                }
                size--;
                return true;
            }
        }
        return false;
    }

    /** How many go into the next frame. */
    int inNextFrame() {
        return Math.min(size, Frame.MOST_NOTES);
    }

    /** Whether the next frame has room for all. */
    boolean fit() {
        return size <= Frame.MOST_NOTES;
    }

    /** Whether the peer waits for one of them, or there are too many for a message. */
    boolean urgent() {
        return urgent > 0 || !fit();
    }

    /** Whether the next frame says that requests have ended. */
    boolean givesBack() {
        for (int i = 0; i < inNextFrame(); i++) {
            if (queue[(head + i) % queue.length] >> 32 == GIVEN_BACK) {
                return true;
            }
        }
        return false;
    }

    /** Writes the notes of the next frame. */
    void write(MemorySegment at, long offset) {
        for (int i = 0; i < inNextFrame(); i++) {
            long note = queue[(head + i) % queue.length];
            Frame.writeNote(at, offset, i, (byte) (note >> 32), (int) note);
        }
    }

    /** The frame was sent. */
    void sent() {
        for (int left = inNextFrame(); left > 0; left--) {
            if (queue[head] >> 32 != EXPOSED) {
                urgent--;
            }
            head = (head + 1) % queue.length;
            size--;
        }
    }
}
