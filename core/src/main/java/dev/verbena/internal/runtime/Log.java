package dev.verbena.internal.runtime;

/**
 * Logs what no call can report, by the {@link System.Logger} {@code dev.verbena}. The logger is
 * looked up when there is a first message: a process without messages does not initialize its
 * logging here. Never called while a request is posted or polled.
 */
public final class Log {
    private Log() {}

    public static void warn(String message) {
        System.getLogger("dev.verbena").log(System.Logger.Level.WARNING, message);
    }

    public static void error(String message, Throwable cause) {
        System.getLogger("dev.verbena").log(System.Logger.Level.ERROR, message, cause);
    }
}
