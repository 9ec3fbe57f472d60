package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

/**
 * Logs what no caller sees, by the {@link System.Logger} {@code dev.verbena}. Never throws, even if
 * the program's logger or uncaught-exception handler does: the polling thread must go on.
 */
final class MessagingLog {
    private MessagingLog() {}

    /** Logs a warning, with the exception that caused it if there is one. */
    static void warn(String message, @Nullable Throwable cause) {
        log(System.Logger.Level.WARNING, message, cause);
    }

    /** Logs an error, with the exception that caused it. */
    static void error(String message, Throwable cause) {
        log(System.Logger.Level.ERROR, message, cause);
    }

    /** Logs an error, and passes it to the thread's uncaught-exception handler if one is set. */
    static void uncaught(String message, Throwable thrown) {
        log(System.Logger.Level.ERROR, message, thrown);
        try {
            Thread current = Thread.currentThread();
            Thread.UncaughtExceptionHandler handler = current.getUncaughtExceptionHandler();
            // Without a handler of its own, a thread has its group, which would print the log
            // again.
            if (!(handler instanceof ThreadGroup)
                    || Thread.getDefaultUncaughtExceptionHandler() != null) {
                handler.uncaughtException(current, thrown);
            }
        } catch (Throwable again) {
            // There is no handler left to report to.
        }
    }

    private static void log(System.Logger.Level level, String message, @Nullable Throwable cause) {
        try {
            System.getLogger("dev.verbena").log(level, message, cause);
        } catch (Throwable again) {
            // The handler may work.
        }
    }
}
