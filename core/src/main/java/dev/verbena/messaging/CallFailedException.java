package dev.verbena.messaging;

/** The peer has answered a call with an error; the message is the peer's. See {@link Calls}. */
public final class CallFailedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    CallFailedException(String message) {
        super(message);
    }
}
