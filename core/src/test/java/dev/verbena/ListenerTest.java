package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.internal.runtime.LimitedExecutor;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** Requests that cannot be served, or that nobody answers. */
@Timeout(60)
class ListenerTest {
    private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
    private static final InetSocketAddress ANY_PORT = new InetSocketAddress(HERE, 0);
    private static final Duration NEVER = Duration.ofDays(1);

    private final FakeDevice device = new FakeDevice();
    private final FakeConnections network = new FakeConnections();
    private final Adapter adapter = FakeAdapters.open(device, network);
    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final BlockingQueue<Throwable> reported = uncaught.reports();
    private final List<AutoCloseable> opened = new ArrayList<>();
    private final CountDownLatch thinking = new CountDownLatch(1);

    ListenerTest() {
        network.devices.put(HERE, "fake0");
    }

    @AfterEach
    void close() throws Exception {
        thinking.countDown();
        for (AutoCloseable object : opened.reversed()) {
            object.close();
        }
        adapter.close();
        Until.holds(
                () -> {
                    requests.removeIf(
                            request -> {
                                request.close();
                                return true;
                            });
                    return device.objects() == 0 && network.identifiers() == 0;
                });
        device.dispose();
    }

    private <T extends AutoCloseable> T keep(T object) {
        opened.add(object);
        return object;
    }

    /** A peer asks for a connection. */
    private void ask(Listener listener) {
        network.request(listener.localAddress(), new byte[56], 1);
    }

    private long destroyed() {
        return network.calls.stream().filter("destroy"::equals).count();
    }

    private Connector request() throws InterruptedException {
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as("a request").isNotNull();
        return keep(request);
    }

    private Throwable report() throws InterruptedException {
        Throwable report = reported.poll(30, TimeUnit.SECONDS);
        assertThat(report).as("a report").isNotNull();
        return report;
    }

    /** Does not return before the test's end. */
    private void think(Connector request) {
        requests.add(request);
        Until.reached(thinking);
    }

    @Nested
    class ARequestThatCannotBeServed {
        @Test
        void isRefusedAlone() throws Exception {
            CompletionQueue queue = keep(adapter.createCompletionQueue(4));
            Listener listener = keep(adapter.listen(ANY_PORT, 0, requests::add));
            OutOfMemoryError error = new OutOfMemoryError("unable to create native thread");
            network.describing.set(error);
            ask(listener);
            assertThat(report()).isSameAs(error);
            network.until(() -> destroyed() == 1);
            ask(listener); // the event thread lives
            request();
            queue.arm(NotifyType.ANY);
            assertThat(queue.await(Duration.ofMillis(1))).isEqualTo(Status.IO_TIMEOUT);
        }

        @Test
        void isRefusedWhereNoThreadCanBeStarted() throws Exception {
            OutOfMemoryError error = new OutOfMemoryError("unable to create native thread");
            Executor without =
                    task -> {
                        throw error;
                    };
            Listener listener = keep(adapter.listen(ANY_PORT, 0, without, requests::add));
            Listener other = keep(adapter.listen(ANY_PORT, 0, requests::add));
            for (int i = 1; i <= 200; i++) { // beyond any backlog
                int so = i;
                ask(listener);
                assertThat(report()).isSameAs(error);
                network.until(() -> destroyed() == so);
            }
            ask(other);
            assertThat(request().peerAddress()).isNotNull();
            assertThat(reported).isEmpty();
        }

        @Test
        void isRefusedWhereTheExecutorRejectsItWhichIsNoProblemToReport() throws Exception {
            Executor full =
                    task -> {
                        throw new RejectedExecutionException("full");
                    };
            Listener listener = keep(adapter.listen(ANY_PORT, 0, full, requests::add));
            ask(listener);
            network.until(() -> destroyed() == 1);
            assertThat(reported).isEmpty();
        }
    }

