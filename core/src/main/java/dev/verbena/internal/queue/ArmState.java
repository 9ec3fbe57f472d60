package dev.verbena.internal.queue;

/**
 * For which completions a completion queue is armed, and how two arms join: ANY absorbs everything,
 * SOLICITED absorbs ERRORS. The numbers are NDK's.
 */
public final class ArmState {
    /** Not armed. */
    public static final int NONE = -1;

    /** For a broken queue only. */
    public static final int ERRORS = 0;

    /** For any completion. */
    public static final int ANY = 1;

    /** For solicited receives and failures. */
    public static final int SOLICITED = 2;

    private ArmState() {}

    /** What is armed after arming once more. */
    public static int join(int armed, int asked) {
        if (armed == ANY || asked == ANY) {
            return ANY;
        }
        return Math.max(armed, asked); // NONE < ERRORS < SOLICITED
    }
}
