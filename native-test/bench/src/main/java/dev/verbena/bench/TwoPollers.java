package dev.verbena.bench;

import dev.verbena.Adapter;
import dev.verbena.Status;
import dev.verbena.messaging.ConnectedChannels;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.PollerGroup;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/**
 * How many messages per second a group of two pollers carries, divided by those of one, on the
 * stand-in for libibverbs. Each poller has two connected channels, whose handlers send each message
 * back. Prints one line for each round. Only a machine with two idle processors can show it; with
 * {@code --clock cpu} the rate is that of a second of processor time of each polling thread,
 * whenever it gets it.
 */
public final class TwoPollers {
    private static final int BYTES = 64;
    private static final int CIRCULATING = 4; // messages on each pair of channels
    private static final int MOST = 2;
    private static final int WARM_UPS = 3;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final int millis;
    private final boolean cpu;
    private final MemorySegment data = Arena.global().allocate(BYTES);

    private TwoPollers(Options options) {
        this.millis = options.number("--ms", 500);
        this.cpu = options.is("--clock", "cpu");
    }

    /**
     * Measures.
     *
     * @param arguments options
     * @throws InterruptedException when interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        Options options =
                new Options(
                        "TwoPollers [--ms N] [--rounds N] [--clock cpu]",
                        0,
                        arguments,
                        "--ms",
                        "--rounds",
                        "--clock");
        TwoPollers program = new TwoPollers(options);
        try (Adapter adapter = Adapter.open("copy0")) {
            for (int round = -WARM_UPS; round < options.number("--rounds", 5); round++) {
                double one = program.rate(adapter, 1);
                double both = program.rate(adapter, MOST);
                if (round >= 0) {
                    Results.print("two-pollers", "-", both / one, "times");
                }
            }
        }
    }

    /** Messages in a ns: the sum of what each poller carries. */
    private double rate(Adapter adapter, int count) throws InterruptedException {
        try (PollerGroup group = PollerGroup.start(adapter, count, IdleStrategy.busySpin())) {
            CountDownLatch began = new CountDownLatch(count);
            long[] threads = new long[count];
            for (int i = 0; i < count; i++) {
                int index = i;
                Poller poller = group.all().get(i);
                MessageChannel first =
                        ConnectedChannels.pair(
                                poller,
                                MessagingOptions.DEFAULTS,
                                (channel, message) -> send(channel),
                                (channel, message) -> send(channel))[0];
                poller.execute(
                        () -> {
                            threads[index] = Thread.currentThread().threadId();
                            for (int j = 0; j < CIRCULATING; j++) {
                                send(first);
                            }
                            began.countDown();
                        });
            }
            began.await();
            long[][] before = snapshots(group.all(), threads);
            Thread.sleep(millis);
            long[][] after = snapshots(group.all(), threads);
            double sum = 0;
            for (int i = 0; i < count; i++) {
                sum += (double) (after[i][0] - before[i][0]) / (after[i][1] - before[i][1]);
            }
            return sum;
        }
    }

    /** For each poller: its completions, and its time. */
    private long[][] snapshots(List<Poller> pollers, long[] threads) {
        long[][] all = new long[threads.length][];
        for (int i = 0; i < threads.length; i++) {
            all[i] =
                    new long[] {
                        pollers.get(i).counters().completions(),
                        cpu ? THREADS.getThreadCpuTime(threads[i]) : System.nanoTime()
                    };
        }
        return all;
    }

    private void send(MessageChannel channel) {
        Status status = channel.trySend(data, 0, BYTES, null, null);
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
