package dev.verbena.trust;

import dev.verbena.OperationType;
import dev.verbena.Status;

import java.util.Arrays;
import java.util.function.Consumer;

/**
 * The requests of one queue, and what became of each. Every contradiction is a complaint: a request
 * that was refused and completed, completed twice, was silent and reported as successful, overtook
 * another, or never completed.
 */
final class Account {
    private static final byte REFUSED = 1;
    private static final byte SIGNALED = 2; // outstanding
    private static final byte SILENT = 3; // outstanding, or complete
    private static final byte ENDED = 4;

    private final int id;
    private final String name;
    private final boolean ordered;
    private final Consumer<String> complain;
    private byte[] states = new byte[256];
    private OperationType[] types = new OperationType[256];
    private int[] places = new int[256];
    private int count;
    private int outstanding; // signaled ones
    private int last = -1; // that ended
    private int firstFailed = Integer.MAX_VALUE;
    private int refused;
    private int failed;
    private boolean broken;

    Account(int id, String name, boolean ordered, Consumer<String> complain) {
        this.id = id;
        this.name = name;
        this.ordered = ordered;
        this.complain = complain;
    }

    /** Before a post, as a completion may come before it returns. Returns the request's context. */
    synchronized long open(OperationType type, boolean silent) {
        if (count == states.length) {
            states = Arrays.copyOf(states, 2 * count);
            types = Arrays.copyOf(types, 2 * count);
            places = Arrays.copyOf(places, 2 * count);
        }
        states[count] = silent ? SILENT : SIGNALED;
        types[count] = type;
        places[count] = count - refused;
        outstanding += silent ? 0 : 1;
        return (long) id << 32 | count++;
    }

    /**
     * How many had been accepted before it, and not refused: a queue may refuse any number while
     * one is outstanding.
     */
    synchronized int place(long context) {
        return places[(int) context];
    }

    /** The post of a request had another result than ACCEPTED. */
    synchronized void refuse(long context) {
        int number = (int) context;
        if (states[number] == ENDED) {
            complain(number, "was refused, and completed");
        }
        outstanding -= states[number] == SIGNALED ? 1 : 0;
        states[number] = REFUSED;
        refused++;
    }

    /** A completion was polled. */
    synchronized void end(long context, OperationType type, Status status) {
        int number = (int) context;
        if (context >>> 32 != id || number >= count) {
            complain.accept("%s of %s is not of %s".formatted(type, context, name));
            return;
        }
        byte state = states[number];
        OperationType posted = types[number];
        if (state == REFUSED) {
            complain(number, "was refused, and completed with " + status);
        } else if (state == ENDED) {
            complain(number, "completed twice, now with " + status);
        } else if (state == SILENT && status.isSuccess()) {
            complain(number, "was silent, and reported");
        }
        if (type != posted && !(type.isReceive() && posted.isReceive())) {
            complain(number, "was a %s, and completed as %s".formatted(posted, type));
        }
        if (ordered && number < last) {
            complain(number, "completed after %d".formatted(last));
        }
        outstanding -= state == SIGNALED ? 1 : 0;
        states[number] = ENDED;
        last = Math.max(last, number);
        if (!status.isSuccess()) {
            failed++;
            firstFailed = Math.min(firstFailed, number);
        }
        broken |= !status.isSuccess() && status != Status.CANCELLED;
    }

    /** How many have no completion yet, and must get one. */
    synchronized int outstanding() {
        return outstanding;
    }

    /** Complains about each that has no completion, silent ones behind a failed one included. */
    synchronized void settle() {
        for (int i = 0; i < count; i++) {
            if (states[i] == SIGNALED || states[i] == SILENT && i > firstFailed) {
                complain(i, "never completed; it was a " + types[i]);
            }
        }
    }

    synchronized int accepted() {
        return count - refused;
    }

    synchronized int refused() {
        return refused;
    }

    synchronized int failed() {
        return failed;
    }

    /** Whether one failed, and was not only cancelled after another or by a flush. */
    synchronized boolean broken() {
        return broken;
    }

    private void complain(int number, String what) {
        complain.accept("request %d of %s %s".formatted(number, name, what));
    }
}
