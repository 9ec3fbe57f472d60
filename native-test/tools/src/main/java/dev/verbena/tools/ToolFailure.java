package dev.verbena.tools;

/** A tool failed; the message is the sentence that its user reads. */
final class ToolFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ToolFailure(String message, Object... words) {
        super(message.formatted(words));
    }
}
