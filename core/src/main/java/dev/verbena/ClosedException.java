package dev.verbena;

/** An object was used after its owner had closed it, or while another thread did. */
final class ClosedException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    ClosedException(NativeObject object) {
        super(object.describe() + " is closed");
    }
}
