package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A request of the peer, which waits for its answer. From any thread that may use the channel.
 *
 * <p>Answer every call, if only with an error, even if the caller has probably given up: a peer may
 * have 512 calls without an answer, and one that is never answered counts until the channel ends.
 */
public final class Call {
    private final CallTable table;
    private final MessageChannel channel;
    private final int id;
    private final AtomicBoolean answered = new AtomicBoolean();
    private @Nullable Message request; // null when it may not be read any more
    private boolean retained;

    Call(CallTable table, Message request, int id) {
        this.table = table;
        this.channel = request.channel();
        this.request = request;
        this.id = id;
    }

    /**
     * The channel on which it arrived.
     *
     * @return the channel
     */
    @CheckReturnValue
    public MessageChannel channel() {
        return channel;
    }

    /**
     * The bytes of the request, where the device has put them.
     *
     * @return memory of just its length, to be read until the handler returns; after {@link
     *     #retain}, until it is answered
     * @throws IllegalStateException after that
     */
    @CheckReturnValue
    public MemorySegment data() {
        return request().data();
    }

    private Message request() {
        Message there = request;
        if (there == null) {
            throw new IllegalStateException(
                    "The request of this call cannot be read any more: it was answered, or its handler has returned without retain()");
        }
        return there;
    }

    /**
     * Keeps the request until it is answered: until then, the peer has room for one message less,
     * and with none left, its answers to calls of this side wait, too. A call need not be kept to
     * be answered later.
     *
     * @return this call
     * @throws IllegalStateException if it was answered, or its handler has returned
     * @throws OutOfMemoryError if the heap has no room to keep it: it is not kept
     */
    public Call retain() {
        Message ignored = request().retain();
        retained = true;
        return this;
    }

    boolean isAnswered() {
        return answered.get();
    }

    void handled() {
        if (!retained) {
            request = null;
        }
    }

    /**
     * Answers it, and returns at once. If there is no room, the answer waits, and meanwhile
     * requests give no credit back: see {@link Calls}. If there is no registered memory for it, the
     * peer gets an error instead. An answer that cannot be sent for another reason, such as the
     * 1,025th that waits, ends the channel.
     *
     * @param answer is copied
     * @throws IllegalArgumentException if it is longer than {@link MessageChannel#maxMessage} less
     *     8: then the call is not answered yet
     * @throws IllegalStateException if it was answered before
     */
    public void answer(MemorySegment answer) {
        answer(CallTable.ANSWER, answer);
    }

    /**
     * Answers it with an error: at the peer, the future fails with a {@link CallFailedException}.
     *
     * @param message the message of the exception, of which 1,000 bytes of UTF-8 are sent at most
     * @throws IllegalStateException if it was answered before
     */
    public void fail(String message) {
        answer(CallTable.FAILURE, table.cut(message.getBytes(StandardCharsets.UTF_8)));
    }

    private void answer(int kind, MemorySegment data) {
        if (!answered.compareAndSet(false, true)) {
            throw new IllegalStateException("This call was answered before");
        }
        boolean sent = false;
        try {
            table.answer(kind, id, data);
            sent = true;
        } finally {
            answered.set(sent);
        }
        Message kept = request;
        request = null;
        if (retained && kept != null && !table.keeps(kept)) {
            kept.release();
        }
    }
}
