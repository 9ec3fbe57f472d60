package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;

/** A server of channels in a process of its own, which sends each message back. */
final class EchoProgram {
    /** Sends each message back; what cannot be sent yet is kept until it can. */
    static final MessageHandler ECHO =
            (channel, message) -> {
                message.retain();
                var _ =
                        channel.sendAsync(message.data())
                                .whenComplete((nothing, thrown) -> message.release());
            };

    /** The same; but a message of one byte ends this machine at once, as a power cut does. */
    private static final MessageHandler MORTAL =
            (channel, message) -> {
                if (message.length() == 1) {
                    try {
                        Files.writeString(Path.of("/proc/sysrq-trigger"), "b");
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                }
                ECHO.received(channel, message);
            };

    private EchoProgram() {}

    /** Serves at {@code ADDRESS PORT [mortal]} until the process ends; prints the port. */
    static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress address =
                new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        try (Adapter adapter = Adapter.forAddress(address.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                address,
                                MessagingOptions.DEFAULTS,
                                9,
                                arguments.length > 2 ? MORTAL : ECHO,
                                channel -> {})) {
            System.out.println(server.localAddress().getPort());
            Thread.currentThread().join();
        }
    }
}
