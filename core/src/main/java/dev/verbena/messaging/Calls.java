package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Requests and answers over the messages of channels: the handler of a {@link MessageServer}, a
 * {@link MessageClient} or a {@link MessageChannel} whose peer's handler is one, too. Each side may
 * {@linkplain #call call} the other. The same object serves any number of channels.
 *
 * <p>The server:
 *
 * {@snippet file="dev/verbena/examples/KeyValueServer.java" region="answer"}
 *
 * <p>The client:
 *
 * {@snippet file="dev/verbena/examples/KeyValueClient.java" region="get"}
 *
 * <p>Such a channel carries nothing else: a message that is neither a request nor an answer ends
 * it, and so does a peer that has more than 512 calls without an answer. An answer to a call that
 * has timed out, was cancelled or was answered already is ignored.
 *
 * <p><b>A peer that takes no answers</b> gets no credit: as long as an answer waits for room, each
 * request that is handled or answered keeps its credit until one of the waiting answers is sent. So
 * no more requests come than {@link MessagingOptions#withReceives} allows. A side that has itself
 * called its peer returns the credit regardless: otherwise each side might wait for the other's.
 */
public final class Calls implements MessageHandler {
    private final @Nullable CallHandler handler;

    private Calls(@Nullable CallHandler handler) {
        this.handler = handler;
    }

    /**
     * Has the peer's calls answered.
     *
     * @param handler answers them
     * @return the handler of channels
     */
    @CheckReturnValue
    public static Calls answeredBy(CallHandler handler) {
        return new Calls(Arguments.notNull(handler, "handler"));
    }

    /**
     * For a side that only calls: calls of the peer fail.
     *
     * @return the handler of channels
     */
    @CheckReturnValue
    public static Calls outgoing() {
        return new Calls(null);
    }

    /**
     * Calls the peer: sends a request, and gets the answer. The handler of both sides is a {@code
     * Calls}. Returns at once; without room, the request waits.
     *
     * <p>When a future is cancelled, or its time is over, a request that still waits for room is
     * not sent, and a late answer is discarded. The peer does not learn of either: whether it did
     * what it was asked for is not known then. Until its answer comes, the request counts as one of
     * those that have none.
     *
     * @param channel whose peer is called
     * @param request is copied
     * @param timeout how long the peer has, checked every 100 ms, and first after that
     * @param answer makes the result from the answer, on the polling thread; must not block. The
     *     message is valid until it returns, unless it calls {@link Message#retain}. What it
     *     throws, the future fails with
     * @param <T> of the result
     * @return a future that is completed by the polling thread. It fails with a {@link
     *     CallFailedException} when the peer answers with an error; and with a {@link
     *     MessagingException}: IO_TIMEOUT when there was no answer in time, NO_MORE_ENTRIES when
     *     512 calls have no answer yet, INSUFFICIENT_RESOURCES when there was no registered memory
     *     for a large request, or why the channel was closed
     * @throws IllegalArgumentException if the request is longer than {@link
     *     MessageChannel#maxMessage} less 8
     * @throws IllegalStateException if the handler of the channel is no {@code Calls}
     */
    @CheckReturnValue
    public static <T extends @Nullable Object> CompletableFuture<T> call(
            MessageChannel channel,
            MemorySegment request,
            Duration timeout,
            Function<? super Message, ? extends T> answer) {
        Arguments.notNull(channel, "channel");
        Arguments.notNull(request, "request");
        Arguments.notNull(timeout, "timeout");
        Arguments.notNull(answer, "answer");
        return table(channel).call(request, timeout, answer);
    }

    /** By the poller. */
    @Override
    public void received(MessageChannel channel, Message message) {
        table(channel).received(message, handler);
    }

    private static CallTable table(MessageChannel channel) {
        if (channel.calls == null) {
            throw new IllegalStateException(channel + " cannot call: its handler is no Calls");
        }
        return channel.calls;
    }
}
