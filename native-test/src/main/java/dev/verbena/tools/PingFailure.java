package dev.verbena.tools;

/** Ping did not do what it was to do; the message is the sentence for its user. */
final class PingFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    PingFailure(String message, Object... words) {
        super(message.formatted(words));
    }
}