    @Nested
    class Handlers {
        @Test
        void runOnSixteenThreadsAndOtherRequestsWait() throws Exception {
            AtomicInteger running = new AtomicInteger();
            Listener listener =
                    keep(
                            adapter.listen(
                                    ANY_PORT,
                                    0,
                                    request -> {
                                        running.incrementAndGet();
                                        think(request);
                                        running.decrementAndGet();
                                    }));
            for (int i = 0; i < 40; i++) {
                ask(listener);
            }
            ask(keep(adapter.listen(ANY_PORT, 0, requests::add))); // behind all the others
            for (int i = 0; i < 16 + 1; i++) {
                request();
            }
            assertThat(running).hasValue(16);
            thinking.countDown();
            for (int i = 0; i < 40 - 16; i++) {
                request();
            }
            assertThat(reported).isEmpty();
        }

        @Test
        void runOnTheCallersThreadsWhereItHasSome() throws Exception {
            try (ExecutorService threads = Executors.newCachedThreadPool()) {
                Listener listener = keep(adapter.listen(ANY_PORT, 0, threads, this::thinkOf));
                for (int i = 0; i < 40; i++) {
                    ask(listener);
                }
                for (int i = 0; i < 40; i++) {
                    request();
                }
                thinking.countDown();
            }
        }

        private void thinkOf(Connector request) {
            think(request);
        }

        @Test
        void areNotCalledAnyMoreWhenTheListenerIsClosed() throws Exception {
            BlockingQueue<Runnable> later = new LinkedBlockingQueue<>();
            Listener listener = keep(adapter.listen(ANY_PORT, 0, later::add, requests::add));
            ask(listener);
            Runnable task = later.poll(30, TimeUnit.SECONDS);
            listener.close();
            task.run();
            assertThat(requests).isEmpty();
            network.until(() -> network.identifiers() == 0);
        }
    }

    @Nested
    class ARequestThatNobodyAnswers {
        private final Semaphore handed = new Semaphore(0);
        private final LimitedExecutor serial = new LimitedExecutor(Threads.POOL, 1);

        private Listener listener(
                int backlog, Duration within, Executor executor, Consumer<Connector> handler) {
            return keep(
                    new Listener(
                            adapter, ANY_PORT, backlog, executor, handler, Duration.ZERO, within));
        }

        private void isRefused(Connector forgotten, String why) {
            for (VerbenaException late :
                    List.of(
                            failure(() -> forgotten.reject(new byte[0])),
                            failure(forgotten::connectionData))) {
                assertThat(late.status()).isEqualTo(Status.CONNECTION_ABORTED);
                assertThat(late).hasMessageContaining(why);
            }
        }

        private VerbenaException failure(Runnable call) {
            return catchThrowableOfType(VerbenaException.class, call::run);
        }

        @Test
        void makesRoomInAFullBacklogTheOldestFirst() throws Exception {
            Listener listener = listener(3, NEVER, serial, requests::add);
            List<Connector> asked = new ArrayList<>();
            for (int i = 0; i < 100; i++) { // far beyond the backlog: it does not become deaf
                ask(listener);
                asked.add(request());
                handlerReturned();
            }
            for (int i = 0; i < 97; i++) {
                assertThat(report())
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContainingAll("192.0.2.99", "10.0.0.1", "backlog of 3");
                isRefused(asked.get(i), "backlog of 3 was full");
            }
            assertThat(destroyed()).isEqualTo(97);
            asked.get(97).reject(new byte[0]);
            ask(listener);
            request();
            assertThat(reported).isEmpty();
        }

        /** The handler's thread may sleep between the handler's last step and its return. */
        private void handlerReturned() throws InterruptedException {
            CountDownLatch behind = new CountDownLatch(1);
            serial.execute(behind::countDown);
            Until.reached(behind);
        }

