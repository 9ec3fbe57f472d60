package dev.verbena.bench;

import com.sun.management.ThreadMXBean;

import java.lang.management.ManagementFactory;

/**
 * The rounds of a program that an event loop drives, by the processor time of its thread: one thing
 * leads to the next, and the last one ends the program. By that thread.
 */
final class LoopRounds {
    private static final int WARM_UPS = 2;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    /** Gets what each thing took in a round. */
    @FunctionalInterface
    interface Result {
        void round(double nanos, double bytesOfHeap);
    }

    private final int rounds;
    private final long nanos; // of each
    private final int longer; // by which factor the rounds are that warm up
    private final int batch; // things for which the clock is read once
    private final Result result;
    private int round = -WARM_UPS;
    private long times;
    private long start;
    private long allocated;

    LoopRounds(Options options, int longer, int batch, Result result) {
        this.rounds = options.number("--rounds", 2);
        this.nanos = options.number("--ms", 150) * 1_000_000L;
        this.longer = longer;
        this.batch = batch;
        this.result = result;
    }

    /** One thing has ended; the first one only begins the first round. Returns whether to go on. */
    boolean goesOn() {
        if (start == 0) {
            begin();
            return true;
        }
        times++;
        if (times % batch == 0) {
            long took = ThreadClock.nanos() - start;
            if (took >= (round < 0 ? longer * nanos : nanos)) {
                if (round >= 0) {
                    double heap = THREADS.getCurrentThreadAllocatedBytes() - allocated;
                    result.round((double) took / times, heap / times);
                }
                round++;
                begin();
            }
        }
        return round < rounds;
    }

    /** Whether the rounds that count are still to come. */
    boolean areWarmUps() {
        return round < 0;
    }

    private void begin() {
        times = 0;
        allocated = THREADS.getCurrentThreadAllocatedBytes();
        start = ThreadClock.nanos();
    }
}
