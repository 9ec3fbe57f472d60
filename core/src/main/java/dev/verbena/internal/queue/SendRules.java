package dev.verbena.internal.queue;

/**
 * What requests of one send queue may ask for: the limits that its queue pair was made with, and
 * what its device can do.
 *
 * @param domain the queue pair's protection domain, only compared
 * @param maxBuffers how many buffers a request may name
 * @param maxReadBuffers how many a read may name
 * @param maxInlineBytes how many bytes a request may carry inline
 * @param maxMessageBytes how many bytes a message may have
 * @param maxWindowBytes how long a window may be
 */
public record SendRules(
        Object domain,
        int maxBuffers,
        int maxReadBuffers,
        int maxInlineBytes,
        long maxMessageBytes,
        long maxWindowBytes,
        boolean remoteInvalidate,
        boolean immediateData,
        boolean atomics) {
    private static final int ATOMIC_BYTES = Long.BYTES;

    /**
     * Whether they are the same as others, so that many queue pairs can share one object. By hand:
     * the JVM makes a record's {@code equals} when it is first called, out of a hundred classes.
     */
    @SuppressWarnings("ReferenceEquality") // a domain is the same object or another one
    public boolean sameAs(SendRules other) {
        return domain == other.domain
                && maxBuffers == other.maxBuffers
                && maxReadBuffers == other.maxReadBuffers
                && maxInlineBytes == other.maxInlineBytes
                && maxMessageBytes == other.maxMessageBytes
                && maxWindowBytes == other.maxWindowBytes
                && remoteInvalidate == other.remoteInvalidate
                && immediateData == other.immediateData
                && atomics == other.atomics;
    }

    /**
     * Checks a request with buffers. The list's size is read once, by the caller: another thread
     * may change the list meanwhile, although it must not, and what is copied into the request's
     * own memory has to be what was checked here.
     *
     * @param peerInvalidatable whether the peer announced that its keys can be invalidated
     * @param outboundReads how many reads may be outstanding at the peer
     */
    int check(
            Operation operation,
            Buffers buffers,
            int count,
            long remoteAddress,
            int flags,
            boolean peerInvalidatable,
            int outboundReads) {
        long bytes = buffers.bytes();
        if (bytes > maxMessageBytes) {
            return Refusal.TOO_MANY_BYTES.code();
        }
        if ((flags & RequestFlags.INLINE) != 0) {
            if (bytes > maxInlineBytes) {
                return Refusal.TOO_MANY_INLINE_BYTES.code();
            }
        } else {
            if (count > maxBuffers) {
                return Refusal.TOO_MANY_BUFFERS.code();
            }
            if (!buffers.isOnlyOf(domain)) {
                if (!buffers.registered()) {
                    return Refusal.NOT_REGISTERED.code();
                }
                if (!buffers.isOf(domain)) {
                    return Refusal.OTHER_DOMAIN.code();
                }
            }
            if (!buffers.alive(count)) {
                return Refusal.ARENA_CLOSED.code();
            }
        }
        // Compared first: the switch would read a table.
        return operation.needs() == Operation.Needs.NOTHING
                ? Refusal.NONE
                : checkNeeds(
                        operation, buffers, count, remoteAddress, peerInvalidatable, outboundReads);
    }

    private int checkNeeds(
            Operation operation,
            Buffers buffers,
            int count,
            long remoteAddress,
            boolean peerInvalidatable,
            int outboundReads) {
        return switch (operation.needs()) {
            case NOTHING, WINDOW -> Refusal.NONE;
            case REMOTE_INVALIDATE ->
                    peerInvalidatable && remoteInvalidate
                            ? Refusal.NONE
                            : Refusal.NO_REMOTE_INVALIDATE.code();
            case IMMEDIATE_DATA -> immediateData ? Refusal.NONE : Refusal.NO_IMMEDIATE_DATA.code();
            case READ -> checkRead(buffers, count, outboundReads);
            case ATOMIC -> {
                if (!atomics) {
                    yield Refusal.NO_ATOMICS.code();
                }
                if (!isAligned(remoteAddress)) {
                    yield Refusal.NOT_ALIGNED.code();
                }
                yield count == 1 && buffers.bytes() == ATOMIC_BYTES
                        ? checkRead(buffers, count, outboundReads)
                        : Refusal.NOT_ONE_LONG.code();
            }
        };
    }

    /** Whether atomic operations can have the address; the peer would end the connection. */
    private static boolean isAligned(long remoteAddress) {
        return remoteAddress % ATOMIC_BYTES == 0;
    }

    /** Checks the peer's memory of a request that passed {@link #check} before with another. */
    static int checkRemote(Operation operation, long remoteAddress) {
        return operation.needs() != Operation.Needs.ATOMIC || isAligned(remoteAddress)
                ? Refusal.NONE
                : Refusal.NOT_ALIGNED.code();
    }

    private int checkRead(Buffers buffers, int count, int outboundReads) {
        if (count > maxReadBuffers) {
            return Refusal.TOO_MANY_BUFFERS.code();
        }
        if (!buffers.writable()) {
            return Refusal.NOT_WRITABLE.code();
        }
        // Without a limit of 1 or more the device would let it wait for ever.
        return outboundReads > 0 ? Refusal.NONE : Refusal.NO_READS.code();
    }

    /** Checks what a window is to be bound to. */
    @SuppressWarnings("ReferenceEquality") // a domain is the same object or another one
    int checkBind(Window window, RegisteredMemory region, long offset, long length, int flags) {
        if (window.domain() != domain || region.domain() != domain) {
            return Refusal.OTHER_DOMAIN.code();
        }
        int write = flags & RequestFlags.ALLOW_REMOTE_WRITE;
        if (write != 0 && write != RequestFlags.ALLOW_REMOTE_WRITE) {
            return Refusal.WRONG_WINDOW_RIGHTS.code();
        }
        if (offset < 0
                || length < 1
                || length > maxWindowBytes
                || offset > region.bytes() - length) {
            return Refusal.OUTSIDE_REGION.code();
        }
        if (!region.alive()) {
            return Refusal.ARENA_CLOSED.code();
        }
        return region.bindable() && (write == 0 || region.writable())
                ? Refusal.NONE
                : Refusal.REGION_NOT_BINDABLE.code();
    }
}
