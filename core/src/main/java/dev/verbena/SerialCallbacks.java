package dev.verbena;

import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs callbacks one after the other, on threads of their own: one that waits holds up the next
 * one, and not the thread that brings what it waits for.
 */
final class SerialCallbacks implements Executor {
    private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicInteger count = new AtomicInteger(); // of those that wait or run
    private volatile Thread running;

    @Override
    public void execute(Runnable callback) {
        waiting.add(callback);
        if (count.getAndIncrement() == 0) {
            Threads.CALLBACKS.execute(this::run);
        }
    }

    private void run() {
        do {
            running = Thread.currentThread();
            Threads.runCallback(waiting.remove());
            running = null;
        } while (count.decrementAndGet() > 0);
    }

    /** Waits until what was given so far is over; not when called by it. */
    void finish(Duration patience, String what) {
        if (Thread.currentThread() != running) {
            CountDownLatch over = new CountDownLatch(1);
            execute(over::countDown);
            Threads.await(over, patience, what);
        }
    }
}
