package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.CompletionQueue;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.UncaughtReports;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * The public API in random order from several threads, on open, closing and closed objects: each
 * call ends in a result or a documented exception, and in the end nothing is left. One thread does
 * the same for the same seed; with several, the seed decides what each draws, and the machine which
 * objects there are.
 */
@Tag("trust")
@Timeout(3600)
class RandomCallsTest {
    private static final int CALLS = Trust.size(400, 2_000); // of all threads in one world
    private static final int WORLDS = Trust.size(10, 100);
    private static final Duration MOST = Duration.ofSeconds(120);
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS.withMaxMessage(200).withReceives(4).withOutstanding(4);

    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();

    private final Set<String> called = new HashSet<>();
    private final List<String> wrong = new CopyOnWriteArrayList<>();

    @ParameterizedTest
    @ValueSource(ints = {1, 4})
    void eachCallEndsInADocumentedWay(int threads) throws Exception {
        long seed = Trust.seed();
        Trust.Row row = Trust.row("random calls, %d threads".formatted(threads)).seed(seed);
        for (int world = 0; world < WORLDS && wrong.isEmpty(); world++) {
            try {
                run(threads, seed + world);
            } catch (Throwable t) {
                throw new AssertionError("seed %d, world %d".formatted(seed, world), t);
            }
        }
        row.inputs((long) WORLDS * CALLS).losses(wrong.size()).leaks(0).write();
        System.out.printf("Random calls of %d methods%n", called.size());
        assertThat(wrong).as("seed %d", seed).isEmpty();
        assertThat(called).as("methods").hasSizeGreaterThan(150);
    }

    private void run(int threads, long seed) throws InterruptedException {
        RandomCalls calls = new RandomCalls(wrong);
        try (FakeFabric fabric = new FakeFabric();
                Poller far = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller near = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                far, port(7480), OPTIONS, 9, EACH_MESSAGE, calls::kept)) {
            calls.root(fabric.adapter);
            calls.root(far);
            calls.root(near);
            calls.root(server);
            calls.kept(MessageChannel.connect(near, port(7480), OPTIONS, null));
            ProtectionDomain domain = fabric.adapter.createProtectionDomain();
            CompletionQueue queue = fabric.adapter.createCompletionQueue(64);
            QueuePair a = domain.createQueuePair(queue, queue, QueuePairLimits.depths(8, 8));
            QueuePair b = domain.createQueuePair(queue, queue, QueuePairLimits.depths(8, 8));
            a.connect(b.address());
            b.connect(a.address());
            for (Object one :
                    List.of(domain, queue, a, b, domain.allocate(100, Access.REMOTE_WRITE))) {
                calls.kept(one);
            }
            calls.kept(domain.createMemoryWindow());
            calls.kept(
                    MessageClient.start(
                            near,
                            port(7480),
                            OPTIONS,
                            ReconnectOptions.DEFAULTS,
                            EACH_MESSAGE,
                            calls::kept));
            List<Thread> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                Random random = new Random(seed + i);
                running.add(
                        Thread.ofPlatform()
                                .name("caller " + i)
                                .start(() -> calls.run(random, CALLS / threads)));
            }
            for (Thread thread : running) {
                if (!thread.join(MOST)) {
                    wrong.add("hangs: " + List.of(thread.getStackTrace()));
                    thread.interrupt();
                }
            }
            calls.closeAll();
            called.addAll(calls.called());
            fabric.device.overruns = 0; // queues of any depth get queue pairs of any depths
        } // asserts that no native object is left
    }

    private static final MessageHandler EACH_MESSAGE = (channel, message) -> {};
}
