package dev.verbena.examples.nvme;

/**
 * Which of the host's keys an answer invalidates. Only the command's own key is right; tests choose
 * others, to see that the host notices.
 */
@FunctionalInterface
interface KeyReturn {
    /** The answer invalidates nothing; the host then has to do it. */
    long NONE = -1;

    KeyReturn OF_COMMAND = Integer::toUnsignedLong;

    /** A key, or {@link #NONE}. */
    long of(int keyOfCommand);
}
