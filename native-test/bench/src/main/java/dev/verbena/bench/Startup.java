package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/**
 * How long a JVM takes from its start to the first completion, step by step, and how long for the
 * first 10,000 posts and polls, on a stand-in for libibverbs whose provider only copies. {@code
 * bench/startup} runs it in one JVM after the other.
 *
 * <p>It does nothing that would load classes on its own, and prints only when all is measured.
 */
public final class Startup {
    private static final int BYTES = 64;
    private static final int OPERATIONS = 10_000;
    private static final String[] STEPS = {
        "adapter", "domain", "region", "completion-queue", "queue-pair", "connect", "first", "10000"
    };

    private final long[] nanos = new long[STEPS.length];
    private int steps;
    private long last;

    private Startup(long main) {
        last = main;
    }

    /**
     * Measures.
     *
     * @param arguments when the process was started, in microseconds since 1970; and "first" if it
     *     is to end with the first completion, or "nio" for a first message over TCP instead
     * @throws IOException when the TCP connection fails
     */
    public static void main(String[] arguments) throws IOException {
        long main = System.nanoTime();
        long mainAt = System.currentTimeMillis();
        double beforeMain = mainAt - Long.parseLong(arguments[0]) / 1e3;
        if (arguments.length > 1 && arguments[1].equals("nio")) {
            messageByNio();
            Results.print("startup", "nio", beforeMain + (System.nanoTime() - main) / 1e6, "ms");
            return;
        }
        Startup startup = new Startup(main);
        startup.run(arguments.length > 1);
        startup.print(beforeMain);
    }

    private static void messageByNio() throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            try (SocketChannel sender = SocketChannel.open(server.getLocalAddress());
                    SocketChannel receiver = server.accept()) {
                int sent = sender.write(ByteBuffer.allocateDirect(BYTES));
                ByteBuffer received = ByteBuffer.allocateDirect(BYTES);
                while (received.position() < sent) {
                    if (receiver.read(received) < 0) {
                        throw new IllegalStateException("The connection has ended");
                    }
                }
            }
        }
    }

    private void run(boolean onlyFirst) {
        try (Arena arena = Arena.ofConfined();
                Adapter adapter = Adapter.open("copy0")) {
            reached();
            try (ProtectionDomain domain = adapter.createProtectionDomain()) {
                reached();
                try (MemoryRegion region =
                        domain.register(arena.allocate(BYTES), Access.LOCAL_WRITE)) {
                    reached();
                    try (CompletionQueue queue = adapter.createConfinedCompletionQueue(16)) {
                        reached();
                        try (QueuePair pair =
                                domain.createQueuePair(
                                        queue, queue, QueuePairLimits.depths(16, 1))) {
                            reached();
                            pair.connect(pair.address());
                            reached();
                            BufferList buffers = new BufferList(1).add(region, 0, BYTES);
                            Completions completions = new Completions(1);
                            sendAndPoll(pair, buffers, queue, completions);
                            reached();
                            if (!onlyFirst) {
                                for (int i = 0; i < OPERATIONS; i++) {
                                    sendAndPoll(pair, buffers, queue, completions);
                                }
                                reached();
                            }
                        }
                    }
                }
            }
        }
    }

    private static void sendAndPoll(
            QueuePair pair, BufferList buffers, CompletionQueue queue, Completions completions) {
        if (pair.send(1, buffers, OpFlags.NONE).status() != Status.SUCCESS
                || queue.poll(completions) != 1
                || completions.status(0) != Status.SUCCESS) {
            throw new IllegalStateException("not sent");
        }
    }

    private void reached() {
        long now = System.nanoTime();
        nanos[steps++] = now - last;
        last = now;
    }

    private void print(double beforeMain) {
        Results.print("startup", "jvm", beforeMain, "ms");
        double total = beforeMain;
        for (int i = 0; i < steps; i++) {
            Results.print("startup", STEPS[i], nanos[i] / 1e6, "ms");
            if (i < STEPS.length - 1) {
                total += nanos[i] / 1e6;
            }
        }
        Results.print("startup", "start-to-first", total, "ms");
    }
}
