package dev.verbena.internal.runtime;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * The thread that waits for one completion queue and calls its callback. What goes wrong in a wait
 * or in the callback is reported, and the thread goes on.
 */
public final class CallbackLoop {
    /** What the thread waits for, and what it calls. */
    public interface Work {
        /** Waits once, and calls back if something has fired. */
        void waitAndCall();

        /** Whether the next wait would end at once, by an event that cannot be taken. */
        boolean stuck();

        /**
         * Whether the thread is to end.
         *
         * @return true after the close
         */
        boolean closed();

        /** The last thing that the thread does. */
        void ended();
    }

    /** How long {@link #join} waits. */
    public static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);

    // The pause after a wait that failed doubles from one to the other.
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final Work work;
    private final Thread thread;

    /** Starts the thread. */
    public CallbackLoop(ThreadFactory threads, String name, Work work) {
        this.work = work;
        this.thread = threads.newThread(this::run);
        thread.setName(name);
        thread.start();
    }

    private void run() {
        try {
            long pause = SHORTEST_PAUSE;
            while (!work.closed()) {
                try {
                    work.waitAndCall();
                    if (!work.stuck()) {
                        pause = SHORTEST_PAUSE;
                        continue;
                    }
                } catch (Throwable t) { // most likely for a moment: out of memory, say
                    Uncaught.report(t);
                }
                if (!work.closed()) {
                    LockSupport.parkNanos(pause);
                    pause = Math.min(2 * pause, LONGEST_PAUSE);
                }
            }
        } finally {
            work.ended();
        }
    }

    /** Waits until the thread has ended, after the work was closed; not on that thread itself. */
    public boolean join() {
        LockSupport.unpark(thread);
        return Threads.join(thread, CLOSE_TIMEOUT);
    }
}
