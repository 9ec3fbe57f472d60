package dev.verbena.internal.verbs;

/** A C function failed, in a method whose result cannot carry a negative errno. */
public final class CallFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The function. */
    private final String call;

    /** The errno it failed with. */
    private final int errno;

    /**
     * Creates the exception; its message names the call and the errno.
     *
     * @param errno a positive number
     */
    public CallFailure(String call, int errno) {
        super(Errno.sentence(call, errno, ""));
        this.call = call;
        this.errno = errno;
    }

    /**
     * Returns the result of a call, or throws if it is a negative errno.
     *
     * @param answer what the function returned, or a negative errno
     * @throws CallFailure for a negative errno
     */
    public static long check(long answer, String call) {
        if (answer < 0) {
            throw new CallFailure(call, (int) -answer);
        }
        return answer;
    }

    /** The C function. */
    public String call() {
        return call;
    }

    /**
     * Its errno.
     *
     * @return a positive number
     */
    public int errno() {
        return errno;
    }
}
