package dev.verbena.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.function.LongSupplier;

/**
 * Processor time of a message, of 64 bytes or {@code --bytes}, both ends in one thread: the methods
 * of {@link Messages} on the stand-in for libibverbs, and NIO over a TCP connection on the loopback
 * interface. Prints one line for each round. NIO has the cheapest form there is: direct buffers, no
 * selector, and a read that always finds the message.
 */
public final class MessageTurns {
    private static final int BYTES = 64;
    private static final int WARM_UPS = 2;

    private MessageTurns() {}

    /**
     * Measures one of them.
     *
     * @param arguments {@code channel|registered|queue-pair|tcp}, and options
     * @throws IOException when the TCP connection fails
     */
    public static void main(String[] arguments) throws IOException {
        Options options =
                new Options(
                        "MessageTurns channel|registered|queue-pair|tcp [--ms N] [--rounds N] [--bytes N] [--eager N]",
                        1,
                        arguments,
                        "--ms",
                        "--rounds",
                        "--bytes",
                        "--eager");
        int bytes = options.number("--bytes", BYTES);
        String what = options.argument(0);
        int rounds = options.number("--rounds", 2);
        long nanos = options.number("--ms", 150) * 1_000_000L;
        switch (what) {
            case "tcp" -> {
                try (Tcp tcp = new Tcp(bytes)) {
                    measure(what, tcp::message, bytes, rounds, nanos);
                }
            }
            case "channel", "registered", "queue-pair" -> {
                Messages messages = new Messages();
                messages.bytes = bytes;
                messages.eagerLimit = options.number("--eager", messages.eagerLimit);
                messages.open();
                LongSupplier one =
                        switch (what) {
                            case "channel" -> messages::throughAChannel;
                            case "registered" -> messages::fromRegisteredMemory;
                            default -> messages::byHand;
                        };
                measure(what, one, bytes, rounds, nanos);
                messages.close();
            }
            default -> throw new IllegalArgumentException("There is no " + what);
        }
    }

    private static void measure(
            String what, LongSupplier message, int bytes, int rounds, long nanos) {
        for (int round = -WARM_UPS; round < rounds; round++) {
            double each = round(message, bytes, round < 0 ? 4 * nanos : nanos);
            if (round >= 0) {
                Results.print("message", what + " bytes=" + bytes, each, "ns");
            }
        }
    }

    private static double round(LongSupplier message, int bytes, long nanos) {
        int batch = ThreadClock.batch(bytes);
        long sum = 0;
        long times = 0;
        long start = ThreadClock.nanos();
        long end;
        do {
            for (int i = 0; i < batch; i++) {
                sum += message.getAsLong();
            }
            times += batch;
            end = ThreadClock.nanos();
        } while (end - start < nanos);
        if (sum == 0) {
            throw new IllegalStateException("no message arrived");
        }
        return (double) (end - start) / times;
    }

    /** Both ends of a TCP connection. */
    private static final class Tcp implements AutoCloseable {
        private final SocketChannel sender;
        private final SocketChannel receiver;
        private final ByteBuffer sent;
        private final ByteBuffer received;

        Tcp(int bytes) throws IOException {
            sent = ByteBuffer.allocateDirect(bytes);
            received = ByteBuffer.allocateDirect(bytes);
            try (ServerSocketChannel server = ServerSocketChannel.open()) {
                server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
                sender = SocketChannel.open(server.getLocalAddress());
                receiver = server.accept();
            }
            for (SocketChannel end : new SocketChannel[] {sender, receiver}) {
                end.setOption(StandardSocketOptions.TCP_NODELAY, true);
                end.configureBlocking(false);
            }
        }

        /** Writes, and reads until the message is there. */
        long message() {
            try {
                sent.clear();
                received.clear();
                while (received.hasRemaining()) {
                    if (sent.hasRemaining()) {
                        int ignored = sender.write(sent);
                    }
                    if (receiver.read(received) < 0) {
                        throw new IllegalStateException("The connection has ended");
                    }
                }
                return received.position();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void close() throws IOException {
            sender.close();
            receiver.close();
        }
    }
}
