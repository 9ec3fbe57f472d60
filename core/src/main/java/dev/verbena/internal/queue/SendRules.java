package dev.verbena.internal.queue;

import dev.verbena.AdapterInfo;
import dev.verbena.PostResult;
import dev.verbena.QueuePairLimits;

/**
 * What requests of one send queue may ask for: the limits that its queue pair was made with, and
 * what its device can do.
 *
 * @param domain the queue pair's protection domain
 * @param maxBuffers how many buffers a request may name
 * @param maxReadBuffers how many a read may name
 * @param maxInlineBytes how many bytes a request may carry inline
 * @param maxMessageBytes how many bytes a message may have
 * @param maxWindowBytes how long a window may be
 */
public record SendRules(
        Domain domain,
        int maxBuffers,
        int maxReadBuffers,
        int maxInlineBytes,
        long maxMessageBytes,
        long maxWindowBytes,
        boolean remoteInvalidate,
        boolean immediateData,
        boolean atomics) {
    private static final int ATOMIC_BYTES = Long.BYTES;

    static SendRules of(
            Domain domain, QueuePairLimits limits, AdapterInfo info, long maxMessageBytes) {
        return new SendRules(
                domain,
                limits.maxInitiatorBuffers(),
                Math.min(limits.maxInitiatorBuffers(), info.maxReadBuffers()),
                limits.maxInlineBytes(),
                maxMessageBytes,
                info.maxWindowBytes(),
                info.sendsWithInvalidate(),
                info.immediateData(),
                info.atomics());
    }

    /**
     * Checks a request with buffers, except for what it needs of the peer. The list's size is read
     * once, by the caller: another thread may change the list meanwhile, although it must not, and
     * what is copied into the request's own memory has to be what was checked here.
     */
    PostResult check(
            Operation operation, Buffers buffers, int count, long remoteAddress, int flags) {
        long bytes = buffers.bytes();
        if (bytes > maxMessageBytes) {
            return PostResult.TOO_MANY_BYTES;
        }
        if ((flags & RequestFlags.INLINE) != 0) {
            if (bytes > maxInlineBytes) {
                return PostResult.TOO_MANY_INLINE_BYTES;
            }
        } else {
            if (count > maxBuffers) {
                return PostResult.TOO_MANY_BUFFERS;
            }
            PostResult result = buffers.check(domain, count);
            if (!result.isAccepted()) {
                return result;
            }
        }
        // Compared first: the switch would read a table.
        return operation.needs() == Operation.Needs.NOTHING
                ? PostResult.ACCEPTED
                : checkNeeds(operation, buffers, count, remoteAddress);
    }

    private PostResult checkNeeds(
            Operation operation, Buffers buffers, int count, long remoteAddress) {
        return switch (operation.needs()) {
            case NOTHING, WINDOW -> PostResult.ACCEPTED;
            case REMOTE_INVALIDATE ->
                    remoteInvalidate ? PostResult.ACCEPTED : PostResult.NO_REMOTE_INVALIDATE;
            case IMMEDIATE_DATA ->
                    immediateData ? PostResult.ACCEPTED : PostResult.NO_IMMEDIATE_DATA;
            case READ -> checkRead(buffers, count);
            case ATOMIC -> {
                if (!atomics) {
                    yield PostResult.NO_ATOMICS;
                }
                if (!isAligned(remoteAddress)) {
                    yield PostResult.NOT_ALIGNED;
                }
                yield count == 1 && buffers.bytes() == ATOMIC_BYTES
                        ? checkRead(buffers, count)
                        : PostResult.NOT_ONE_LONG;
            }
        };
    }

    /** Whether atomic operations can have the address; the peer would end the connection. */
    private static boolean isAligned(long remoteAddress) {
        return remoteAddress % ATOMIC_BYTES == 0;
    }

    /** Checks the peer's memory of a request that passed {@link #check} before with another. */
    static PostResult checkRemote(Operation operation, long remoteAddress) {
        return operation.needs() != Operation.Needs.ATOMIC || isAligned(remoteAddress)
                ? PostResult.ACCEPTED
                : PostResult.NOT_ALIGNED;
    }

    private PostResult checkRead(Buffers buffers, int count) {
        if (count > maxReadBuffers) {
            return PostResult.TOO_MANY_BUFFERS;
        }
        return buffers.writable() ? PostResult.ACCEPTED : PostResult.NOT_WRITABLE;
    }

    /** Checks what a window is to be bound to. */
    @SuppressWarnings("ReferenceEquality") // a domain is the same object or another one
    PostResult checkBind(
            Window window, RegisteredMemory region, long offset, long length, int flags) {
        if (window.domain() != domain || region.domain() != domain) {
            return PostResult.OTHER_DOMAIN;
        }
        int write = flags & RequestFlags.ALLOW_REMOTE_WRITE;
        if (write != 0 && write != RequestFlags.ALLOW_REMOTE_WRITE) {
            return PostResult.WRONG_WINDOW_RIGHTS;
        }
        if (offset < 0
                || length < 1
                || length > maxWindowBytes
                || offset > region.bytes() - length) {
            return PostResult.OUTSIDE_REGION;
        }
        if (!region.alive()) {
            return PostResult.ARENA_CLOSED;
        }
        return region.bindable() && (write == 0 || region.writable())
                ? PostResult.ACCEPTED
                : PostResult.REGION_NOT_BINDABLE;
    }
}
