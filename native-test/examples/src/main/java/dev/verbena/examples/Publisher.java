package dev.verbena.examples;

import dev.verbena.Status;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageClient;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.ReconnectOptions;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * Publishes lines to many subscribers. None of them holds up the others: one that does not keep up
 * is cut off, connects again, and knows that it has missed something.
 */
public final class Publisher implements AutoCloseable {
    private static final MessagingOptions OPTIONS = MessagingOptions.DEFAULTS.withOutstanding(64);

    private final Set<MessageChannel> subscribers = ConcurrentHashMap.newKeySet();
    private final MessageServer server;

    /**
     * Listens for subscribers, a thousand at most.
     *
     * @param poller polls for them
     * @param address an address of the device; port 0 lets the kernel choose
     */
    public Publisher(Poller poller, InetSocketAddress address) {
        server =
                MessageServer.listen(
                        poller, address, OPTIONS, 1000, (channel, message) -> {}, this::joined);
    }

    private void joined(MessageChannel channel) {
        subscribers.add(channel);
        var _ = channel.closed().thenRun(() -> subscribers.remove(channel));
    }

    /**
     * Publishes a line.
     *
     * @param line of up to 4,064 bytes
     * @return how many subscribers it was sent to
     */
    public int publish(String line) {
        // @start region="publish"
        MemorySegment data = MemorySegment.ofArray(line.getBytes(StandardCharsets.UTF_8));
        int count = 0;
        for (Iterator<MessageChannel> all = subscribers.iterator(); all.hasNext(); ) {
            MessageChannel subscriber = all.next();
            Status status = subscriber.trySend(data); // never waits
            if (status == Status.SUCCESS) {
                count++;
            } else if (status == Status.NO_MORE_ENTRIES) {
                all.remove();
                System.out.println("Too slow: " + subscriber);
                Thread.ofVirtual().start(subscriber::close); // which waits, but nobody here
            }
        }
        return count;
        // @end
    }

    /** {@return how many subscribers there are} */
    public int subscriberCount() {
        return subscribers.size();
    }

    /**
     * The address to subscribe at.
     *
     * @return with the actual port
     */
    public InetSocketAddress address() {
        return server.localAddress();
    }

    /**
     * Subscribes, and again whenever the publisher was gone or has cut this subscriber off.
     *
     * @param poller polls for the subscriber
     * @param publisher where the publisher listens
     * @param lines gets each line, on the poller's thread
     * @param missed called whenever lines may be missing from here on
     * @return what ends the subscription when it is closed
     */
    public static MessageClient subscribe(
            Poller poller, InetSocketAddress publisher, Consumer<String> lines, Runnable missed) {
        // @start region="client"
        return MessageClient.start(
                poller,
                publisher,
                OPTIONS,
                ReconnectOptions.DEFAULTS.withPauses(Duration.ofMillis(50), Duration.ofSeconds(2)),
                (channel, message) ->
                        lines.accept(
                                new String(
                                        message.data().toArray(ValueLayout.JAVA_BYTE),
                                        StandardCharsets.UTF_8)),
                channel -> missed.run()); // a new channel: what came meanwhile went elsewhere
        // @end
    }

    /** Cuts off all subscribers. */
    @Override
    public void close() {
        server.close();
    }
}
