package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

/**
 * Requests and answers over the messages of channels: the handler of a {@link MessageServer}, a
 * {@link MessageClient} or a {@link MessageChannel} whose peer's handler is one, too. Each side may
 * {@linkplain MessageChannel#call call} the other. The same object serves any number of channels.
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
 * it, and an answer to a call that is not outstanding, because it has timed out, was cancelled or
 * was answered already, is ignored.
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

    /** By the poller. */
    @Override
    public void received(MessageChannel channel, Message message) {
        channel.calls().received(message, handler);
    }
}
