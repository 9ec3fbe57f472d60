package dev.verbena.examples.nvme;

/**
 * Which key an answer gives back to the host. Right is only the command's own; tests give others,
 * to see that the host notices.
 */
@FunctionalInterface
interface KeyReturn {
    /** The answer invalidates nothing: the host has to do it. */
    long NONE = -1;

    KeyReturn OF_COMMAND = Integer::toUnsignedLong;

    /** A key, or {@link #NONE}. */
    long of(int keyOfCommand);
}
