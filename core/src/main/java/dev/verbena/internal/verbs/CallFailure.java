package dev.verbena.internal.verbs;

/** A C function failed, where the caller cannot be answered by a number. */
public final class CallFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The function. */
    private final String call;

    /** Its errno. */
    private final int errno;

    /**
     * Makes one.
     *
     * @param call the C function
     * @param errno a positive number
     */
    public CallFailure(String call, int errno) {
        super(Errno.sentence(call, errno, ""));
        this.call = call;
        this.errno = errno;
    }

    /**
     * Passes a number that is not negative on.
     *
     * @param answer what the function returned, or a negative errno
     * @param call the C function
     * @return the same
     * @throws CallFailure for a negative errno
     */
    public static long check(long answer, String call) {
        if (answer < 0) {
            throw new CallFailure(call, (int) -answer);
        }
        return answer;
    }

    /**
     * The C function.
     *
     * @return its name
     */
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