        /** Who was pushed out has no place any more, and cannot make room once more. */
        @Test
        void makesRoomOnce() throws Exception {
            AtomicInteger asked = new AtomicInteger();
            Listener listener =
                    listener(
                            1,
                            NEVER,
                            Threads.POOL,
                            request -> {
                                if (asked.incrementAndGet() == 1) {
                                    requests.add(request);
                                } else {
                                    think(request);
                                }
                            });
            ask(listener);
            request();
            Until.holds(() -> pushesOut(listener));
            Connector second = request();
            ask(listener);
            ask(keep(adapter.listen(ANY_PORT, 0, requests::add))); // behind it
            request();
            assertThat(asked).hasValue(2);
            second.reject(new byte[0]);
        }

        /** Asks, and whether that was let in: the handler before may not have returned yet. */
        private boolean pushesOut(Listener listener) {
            long before = destroyed();
            ask(listener);
            network.until(() -> destroyed() > before);
            return !reported.isEmpty();
        }

        @Test
        void hasSomeTimeThough() throws Exception {
            Listener listener =
                    keep(new Listener(adapter, ANY_PORT, 1, serial, requests::add, NEVER, NEVER));
            ask(listener);
            Connector first = request();
            handlerReturned();
            ask(listener);
            network.until(() -> destroyed() == 1);
            first.reject(new byte[0]); // it is still there
            assertThat(reported).isEmpty();
        }

        @Test
        void isNotPushedOutWhileItsHandlerThinks() throws Exception {
            Listener listener = listener(2, NEVER, Threads.POOL, ListenerTest.this::think);
            ask(listener);
            ask(listener);
            Connector first = request();
            request();
            ask(listener);
            network.until(() -> destroyed() == 1);
            first.reject(new byte[0]);
            ask(listener);
            request();
            assertThat(reported).isEmpty();
        }

        @Test
        void isRefusedAfterAWhileWhetherItsHandlerHasReturnedOrNot() throws Exception {
            for (Consumer<Connector> handler :
                    List.<Consumer<Connector>>of(requests::add, ListenerTest.this::think)) {
                Listener listener =
                        listener(
                                0,
                                Duration.ofMillis(20),
                                this::start,
                                request -> {
                                    handed.release();
                                    handler.accept(request);
                                });
                ask(listener);
                Connector forgotten = request();
                assertThat(report())
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContainingAll("192.0.2.99", "within 20 ms");
                isRefused(forgotten, "within 20 ms");
                listener.close();
                network.until(
                        () -> network.identifiers() == 0); // nothing holds the address any more
            }
        }

        /** On the event thread, whose timers wait until the handler has begun. */
        private void start(Runnable task) {
            Threads.POOL.execute(task);
            handed.acquireUninterruptibly();
        }

        @Test
        void isNotHandledWhenItHasWaitedTooLongForAThread() throws Exception {
            BlockingQueue<Runnable> later = new LinkedBlockingQueue<>();
            Listener listener = listener(0, Duration.ofMillis(20), later::add, requests::add);
            ask(listener);
            report();
            later.remove().run();
            assertThat(requests).isEmpty();
        }

        @Test
        void doesNotWaitForAThreadAnyMore() throws Exception {
            LimitedExecutor busy = new LimitedExecutor(Threads.POOL, 0);
            Listener listener = listener(1, Duration.ofMillis(20), busy, requests::add);
            for (int i = 0; i < 3; i++) {
                ask(listener);
                assertThat(report()).hasMessageContaining("within 20 ms");
            }
            assertThat(busy.idle()).isTrue();
        }

        @Test
        void isNotMissedOnceItIsAnswered() throws Exception {
            Listener listener = listener(1, NEVER, serial, requests::add);
            for (int i = 0; i < 20; i++) {
                ask(listener);
                Connector request = request();
                if (i % 2 == 0) {
                    request.reject(new byte[0]);
                }
                request.close();
            }
            assertThat(reported).isEmpty();
        }
    }
}
