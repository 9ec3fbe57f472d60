package dev.verbena.nativetest;

import java.util.concurrent.TimeUnit;

/**
 * Ends a loop that waits for a device: JUnit's time limit interrupts, which nobody hears who spins.
 * Checking it allocates nothing.
 */
final class Deadline {
    private static final long SECONDS = 60;

    private final String what;
    private final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);

    private Deadline(String what) {
        this.what = what;
    }

    /** A minute from now. */
    static Deadline of(String what) {
        return new Deadline(what);
    }

    /** Once around the loop. */
    void check() {
        if (System.nanoTime() - end > 0) {
            throw new AssertionError("no " + what + " within " + SECONDS + " s");
        }
        Thread.onSpinWait();
    }
}
