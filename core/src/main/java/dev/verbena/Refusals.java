package dev.verbena;

import dev.verbena.internal.queue.Refusal;
import dev.verbena.internal.verbs.Errno;

/** What posts of the queues return, as a status. */
final class Refusals {
    private Refusals() {}

    /** The status of a post. */
    static Status status(int code) {
        if (code == Refusal.NONE) {
            return Status.SUCCESS;
        }
        if (code > 0) {
            return VerbenaException.statusOf(code);
        }
        return switch (Refusal.of(code)) {
            case NOT_CONNECTED -> Status.CONNECTION_INVALID;
            case FULL -> Status.NO_MORE_ENTRIES;
            case UNKNOWN_FLAG,
                    TOO_MANY_BYTES,
                    TOO_MANY_INLINE_BYTES,
                    TOO_MANY_BUFFERS,
                    NOT_ONE_LONG,
                    NOT_ALIGNED,
                    OUTSIDE_REMOTE_MEMORY,
                    OUTSIDE_REGION,
                    WRONG_WINDOW_RIGHTS ->
                    Status.INVALID_PARAMETER;
            case NOT_REGISTERED, ARENA_CLOSED, UNREADABLE, NOT_WRITABLE, REGION_NOT_BINDABLE ->
                    Status.ACCESS_VIOLATION;
            case OTHER_DOMAIN -> Status.INVALID_PARAMETER_MIX;
            case NO_REMOTE_INVALIDATE, NO_IMMEDIATE_DATA, NO_ATOMICS, NO_READS ->
                    Status.NOT_SUPPORTED;
            case WINDOW_BOUND, WINDOW_NOT_BOUND, SHARED_RECEIVES -> Status.INVALID_DEVICE_REQUEST;
            case WINDOW_BUSY -> Status.DEVICE_BUSY;
        };
    }

    /** The reason of a post that was refused, as half a sentence. */
    static String reason(int code) {
        return code > 0
                ? "the provider refused it, " + Errno.describe(code)
                : Refusal.of(code).reason();
    }
}
