package dev.verbena.nativetest;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.Poller;
import dev.verbena.trust.Footprint;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;

/**
 * Memory that is registered, queue pairs that are connected, channels that are opened and messages
 * on them, again and again, and what the process and the kernel hold meanwhile.
 */
public final class Churn implements AutoCloseable {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(8, 8);
    private static final MemorySegment MESSAGE = MemorySegment.ofArray(new byte[100]);

    private final AtomicLong received = new AtomicLong();
    private final Sides sides = new Sides();
    private final Poller poller = Poller.start(sides.here, IdleStrategy.events());
    private final ProtectionDomain domain = sides.here.createProtectionDomain();
    private final CompletionQueue queue = sides.here.createCompletionQueue(64);
    private final MessageServer server =
            sides.listen(
                    FaultsTest.LONG,
                    9,
                    (channel, message) -> received.incrementAndGet(),
                    channel -> {});

    void register(int times) {
        for (int i = 0; i < times; i++) {
            domain.allocate(4096, Access.REMOTE_WRITE).close();
        }
    }

    /** Two at a time, with a receive that is cancelled. */
    void queuePairs(int count) {
        for (int i = 0; i < count; i += 2) {
            try (MemoryRegion region = domain.allocate(64, Access.LOCAL_WRITE);
                    QueuePair a = domain.createQueuePair(queue, queue, LIMITS);
                    QueuePair b = domain.createQueuePair(queue, queue, LIMITS)) {
                a.connect(b.address());
                b.connect(a.address());
                b.receive(1, BufferList.of(region)).orThrow();
            }
        }
    }

    /** One after the other, each with so many messages. Returns how many of these were lost. */
    public long channels(int count, int messages) throws InterruptedException {
        long before = received.get();
        for (int i = 0; i < count; i++) {
            long all = received.get() + messages;
            try (MessageChannel channel =
                    MessageChannel.connect(poller, server.localAddress(), FaultsTest.LONG, null)) {
                for (int message = 0; message < messages; message++) {
                    channel.send(MESSAGE, LONG);
                }
                Deadline deadline = Deadline.of("arrival of all messages");
                while (received.get() < all) {
                    deadline.check();
                }
            }
            Deadline deadline = Deadline.of("end of the server's channel");
            while (server.channelCount() > 0) {
                deadline.check();
            }
        }
        return (long) count * messages - (received.get() - before);
    }

    /** What the process and the kernel's RDMA subsystem hold. */
    record Held(Footprint process, String kernel) {
        /** How many objects of a kind, as in "roce0: pd 3 cq 3 qp 4". */
        long kernelObjects() {
            return count(kernel);
        }
    }

    private static long count(String kernel) {
        long sum = 0;
        for (String word : kernel.split("\\s+")) {
            sum += word.matches("\\d+") ? Long.parseLong(word) : 0;
        }
        return sum;
    }

    /** Waits until the kernel has as many queue pairs and identifiers as before, for a minute. */
    static boolean sameConnections(String before) throws IOException, InterruptedException {
        return eventually(before, now -> connections(now).equals(connections(before)));
    }

    /** Waits until the kernel has no more queue pairs and identifiers than before, for a minute. */
    static boolean noMoreConnections(String before) throws IOException, InterruptedException {
        return eventually(before, now -> count(connections(now)) <= count(connections(before)));
    }

    /** Waits until the kernel has no more objects than before, for a minute. */
    public static boolean noMore(String before) throws IOException, InterruptedException {
        return eventually(before, now -> count(now) <= count(before));
    }

    private static boolean eventually(String before, Predicate<String> holds)
            throws IOException, InterruptedException {
        String now = kernel();
        for (long start = System.nanoTime(); !holds.test(now); ) {
            if (System.nanoTime() - start > LONG.toNanos()) {
                System.out.printf("The kernel has%n%sand had before%n%s", now, before);
                return false;
            }
            now = kernel();
        }
        return true;
    }

    private static String connections(String kernel) {
        return kernel.replaceAll("(pd|cq|mr|ctx|srq) \\d+", "");
    }

    static Held held() throws IOException, InterruptedException {
        return new Held(Footprint.now(), kernel());
    }

    /** What the kernel has for each device, as in "roce0: pd 3 cq 3 qp 4 cm_id 2 mr 5 ctx 1". */
    public static String kernel() throws IOException, InterruptedException {
        Process rdma = new ProcessBuilder("rdma", "resource").redirectErrorStream(true).start();
        String kernel =
                new String(rdma.getInputStream().readAllBytes(), StandardCharsets.UTF_8)
                        .replaceAll("(?m)^\\d+: ", "");
        if (rdma.waitFor() != 0) {
            throw new AssertionError("rdma resource: " + kernel);
        }
        return kernel;
    }

    @Override
    public void close() {
        server.close();
        poller.close();
        queue.close();
        domain.close();
        sides.close();
    }
}
