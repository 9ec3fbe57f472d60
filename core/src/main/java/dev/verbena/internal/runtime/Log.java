package dev.verbena.internal.runtime;

/**
 * What nobody asked for and somebody should know, for the {@link System.Logger} {@code
 * dev.verbena}. The logger is looked for when there is something to log: a process that has nothing
 * to log does not start its logging here. Never on the way of a request.
 */
public final class Log {
    private Log() {}

    /**
     * Logs a warning.
     *
     * @param message whole sentences
     */
    public static void warn(String message) {
        System.getLogger("dev.verbena").log(System.Logger.Level.WARNING, message);
    }

    /**
     * Logs an error.
     *
     * @param message whole sentences
     * @param cause what was thrown
     */
    public static void error(String message, Throwable cause) {
        System.getLogger("dev.verbena").log(System.Logger.Level.ERROR, message, cause);
    }
}
