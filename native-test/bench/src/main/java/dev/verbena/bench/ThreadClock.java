package dev.verbena.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** How long the current thread had a processor: a clock that other work does not disturb much. */
final class ThreadClock {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private ThreadClock() {}

    /**
     * For how many messages of a length it is read once: a reading takes as long as several short
     * ones.
     */
    static int batch(int bytes) {
        return Math.clamp(64_000 / bytes, 32, 1000);
    }

    static long nanos() {
        return THREADS.getCurrentThreadCpuTime();
    }
}
