package dev.verbena.messaging;

import dev.verbena.Until;
import dev.verbena.internal.verbs.FakeDevice;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * 10,000 virtual threads that wait in sends and receives of two channels. For a JVM with a single
 * carrier: if one of them held it, no other would run.
 */
final class ManyThreads {
    private static final int EACH = 5_000;
    private static final Duration LONG = Duration.ofSeconds(100);
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(100)
                    .withOutstanding(4)
                    .withReceives(4)
                    .withTimeout(Duration.ofSeconds(50));

    private ManyThreads() {}

    /** Prints what it finds: how many wait, whether another one runs, and how many are done. */
    static void main() throws InterruptedException {
        AtomicInteger sent = new AtomicInteger();
        AtomicInteger received = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        try (Two two = new Two(SMALL, null, null)) {
            carriesOut(two.device, false);
            for (int i = 0; i < EACH; i++) {
                threads.add(Thread.startVirtualThread(() -> receive(two.b, received)));
                threads.add(Thread.startVirtualThread(() -> send(two.a, sent)));
            }
            // All but the few whose messages have room: these are done already.
            Until.holds(() -> threads.stream().filter(ManyThreads::waits).count() >= 2 * EACH - 4);
            System.out.println(threads.stream().filter(ManyThreads::waits).count() + " wait");
            CountDownLatch other = new CountDownLatch(1);
            Thread.startVirtualThread(other::countDown);
            System.out.println("another one runs: " + other.await(10, TimeUnit.SECONDS));
            carriesOut(two.device, true);
            for (Thread thread : threads) {
                thread.join();
            }
            System.out.println(sent + " sent, " + received + " received");
        }
    }

    private static void carriesOut(FakeDevice device, boolean does) {
        synchronized (device) {
            device.running = does;
            device.notifyAll();
        }
    }

    private static boolean waits(Thread thread) {
        return thread.getState() == Thread.State.TIMED_WAITING;
    }

    private static void receive(MessageChannel channel, AtomicInteger count) {
        try (Message message = channel.receive(LONG)) {
            if (message != null) {
                count.incrementAndGet();
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void send(MessageChannel channel, AtomicInteger count) {
        try {
            channel.send(MemorySegment.ofArray(new byte[10]), LONG);
            count.incrementAndGet();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
