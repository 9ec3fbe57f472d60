package dev.verbena.examples;

import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Questions of as many threads as there are, virtual ones, over a single channel: each waits for
 * its own answer, and holds no carrier meanwhile. A number in front of each question says whose the
 * answer is; {@link MessageEcho} is a server that sends it back.
 */
public final class ThousandThreads implements AutoCloseable {
    private final Map<Long, CompletableFuture<String>> waiting = new ConcurrentHashMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final MessageChannel channel;

    /**
     * Connects.
     *
     * @param poller polls for the channel
     * @param server where the server listens
     */
    public ThousandThreads(Poller poller, InetSocketAddress server) {
        channel =
                MessageChannel.connect(
                        poller,
                        server,
                        MessagingOptions.DEFAULTS,
                        (from, message) -> answered(message));
        var _ = channel.closed().thenRun(this::failAll);
    }

    /**
     * Asks, and waits for the answer.
     *
     * @param question of up to 4,056 bytes
     * @param timeout for the question to be sent, and for the answer to come
     * @return the answer
     * @throws InterruptedException when it is interrupted
     * @throws TimeoutException when no answer came in time
     * @throws MessagingException when the question could not be sent, or the channel has ended
     */
    public String ask(String question, Duration timeout)
            throws InterruptedException, TimeoutException {
        // @start region="ask"
        long number = numbers.incrementAndGet();
        CompletableFuture<String> answer = new CompletableFuture<>();
        waiting.put(number, answer);
        try {
            channel.send(numbered(number, question), timeout); // waits for room among all others
            return answer.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            throw (MessagingException) e.getCause(); // why the channel has ended
        } finally {
            waiting.remove(number); // an answer that comes too late is nobody's
        }
        // @end
    }

    private static MemorySegment numbered(long number, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return MemorySegment.ofBuffer(
                ByteBuffer.allocate(Long.BYTES + bytes.length).putLong(number).put(bytes).flip());
    }

    private void answered(Message message) {
        ByteBuffer bytes = ByteBuffer.wrap(message.data().toArray(ValueLayout.JAVA_BYTE));
        CompletableFuture<String> answer = waiting.get(bytes.getLong());
        if (answer != null) {
            answer.complete(StandardCharsets.UTF_8.decode(bytes).toString());
        }
    }

    /** Questions asked before the end are in the map; the channel refuses later ones. */
    private void failAll() {
        MessagingException reason = channel.closeReason();
        if (reason != null) {
            waiting.values().forEach(answer -> answer.completeExceptionally(reason));
        }
    }

    /** Closes the channel. */
    @Override
    public void close() {
        channel.close();
    }
}
