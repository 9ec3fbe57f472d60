package dev.verbena.tools;

/** A tool did not do what it was to do; the message is the sentence for its user. */
final class ToolFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ToolFailure(String message, Object... words) {
        super(message.formatted(words));
    }
}
