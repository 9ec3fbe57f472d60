package dev.verbena.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.UncaughtReports;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Where callbacks run, and what becomes of them when one throws or no thread can be started. */
@Timeout(60)
class LimitedExecutorTest {
    // Not an OutOfMemoryError, which JUnit passes on.
    private static final Error NO_THREAD = new Error("unable to create native thread");

    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final BlockingQueue<Throwable> reported = uncaught.reports();
    private final List<Integer> ran = new CopyOnWriteArrayList<>();
    private final AtomicInteger threadsToFail = new AtomicInteger();

    /** Starts threads, but for the first ones. */
    private void thread(Runnable task) {
        if (threadsToFail.getAndDecrement() > 0) {
            throw NO_THREAD;
        }
        Threads.POOL.execute(task);
    }

    @Nested
    class Limited {
        private final Queue<Runnable> threads = new ArrayDeque<>(); // that were asked for

        @Test
        void startsThreadsUpToItsLimitAndDoesNotRunWhatWasRemoved() {
            LimitedExecutor two = new LimitedExecutor(threads::add, 2);
            for (int i = 0; i < 3; i++) {
                int so = i;
                two.execute(() -> ran.add(so));
            }
            assertThat(threads).hasSize(2);
            Runnable removed = () -> ran.add(9);
            two.execute(removed);
            two.remove(removed);
            assertThat(two.idle()).isFalse();
            threads.remove().run();
            assertThat(ran).containsExactly(0, 1, 2);
            assertThat(two.idle()).isFalse(); // the other thread is still to come
            threads.remove().run();
            assertThat(two.idle()).isTrue();
            two.execute(() -> ran.add(3));
            threads.remove().run();
            assertThat(ran).containsExactly(0, 1, 2, 3);
        }

        @Test
        void aTaskWithoutAThreadDoesNotRunAndTheNextOneDoes() {
            threadsToFail.set(1);
            LimitedExecutor one =
                    new LimitedExecutor(
                            task -> {
                                if (threadsToFail.getAndDecrement() > 0) {
                                    throw NO_THREAD;
                                }
                                threads.add(task);
                            },
                            1);
            assertThatThrownBy(() -> one.execute(() -> ran.add(0))).isSameAs(NO_THREAD);
            assertThat(one.idle()).isTrue();
            one.execute(() -> ran.add(1));
            threads.remove().run();
            assertThat(ran).containsExactly(1);
        }

        /** By the time a second thread cannot be started, the first one has run it. */
        @Test
        void aTaskThatRunsWithoutAThreadOfItsOwnHasNotFailed() {
            LimitedExecutor two =
                    new LimitedExecutor(
                            task -> {
                                if (threadsToFail.getAndDecrement() > 0) {
                                    threads.remove().run();
                                    throw NO_THREAD;
                                }
                                threads.add(task);
                            },
                            2);
            two.execute(() -> ran.add(0));
            threadsToFail.set(1);
            two.execute(() -> ran.add(1));
            assertThat(ran).containsExactly(0, 1);
            assertThat(two.idle()).isTrue();
        }
    }

    @Nested
    class Serial {
        private void runs(Executor executor) throws InterruptedException {
            CountDownLatch run = new CountDownLatch(1);
            executor.execute(run::countDown);
            assertThat(run.await(30, TimeUnit.SECONDS)).as("it calls back").isTrue();
        }

        @Test
        void goesOnAfterAnErrorAndAfterAHandlerOfErrorsThatFails() throws Exception {
            SerialCallbacks callbacks = new SerialCallbacks(LimitedExecutorTest.this::thread);
            Thread.setDefaultUncaughtExceptionHandler(
                    (thread, thrown) -> {
                        reported.add(thrown);
                        throw new IllegalStateException("no memory to print with");
                    });
            callbacks.execute(
                    () -> {
                        throw new OutOfMemoryError("Java heap space");
                    });
            runs(callbacks);
            assertThat(reported.poll(30, TimeUnit.SECONDS)).isInstanceOf(OutOfMemoryError.class);
            assertThat(callbacks.finish(Duration.ofSeconds(30))).isTrue();
        }

        @Test
        void goesOnAfterAThreadCouldNotBeStarted() throws Exception {
            SerialCallbacks callbacks = new SerialCallbacks(LimitedExecutorTest.this::thread);
            threadsToFail.set(1);
            assertThatThrownBy(() -> callbacks.execute(() -> ran.add(0))).isSameAs(NO_THREAD);
            runs(callbacks);
        }

        @Test
        void aCallbackDoesNotWaitForItself() throws Exception {
            SerialCallbacks callbacks = new SerialCallbacks(LimitedExecutorTest.this::thread);
            BlockingQueue<Boolean> finished = new LinkedBlockingQueue<>();
            callbacks.execute(() -> finished.add(callbacks.finish(Duration.ofSeconds(10))));
            assertThat(finished.poll(30, TimeUnit.SECONDS)).isTrue();
        }

        @Test
        void needsNoThreadToFindThatNothingRuns() {
            SerialCallbacks callbacks = new SerialCallbacks(LimitedExecutorTest.this::thread);
            threadsToFail.set(1);
            assertThat(callbacks.finish(Duration.ofSeconds(30))).isTrue();
            assertThat(threadsToFail).hasValue(1);
        }
    }

    @Test
    void threadsOfCallbacksHaveNothingOfTheThreadThatNeedsThemFirst() throws Exception {
        InheritableThreadLocal<String> inherited = new InheritableThreadLocal<>();
        BlockingQueue<Object> seen = new LinkedBlockingQueue<>();
        Thread first =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    inherited.set("an application's");
                                    Thread.currentThread().setContextClassLoader(null);
                                    Threads.POOL.execute(
                                            () -> {
                                                seen.add(Objects.toString(inherited.get(), "none"));
                                                seen.add(
                                                        Thread.currentThread()
                                                                .getContextClassLoader());
                                            });
                                });
        first.join();
        assertThat(seen.poll(30, TimeUnit.SECONDS)).isEqualTo("none");
        assertThat(seen.poll(30, TimeUnit.SECONDS)).isSameAs(Threads.class.getClassLoader());
    }

    @Nested
    class Kept {
        @Test
        void untilAThreadCanBeStarted() throws Exception {
            Callbacks callbacks = new Callbacks(LimitedExecutorTest.this::thread);
            callbacks.prepare();
            callbacks.prepare();
            CountDownLatch called = new CountDownLatch(5);
            threadsToFail.set(8);
            for (int i = 0; i < 5; i++) {
                callbacks.execute(called::countDown);
            }
            assertThat(called.await(30, TimeUnit.SECONDS)).as("all are called back").isTrue();
            assertThat(reported.poll(30, TimeUnit.SECONDS)).isSameAs(NO_THREAD);
        }

        @Test
        void alsoAfterTheLastRelease() throws Exception {
            Callbacks callbacks = new Callbacks(LimitedExecutorTest.this::thread);
            callbacks.prepare();
            callbacks.release();
            CountDownLatch called = new CountDownLatch(1);
            threadsToFail.set(2);
            callbacks.execute(called::countDown);
            assertThat(called.await(30, TimeUnit.SECONDS)).isTrue();
        }
    }
}
