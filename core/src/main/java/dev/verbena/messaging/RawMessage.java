package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Completions;
import dev.verbena.OperationType;
import dev.verbena.PostResult;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * A message that has arrived on a {@link RawConnection}, where the device has put it. The object is
 * that of its receive, and is used for another message once it is posted again.
 */
public final class RawMessage {
    private final RawReceives receives;
    private final int slot;
    private final MemorySegment buffer;
    private int length;
    private boolean immediate;
    private boolean invalidated;
    private int tokenOrImmediate; // immediate data or token
    private boolean held; // by the program, until the receive is posted again
    private @Nullable Message message; // of a message channel

    RawMessage(RawReceives receives, int slot, MemorySegment buffer, boolean forMessages) {
        this.receives = receives;
        this.slot = slot;
        this.buffer = buffer;
        this.message = forMessages ? new Message(this) : null;
    }

    /** The message of a channel in this receive. */
    Message message() {
        return Objects.requireNonNull(message);
    }

    /** The next message in this receive has another object. */
    void next(Message one) {
        message = one;
    }

    /** At the close of the receives: whether the program has the message still. */
    boolean outlives() {
        return message().outlives();
    }

    /** By the poller, before the handler gets it. */
    void arrived(OperationType type, Completions from, int index) {
        length = (int) from.bytes(index);
        invalidated = type == OperationType.RECEIVE_AND_INVALIDATE;
        immediate = from.hasImmediate(index);
        tokenOrImmediate =
                invalidated ? from.invalidatedToken(index) : immediate ? from.immediate(index) : 0;
        held = true;
    }

    /**
     * Which receive it is.
     *
     * @return 0 to the number of receives, exclusive
     */
    @CheckReturnValue
    public int slot() {
        return slot;
    }

    /**
     * The memory that it begins at, as long as the receive is. Allocates nothing.
     *
     * @return the memory; closed when the connection, or the pool of shared receives, is
     */
    @CheckReturnValue
    public MemorySegment buffer() {
        return buffer;
    }

    /**
     * How long it is.
     *
     * @return 0 or more bytes; 0 for a write with immediate data
     */
    @CheckReturnValue
    public int length() {
        return length;
    }

    /**
     * Whether it invalidated a token (remote key) of this side.
     *
     * @return true for the peer's send-and-invalidate
     */
    @CheckReturnValue
    public boolean hasInvalidated() {
        return invalidated;
    }

    /**
     * The token (remote key) that it invalidated.
     *
     * @return the token
     * @throws IllegalStateException when it invalidated none
     */
    @CheckReturnValue
    public int invalidatedToken() {
        if (!invalidated) {
            throw new IllegalStateException("This message has invalidated no token");
        }
        return tokenOrImmediate;
    }

    /**
     * Whether immediate data came with it.
     *
     * @return true for the peer's send or write with immediate data
     */
    @CheckReturnValue
    public boolean hasImmediate() {
        return immediate;
    }

    /**
     * The immediate data.
     *
     * @return the number that the peer sent
     * @throws IllegalStateException when there is none
     */
    @CheckReturnValue
    public int immediate() {
        if (!immediate) {
            throw new IllegalStateException("This message carries no immediate data");
        }
        return tokenOrImmediate;
    }

    /**
     * Posts its receive again, once for each message, by the polling thread or any other; shared
     * receives also after the connection ended. The message is not to be read any more.
     *
     * @return {@link PostResult#ACCEPTED}; or, not posted: NOT_CONNECTED when the connection or the
     *     shared pool was closed, or the provider's error, and this may be called again
     * @throws IllegalStateException when it was posted already
     */
    public PostResult repost() {
        if (!held) {
            throw new IllegalStateException("The receive of this message is posted already");
        }
        held = false; // before the post: the next message may come at once
        PostResult result = receives.post(slot);
        if (!result.isAccepted()) {
            held = true;
        }
        return result;
    }

    @Override
    public String toString() {
        return "RawMessage(%d bytes in receive %d)".formatted(length, slot);
    }
}
