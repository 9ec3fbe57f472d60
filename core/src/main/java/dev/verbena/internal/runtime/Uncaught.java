package dev.verbena.internal.runtime;

/**
 * Reports what was thrown where no caller can catch it: to the thread's handler of uncaught
 * exceptions, as the JVM does. The thread itself goes on.
 */
public final class Uncaught {
    private Uncaught() {}

    /**
     * Runs something whose failure must not end the thread.
     *
     * @param part what to run; what it throws, errors too, is reported
     */
    public static void run(Runnable part) {
        try {
            part.run();
        } catch (Throwable t) {
            report(t);
        }
    }

    /**
     * Reports a problem. Never throws: a handler that itself fails (it is the program's, and may
     * have no memory to print with) must not end the thread either.
     *
     * @param problem what was thrown
     */
    public static void report(Throwable problem) {
        try {
            Thread current = Thread.currentThread();
            current.getUncaughtExceptionHandler().uncaughtException(current, problem);
        } catch (Throwable again) {
            // There is no handler left to report to.
        }
    }
}
