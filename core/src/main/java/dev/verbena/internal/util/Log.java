package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * Logs what no call can report, by the {@link System.Logger} {@code dev.verbena}. The logger is
 * looked up when there is a first message: a process without messages does not initialize its
 * logging here. Never called while a request is posted or polled.
 *
 * <p>Never throws, even if the program's logger does: the thread must go on.
 */
public final class Log {
    private Log() {}

    /** Loads the classes of an error. */
    static void prepare() {
        Objects.requireNonNull(System.Logger.Level.ERROR);
    }

    public static void warn(String message, @Nullable Throwable cause) {
        log(System.Logger.Level.WARNING, message, cause);
    }

    public static void info(String message) {
        log(System.Logger.Level.INFO, message, null);
    }

    public static void error(String message, Throwable cause) {
        log(System.Logger.Level.ERROR, message, cause);
    }

    private static void log(System.Logger.Level level, String message, @Nullable Throwable cause) {
        try {
            System.getLogger("dev.verbena").log(level, message, cause);
        } catch (Throwable again) {
            // It is the program's logger, and may have no memory to print with.
        }
    }
}
