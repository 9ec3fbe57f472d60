package dev.verbena.examples;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * The service of {@link Echo} over channels: many messages, many clients, and no buffers to see.
 */
public final class MessageEcho {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private MessageEcho() {}

    /**
     * Runs one side.
     *
     * @param arguments {@code server ADDRESS PORT} or {@code client ADDRESS PORT TEXT…}, where the
     *     address is the server's
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress server =
                new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        if (arguments[0].equals("client")) {
            try (Adapter adapter = Adapter.forPeer(server.getAddress());
                    Poller poller = Poller.start(adapter, IdleStrategy.events())) {
                for (int i = 3; i < arguments.length; i++) {
                    System.out.println(ask(poller, server, arguments[i]));
                }
            }
            return;
        }
        try (Adapter adapter = Adapter.forAddress(server.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                MessageServer listening = serve(poller, server)) {
            System.out.println("Listening on " + listening.localAddress());
            Thread.currentThread().join();
        }
    }

    /**
     * Serves up to 100 clients at a time, until the server is closed.
     *
     * @param poller polls for them
     * @param address an address of the device; port 0 lets the kernel choose
     * @return the server, to be closed by the caller
     */
    public static MessageServer serve(Poller poller, InetSocketAddress address) {
        // @start region="serve"
        return MessageServer.listen(
                poller,
                address,
                MessagingOptions.DEFAULTS,
                100, // clients at a time: others are refused, and read why
                (channel, message) -> {
                    CompletableFuture<Void> sent = channel.sendAsync(message.data());
                    message.retain(); // until then: the answer may have to wait for room
                    var _ = sent.whenComplete((nothing, thrown) -> message.release());
                },
                channel -> System.out.println("New: " + channel));
        // @end
    }

    /**
     * Sends a text and waits for it to come back.
     *
     * @param poller polls for the channel
     * @param server where the server listens
     * @param text of at most 4,064 bytes
     * @return what came back
     * @throws InterruptedException when it is interrupted
     * @throws MessagingException when the server refuses, is gone, or does not answer in time
     */
    public static String ask(Poller poller, InetSocketAddress server, String text)
            throws InterruptedException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        // @start region="ask"
        try (MessageChannel channel =
                MessageChannel.connect(poller, server, MessagingOptions.DEFAULTS, null)) {
            channel.send(MemorySegment.ofArray(bytes), TIMEOUT); // waits for room, if there is none
            try (Message answer = channel.receive(TIMEOUT)) {
                if (answer == null) {
                    throw new IllegalStateException("No answer within " + TIMEOUT);
                }
                return new String(
                        answer.data().toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
            } // the message's memory is the channel's again
        }
        // @end
    }
}
