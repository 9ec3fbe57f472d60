package dev.verbena;

/** An object was used after it was closed, or while another thread was closing it. */
final class ClosedException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    ClosedException(NativeObject object) {
        super(object.describe() + " is closed");
    }
}
