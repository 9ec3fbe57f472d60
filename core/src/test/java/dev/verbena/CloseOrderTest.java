package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.trust.Trust;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Every order of closing the objects of one connection while requests are outstanding: no close
 * throws, each accepted request ends once at most, and in time where somebody can poll, closes that
 * pend complete, and nothing native stays.
 */
@Tag("trust")
@Timeout(3600)
class CloseOrderTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final OpFlags READ = OpFlags.ALLOW_REMOTE_READ;

    /** The requests that a completion queue reports, and how they end. */
    private static final class Ends {
        private final CompletionQueue queue;
        private final QueuePair pair; // of those that were accepted
        private final Completions completions = new Completions(16);
        private final List<Long> accepted = new ArrayList<>();
        private final List<Long> silent = new ArrayList<>(); // end only if they fail
        private final Map<Long, Status> ended = new HashMap<>();

        Ends(CompletionQueue queue, QueuePair pair) {
            this.queue = queue;
            this.pair = pair;
        }

        void accepted(PostResult result, long context) {
            result.orThrow();
            accepted.add(context);
        }

        void poll() {
            while (!queue.isClosed() && queue.poll(completions) > 0) {
                for (int i = 0; i < completions.size(); i++) {
                    long context = completions.context(i);
                    assertThat(ended.put(context, completions.status(i)))
                            .as("%d ends once", context)
                            .isNull();
                    assertThat(accepted.contains(context) || silent.contains(context)).isTrue();
                }
            }
        }

        /** While another thread closes objects, perhaps the queue. */
        void pollMeanwhile() {
            try {
                poll();
            } catch (IllegalStateException e) {
                assertThat(queue.isClosed()).isTrue();
            }
        }

        /**
         * Polls: where that is possible, all has ended that was accepted by a closed queue pair.
         */
        void check() {
            poll();
            if (pair.isClosed() && !queue.isClosed()) {
                assertThat(ended.keySet()).as("ended").containsAll(accepted);
            }
        }
    }

    /** What there is of one connection. */
    private static class Connection implements AutoCloseable {
        final FakeDevice device = new FakeDevice();
        final Adapter adapter;
        final CompletionQueue queue;
        final QueuePair pair;
        final QueuePair peer;
        final Arena memory = Arena.ofShared();
        final PooledBuffer buffer;
        final Map<String, NativeObject> objects = new LinkedHashMap<>();
        final Ends ends;

        Connection(@Nullable LinkedBlockingQueue<Status> callbacks) {
            device.running = false;
            adapter = FakeAdapters.open(device);
            ProtectionDomain domain = adapter.createProtectionDomain();
            queue =
                    callbacks == null
                            ? adapter.createCompletionQueue(64)
                            : adapter.createCompletionQueue(64, callbacks::add);
            SharedReceiveQueue shared = domain.createSharedReceiveQueue(4, 1, status -> {});
            QueuePairLimits limits = QueuePairLimits.depths(8, 4);
            pair = domain.createQueuePair(queue, queue, shared, limits);
            CompletionQueue other = adapter.createCompletionQueue(64);
            peer = domain.createQueuePair(other, other, limits);
            ends = new Ends(queue, pair);
            pair.connect(peer.address());
            peer.connect(pair.address());
            MemoryRegion region =
                    domain.register(
                            memory.allocate(64, 64), Access.LOCAL_WRITE, Access.REMOTE_READ);
            MemoryWindow window = domain.createMemoryWindow();
            BufferPool pool =
                    domain.createBufferPool(BufferPoolOptions.of(2, 64), Access.LOCAL_WRITE);
            RegisteredArena arena = domain.createArena(4096, 4096, Access.LOCAL_WRITE);
            MemorySegment inArena = arena.allocate(64, 64);
            buffer = pool.tryTake();
            objects.put("queue pair", pair);
            objects.put("completion queue", queue);
            objects.put("shared receive queue", shared);
            objects.put("region", region);
            objects.put("window", window);
            objects.put("domain", domain);
            objects.put("adapter", adapter);
            objects.put("pool", pool);
            objects.put("arena", arena);
            objects.put("peer", peer);
            objects.put("peer's completion queue", other);

            BufferList list = new BufferList(1).add(region, 0, 8);
            ends.accepted(pair.bind(1, window, region, 0, 64, READ), 1);
            ends.accepted(pair.write(2, list, Rig.REMOTE, 1, OpFlags.NONE), 2);
            list.clear().add(buffer.region(), buffer.offset(), 8);
            ends.accepted(pair.write(3, list, Rig.REMOTE, 1, OpFlags.NONE), 3);
            list.clear().add(arena.regionOf(inArena), arena.offsetOf(inArena), 8);
            ends.accepted(pair.write(4, list, Rig.REMOTE, 1, OpFlags.DEFER), 4);
            shared.receive(5, new BufferList(1).add(region, 8, 8)).orThrow();
            device.runOne(); // the bind: the window is bound, and its completion was not polled
        }

        /** Closes one after the other, and looks each time. */
        void closeAll(List<String> order) {
            for (String name : order) {
                objects.get(name).close();
                ends.check();
                long context = 100 + ends.silent.size();
                ends.silent.add(context);
                PostResult result =
                        pair.write(
                                context, new BufferList(1), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS);
                assertThat(result.isAccepted() && pair.isClosed()).as("posted").isFalse();
            }
        }

        @Override
        public void close() {
            objects.values().forEach(NativeObject::close);
            buffer.close();
            objects.values().forEach(object -> object.awaitClosed(LONG));
            assertThat(device.panics).isEmpty();
            assertThat(device.overruns).isZero();
            assertThat(device.objects()).as("native objects").isZero();
            memory.close();
            device.dispose();
        }
    }

    /** Flushes arrive at once, and then with a later poll. */
    private static void close(List<String> order) {
        for (int pollsToFlush : new int[] {0, 3}) {
            try (Connection connection = new Connection(null)) {
                connection.device.pollsToFlush = pollsToFlush;
                connection.closeAll(order);
            } catch (RuntimeException | Error e) {
                throw new AssertionError(
                        "Closed in the order %s, flushed with poll %d"
                                .formatted(order, pollsToFlush),
                        e);
            }
        }
    }

    private static void written(Trust.Row row, int orders) {
        row.faults(orders).losses(0).leaks(0).write();
    }

    private static List<String> names(int from, int to) {
        try (Connection connection = new Connection(null)) {
            return List.copyOf(connection.objects.keySet()).subList(from, to);
        }
    }

    @Test
    void ofAConnection() {
        Trust.Row row = Trust.row("orders of closing");
        int orders = Permutations.forEach(names(0, 7), 7, CloseOrderTest::close);
        written(row, orders);
    }

    @Test
    void withMemoryOfAPoolAndAnArena() {
        Trust.Row row = Trust.row("orders of closing, with a pool and an arena");
        int count = Math.min(4 + Explorer.MORE, 9);
        int orders = Permutations.forEach(names(0, 9), count, CloseOrderTest::close);
        written(row, orders);
    }

    /** The callback of the completion queue closes everything, itself included. */
    @Test
    void inACallback() throws Exception {
        Trust.Row row = Trust.row("orders of closing, in a callback");
        List<String> names = names(0, 7);
        int count = Math.min(3 + Explorer.MORE, 7);
        int orders = Permutations.forEach(names, count, CloseOrderTest::closeInCallback);
        written(row, orders);
        Rig.nobodyThrew();
    }

    private static void closeInCallback(List<String> order) {
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        LinkedBlockingQueue<Object> done = new LinkedBlockingQueue<>();
        Connection[] closing = new Connection[1];
        try (Connection connection =
                new Connection(
                        new LinkedBlockingQueue<>() {
                            @Override
                            public boolean add(Status status) {
                                try {
                                    called.add(status);
                                    closing[0].closeAll(order);
                                    done.add("done");
                                } catch (Throwable t) {
                                    done.add(t);
                                }
                                return true;
                            }
                        })) {
            closing[0] = connection;
            connection.queue.arm(NotifyType.ANY);
            connection.device.run();
            assertThat(done.poll(30, TimeUnit.SECONDS)).isEqualTo("done");
        } catch (InterruptedException | RuntimeException | Error e) {
            throw new AssertionError("Closed in a callback in the order " + order, e);
        }
    }

    /** Two threads close the same objects, one of them in the opposite order. */
    @Test
    void byTwoThreads() throws Exception {
        Trust.Row row = Trust.row("orders of closing, by two threads");
        try (ExecutorService other = Executors.newSingleThreadExecutor()) {
            int count = Math.min(4 + Explorer.MORE, 7);
            int orders =
                    Permutations.forEach(names(0, 7), count, order -> closeTwice(order, other));
            written(row, orders);
        }
    }

    private static void closeTwice(List<String> order, ExecutorService other) {
        CyclicBarrier both = new CyclicBarrier(2);
        try (Connection connection = new Connection(null)) {
            Future<?> closing =
                    other.submit(
                            () -> {
                                meet(both);
                                for (String name : order.reversed()) {
                                    connection.objects.get(name).close();
                                }
                            });
            meet(both);
            for (String name : order) {
                connection.objects.get(name).close();
                connection.ends.pollMeanwhile();
            }
            closing.get(30, TimeUnit.SECONDS);
            connection.ends.check();
        } catch (Exception | Error e) {
            throw new AssertionError("Closed by two threads in the order " + order, e);
        }
    }

    private static void meet(CyclicBarrier both) {
        try {
            both.await(30, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    /** What belongs to connectors, which have threads and a peer. */
    private static final class Connectors extends ConnectorRig {
        final Map<String, NativeObject> objects = new LinkedHashMap<>();
        final Ends ends;

        Connectors() throws Exception {
            Connector[] both = connected();
            objects.put("connector", both[0]);
            objects.put("accepted connector", both[1]);
            objects.put("listener", lastListener);
            objects.put("queue pair", near);
            objects.put("completion queue", queue);
            objects.put("adapter", adapter);
            device.running = false;
            BufferList none = new BufferList(1);
            ends = new Ends(queue, near);
            ends.accepted(near.write(1, none, Rig.REMOTE, 1, OpFlags.NONE), 1);
            far.write(2, none, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            ends.silent.add(2L); // the far queue pair is closed last
        }

        void closeAll(List<String> order) throws Exception {
            for (String name : order) {
                objects.get(name).close();
                ends.check();
            }
            close();
            objects.values().forEach(object -> object.awaitClosed(LONG));
        }
    }

    @Test
    void ofConnectors() throws Exception {
        Trust.Row row = Trust.row("orders of closing, with connectors");
        Connectors first = new Connectors();
        List<String> names = List.copyOf(first.objects.keySet());
        first.close();
        int count = Math.min(3 + Explorer.MORE, 6);
        int orders = Permutations.forEach(names, count, CloseOrderTest::closeConnectors);
        written(row, orders);
    }

    private static void closeConnectors(List<String> order) {
        try {
            new Connectors().closeAll(order);
        } catch (Exception | Error e) {
            throw new AssertionError("Closed in the order " + order, e);
        }
    }
}
