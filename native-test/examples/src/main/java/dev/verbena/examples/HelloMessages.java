package dev.verbena.examples;

// @start region="imports"
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.nio.charset.StandardCharsets.UTF_8;

import dev.verbena.Adapter;
import dev.verbena.messaging.*;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;

// @end

/**
 * Where to start: a server that sends each message back, and its client. {@code server ADDRESS
 * PORT} runs one, {@code client ADDRESS PORT TEXT} the other; the address is the server's in both.
 */
public final class HelloMessages {
    private HelloMessages() {}

    /**
     * Runs one side.
     *
     * @param args {@code server} or {@code client}, the server's address and port, and for the
     *     client the text
     * @throws InterruptedException when it is interrupted
     */
    // @start region="program"
    public static void main(String[] args) throws InterruptedException {
        InetSocketAddress server = new InetSocketAddress(args[1], Integer.parseInt(args[2]));
        if (args[0].equals("server")) {
            serve(server);
        } else {
            System.out.println(ask(server, args[3]));
        }
    }

    static void serve(InetSocketAddress address) throws InterruptedException {
        MessageHandler echo =
                (channel, message) -> {
                    message.retain(); // keeps its memory until the answer has been sent
                    var _ =
                            channel.sendAsync(message.data())
                                    .whenComplete((_, _) -> message.release());
                };
        // Closed in reverse order: the server and its channels, the poller, the device.
        try (Adapter adapter = Adapter.forAddress(address.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events()); // sleeps when idle
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                address,
                                MessagingOptions.DEFAULTS,
                                100, // clients at a time
                                echo,
                                channel -> System.out.println("Connected: " + channel))) {
            System.out.println("Listening on " + server.localAddress());
            Thread.currentThread().join(); // until the process is stopped
        }
    }

    static String ask(InetSocketAddress server, String question) throws InterruptedException {
        // @start region="ask"
        Duration timeout = Duration.ofSeconds(10);
        // Closed in reverse order: the channel, the poller, the device.
        try (Adapter adapter = Adapter.forPeer(server.getAddress()); // the device that reaches it
                Poller poller = Poller.start(adapter, IdleStrategy.events()); // sleeps when idle
                MessageChannel channel =
                        MessageChannel.connect(poller, server, MessagingOptions.DEFAULTS, null)) {
            channel.send(MemorySegment.ofArray(question.getBytes(UTF_8)), timeout);
            try (Message answer = channel.receive(timeout)) { // null if none came in time
                if (answer == null) {
                    throw new IllegalStateException("No answer within " + timeout);
                }
                return new String(answer.data().toArray(JAVA_BYTE), UTF_8);
            }
        }
        // @end
    }
    // @end
}
