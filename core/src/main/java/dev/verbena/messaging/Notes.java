package dev.verbena.messaging;

import java.lang.foreign.MemorySegment;

/**
 * What a side has to say of remote keys (NDK: tokens), oldest first: each goes to the peer in the
 * next frame that has room for it. And whether the peer waits for a frame, whatever it says.
 * Guarded by the lock of the channel.
 */
final class Notes {
    /** The sender's token may be used by the peer from now on. */
    static final byte EXPOSED = 1;

    /** The peer is asked to use the sender's token no more, and to say so. */
    static final byte ASKED_BACK = 2;

    /** The answer: what was sent before this frame was the last that uses the peer's token. */
    static final byte GIVEN_BACK = 3;

    private static final long[] NOTHING = {};

    private final int mostOwn;
    private int mostAnswers;
    private long[] queue = NOTHING; // the kind in the upper half, the token in the lower
    private int answers; // of those: GIVEN_BACK
    private int head;
    private int size;
    private int urgent; // of those: not EXPOSED
    private boolean answerDue; // to a keep-alive

    /**
     * Makes an empty queue.
     *
     * @param own how many notes on this side's keys there may be at a time
     * @param answers how many notes on the peer's keys there may be besides: one for each key that
     *     the peer can have exposed, so a peer that asks for more was never given them
     */
    Notes(int own, int answers) {
        mostOwn = own;
        mostAnswers = answers;
    }

    /** The peer is known: so many notes there may be on its keys. */
    void open(int most) {
        mostAnswers = most;
    }

    /** Adds a note; false when there are as many of its kind as may be. */
    boolean add(byte kind, int token) {
        boolean full = kind == GIVEN_BACK ? answers == mostAnswers : size - answers == mostOwn;
        if (full) {
            return false;
        }
        if (size == queue.length) {
            grow();
        }
        answers += kind == GIVEN_BACK ? 1 : 0;
        queue[(head + size++) % queue.length] = (long) kind << 32 | Integer.toUnsignedLong(token);
        if (kind != EXPOSED) {
            urgent++;
        }
        return true;
    }

    private void grow() {
        long[] larger = new long[Math.max(2, 2 * size)];
        for (int i = 0; i < size; i++) {
            larger[i] = queue[(head + i) % size];
        }
        queue = larger;
        head = 0;
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

    /** The peer waits for an answer to its keep-alive. */
    void dueAnswer() {
        answerDue = true;
    }

    /** Whether the peer waits for one of them or an answer, or there are too many for a message. */
    boolean urgent() {
        return answerDue || urgent > 0 || !fit();
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

    /**
     * A frame was sent.
     *
     * @param written whether the notes of the next frame were in it
     */
    void sent(boolean written) {
        answerDue = false; // any frame is one
        for (int left = written ? inNextFrame() : 0; left > 0; left--) {
            long kind = queue[head] >> 32;
            urgent -= kind != EXPOSED ? 1 : 0;
            answers -= kind == GIVEN_BACK ? 1 : 0;
            head = (head + 1) % queue.length;
            size--;
        }
    }
}
