package dev.verbena;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What the thread that polls a completion queue counts: completions, for any thread to read, and
 * polls that found nothing. A poll that found something stores one field.
 */
final class PollCounts {
    /** After how many polls that find nothing the clock is read. */
    private static final int LOOK_EVERY = 1 << 12;

    /** After how long without completions to look for queue pairs that failed without an event. */
    private static final long LOOK_NANOSECONDS = TimeUnit.MILLISECONDS.toNanos(20);

    private static final VarHandle DELIVERED;

    static {
        try {
            DELIVERED =
                    MethodHandles.lookup().findVarHandle(PollCounts.class, "delivered", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private long delivered; // by DELIVERED from other threads
    private long deliveredBefore; // as the last poll that found nothing saw it
    private int emptyPolls; // since then
    private long lastLook = System.nanoTime();
    private final AtomicLong waits = new AtomicLong();
    private final AtomicLong timeouts = new AtomicLong();

    /** A poll returned completions. */
    void found(int count) {
        DELIVERED.setOpaque(this, delivered + count);
    }

    /**
     * A poll found nothing.
     *
     * @return whether it is time to look for queue pairs that failed without an event
     */
    boolean foundNothing() {
        if (delivered != deliveredBefore) {
            deliveredBefore = delivered;
            emptyPolls = 0;
        }
        if (++emptyPolls < LOOK_EVERY) {
            return false;
        }
        emptyPolls = 0;
        long now = System.nanoTime();
        if (now - lastLook < LOOK_NANOSECONDS) {
            return false;
        }
        lastLook = now;
        return true;
    }

    /** A wait returned a status. */
    void waited(boolean timedOut) {
        waits.getAndIncrement();
        if (timedOut) {
            timeouts.getAndIncrement();
        }
    }

    long waits() {
        return waits.getOpaque();
    }

    long timeouts() {
        return timeouts.getOpaque();
    }

    /** How many completions polls have returned, as of a moment ago. */
    long delivered() {
        return (long) DELIVERED.getOpaque(this);
    }
}
