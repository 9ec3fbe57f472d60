package dev.verbena.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** How long the current thread had a processor: a clock that other work does not disturb much. */
final class ThreadClock {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private ThreadClock() {}

    static long nanos() {
        return THREADS.getCurrentThreadCpuTime();
    }
}
