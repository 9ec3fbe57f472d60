package dev.verbena.internal.connect;

/**
 * Reports what was thrown where no caller can catch it, as the JVM does for a thread that ends by
 * it: to the thread's handler of uncaught exceptions. The thread itself goes on.
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
     * Reports a problem. Never throws: a handler that fails itself (it is the program's, and may
     * find no memory to print with) must not end the thread either.
     *
     * @param problem what was thrown
     */
    public static void report(Throwable problem) {
        try {
            Thread current = Thread.currentThread();
            current.getUncaughtExceptionHandler().uncaughtException(current, problem);
        } catch (Throwable again) {
            // There is nobody left to report to.
        }
    }
}
