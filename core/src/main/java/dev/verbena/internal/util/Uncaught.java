package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.locks.LockSupport;

/**
 * Reports what was thrown where no caller can catch it: to the log, and to the thread's handler of
 * uncaught exceptions if the program has set one, as the JVM does. The thread itself goes on.
 */
public final class Uncaught {
    private Uncaught() {}

    /** Loads the classes that are used here: a thread that has run out of memory could not. */
    public static void prepare() {
        Log.prepare();
        pause(0);
    }

    /**
     * Lets some time pass before the next attempt, also in a thread that was interrupted. Needs no
     * memory, and never throws.
     */
    public static void pause(long nanoseconds) {
        boolean interrupted = Thread.interrupted();
        LockSupport.parkNanos(nanoseconds);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Runs something whose failure must not end the thread: what it throws, errors too, is
     * reported.
     */
    public static void run(Runnable part) {
        try {
            part.run();
        } catch (Throwable t) {
            report(t);
        }
    }

    /**
     * Reports a problem of a callback or a task. Never throws: a handler or a log that itself fails
     * (it is the program's, and may have no memory to print with) must not end the thread either.
     */
    public static void report(Throwable problem) {
        report(null, problem);
    }

    public static void report(@Nullable String what, Throwable problem) {
        try {
            String usual = "A callback or a task of Verbena failed. Its thread goes on";
            Log.error(what == null ? usual : what, problem);
            Thread current = Thread.currentThread();
            Thread.UncaughtExceptionHandler handler = current.getUncaughtExceptionHandler();
            // A thread without a handler of its own has its group, which prints what was logged.
            if (!(handler instanceof ThreadGroup)
                    || Thread.getDefaultUncaughtExceptionHandler() != null) {
                handler.uncaughtException(current, problem);
            }
        } catch (Throwable again) {
            // There is nobody left to report to, or no memory for it.
        }
    }
}
