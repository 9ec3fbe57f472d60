package dev.verbena.internal.runtime;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The threads that run the program's callbacks, and waiting with a timeout. */
public final class Threads {
    private static final ThreadFactory NAMED = shared().name("verbena-callback-", 0).factory();

    /**
     * Runs each callback on a thread that it has for itself meanwhile: a callback that waits holds
     * up no other, and not the event thread. Throws when no thread can be started.
     *
     * <p>Threads stay for some seconds and serve again, as starting one takes longer than most
     * callbacks (2 ms of a connection's 20, under emulation). They are not virtual: a handler is
     * likely to wait for completions, a call of the C library that pins its carrier thread, and as
     * many handlers as there are processors would hold up all others.
     */
    public static final Executor POOL =
            new ThreadPoolExecutor(
                    0,
                    Integer.MAX_VALUE,
                    5,
                    TimeUnit.SECONDS,
                    new SynchronousQueue<>(), // holds no task
                    Threads::forCallbacks);

    /** Runs callbacks that must not be lost when no thread can be started. */
    public static final Callbacks CALLBACKS = new Callbacks(POOL);

    private Threads() {}

    /**
     * A daemon that serves all of the program, or several programs: it keeps nothing of the thread
     * that happens to need it first, which may be an application that is undeployed later.
     */
    static Thread.Builder.OfPlatform shared() {
        return Thread.ofPlatform().daemon().inheritInheritableThreadLocals(false);
    }

    private static Thread forCallbacks(Runnable callbacks) {
        Thread thread = NAMED.newThread(callbacks);
        thread.setContextClassLoader(Threads.class.getClassLoader());
        return thread;
    }

    private interface Wait {
        boolean until(long nanoseconds) throws InterruptedException;
    }

    /**
     * Waits for a thread to end; interrupts do not shorten the timeout. Does not wait for the
     * current thread: a callback may close what it was called for.
     */
    public static boolean join(Thread thread, Duration timeout) {
        return thread == Thread.currentThread()
                || await(left -> thread.join(Duration.ofNanos(left)), timeout);
    }

    /** Waits for a latch; interrupts do not shorten the timeout. */
    public static boolean await(CountDownLatch latch, Duration timeout) {
        return await(left -> latch.await(left, TimeUnit.NANOSECONDS), timeout);
    }

    /** Waits for a future that does not fail; interrupts do not shorten the timeout. */
    public static boolean await(CompletableFuture<?> future, Duration timeout) {
        return await(
                left -> {
                    try {
                        Object ignored = future.get(left, TimeUnit.NANOSECONDS);
                        return true;
                    } catch (TimeoutException e) {
                        return false;
                    } catch (ExecutionException e) {
                        return true; // done, too
                    }
                },
                timeout);
    }

    private static boolean await(Wait wait, Duration timeout) {
        boolean interrupted = false;
        long deadline = System.nanoTime() + TimeUnit.NANOSECONDS.convert(timeout);
        try {
            while (true) {
                try {
                    return wait.until(deadline - System.nanoTime());
                } catch (InterruptedException e) {
                    interrupted = true; // a close is not given up half way
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
