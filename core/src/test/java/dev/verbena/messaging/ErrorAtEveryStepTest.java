package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.UncaughtReports;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/**
 * A service over a fabric in which one native call fails for lack of memory: each of them in turn,
 * with an OutOfMemoryError of its own, or by returning ENOMEM; or a destroy, poll or arm. Whatever
 * it hits, the pollers go on, every future completes, and nothing is left behind, but for what
 * could not be destroyed and what that depends on.
 */
@Tag("trust")
@Timeout(300)
class ErrorAtEveryStepTest {
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(100)
                    .withOutstanding(4)
                    .withReceives(4)
                    .withExposures(2)
                    .withTimeout(Duration.ofSeconds(8));
    private static final Duration BRIEF = Duration.ofSeconds(1);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int MOST_STEPS = 500;
    private static final int MOST_POLLS = 6; // there are as many as one likes

    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();

    /** How a call fails: one that makes or changes something, or one of these verbs. */
    enum Failure {
        ERROR,
        ERRNO,
        DESTROY(
                "ibv_destroy_qp",
                "ibv_destroy_srq",
                "ibv_destroy_cq",
                "ibv_dereg_mr",
                "ibv_dealloc_mw",
                "ibv_dealloc_pd"),
        POLL("ibv_poll_cq"),
        ARM("ibv_req_notify_cq");

        final List<String> verbs;

        Failure(String... verbs) {
            this.verbs = List.of(verbs);
        }

        int most() {
            return this == POLL || this == ARM ? MOST_POLLS : MOST_STEPS;
        }

        /** The calls to fail, group after group. */
        List<Predicate<String>> calls() {
            return verbs.isEmpty()
                    ? List.of(call -> true)
                    : verbs.stream().map(verb -> (Predicate<String>) verb::equals).toList();
        }

        List<String> some() {
            return verbs.isEmpty()
                    ? List.of("createQp", "registerMemory", "connect", "accept", "allocateWindow")
                    : verbs;
        }
    }

    @ParameterizedTest
    @EnumSource
    void pollersGoOnAndEveryWaiterHears(Failure failure) throws Exception {
        Trust.Row row = Trust.row("each native call fails once, " + failure);
        List<String> hit = new ArrayList<>();
        Set<Thread> before = Thread.getAllStackTraces().keySet();
        long longest = 0;
        // Each verb by itself: in which order objects of two kinds are destroyed is a race.
        for (Predicate<String> calls : failure.calls()) {
            for (int step = 0; step < failure.most(); step++) {
                long start = System.nanoTime();
                String failed = run(step, failure, calls);
                longest = Math.max(longest, System.nanoTime() - start);
                if (failed == null) {
                    break; // it was past the last one
                }
                hit.add(failed);
            }
        }
        Until.holds(() -> threadsOfTheLibrary(before) == 0);
        row.faults(hit.size()).longestWait(Duration.ofNanos(longest));
        if (failure != Failure.DESTROY) {
            row.leaks(0); // that no native object and no thread is left was asserted
        }
        row.write();
        assertThat(hit).hasSizeLessThan(MOST_STEPS).containsAll(failure.some());
    }

    private static long threadsOfTheLibrary(Set<Thread> before) {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> !before.contains(thread))
                .filter(thread -> thread.getName().startsWith("verbena-"))
                .count();
    }

    private static String run(int step, Failure failure, Predicate<String> calls) throws Exception {
        AtomicInteger received = new AtomicInteger();
        List<CompletableFuture<?>> futures = new ArrayList<>();
        try (FakeFabric fabric = new FakeFabric()) {
            switch (failure) {
                case ERROR -> fabric.errors.at(step);
                case ERRNO -> fabric.errors.at(step, fabric::refuse);
                default -> fabric.refuseOther(calls, step);
            }
            try (Poller ofServer = Poller.start(fabric.adapter, IdleStrategy.events());
                    Poller ofClient = Poller.start(fabric.adapter, IdleStrategy.events())) {
                try (MessageServer server =
                                MessageServer.listen(
                                        ofServer,
                                        port(7000 + step),
                                        OPTIONS,
                                        4,
                                        (channel, message) -> received.incrementAndGet(),
                                        channel -> {});
                        MemoryRegion region = ofClient.domain().allocate(100, Access.LOCAL_WRITE)) {
                    use(ofClient, server, region, futures);
                    // A poller whose queue is broken has no channels any more.
                    reconnect(ofClient, server, failure == Failure.POLL ? BRIEF : LONG);
                } catch (OutOfMemoryError | VerbenaException injected) {
                    isInjected(injected);
                }
                if (failure != Failure.DESTROY) { // the pollers, too, destroy what they have
                    fabric.refuseNothing();
                }
                isAlive(ofServer);
                isAlive(ofClient);
                for (CompletableFuture<?> future : futures) {
                    assertThat(future.handle((value, thrown) -> "done").get(30, TimeUnit.SECONDS))
                            .isEqualTo("done");
                }
                Until.holds(
                        () -> ofServer.counters().channels() + ofClient.counters().channels() == 0);
            } catch (OutOfMemoryError | VerbenaException injected) {
                isInjected(injected);
            } finally {
                fabric.refuseNothing();
            }
            return fabric.errors.thrown();
        } // asserts that no native object is left
    }

    private static void isInjected(Throwable thrown) {
        if (thrown instanceof OutOfMemoryError) {
            assertThat(thrown).hasMessageStartingWith("injected");
            return;
        }
        StringWriter all = new StringWriter();
        thrown.printStackTrace(new PrintWriter(all)); // with causes
        assertThat(all.toString())
                .containsAnyOf(
                        "ENOMEM",
                        "EBUSY",
                        "EIO",
                        "its completion queue is broken",
                        "its program rejected it");
    }

    private static void use(
            Poller poller,
            MessageServer server,
            MemoryRegion region,
            List<CompletableFuture<?>> futures)
            throws InterruptedException {
        try (MessageChannel channel =
                MessageChannel.connect(poller, server.localAddress(), OPTIONS, null)) {
            futures.add(channel.closed());
            for (int i = 0; i < 10; i++) {
                futures.add(channel.sendAsync(text("message " + i)));
            }
            try (Exposure exposure =
                    channel.ownMemory()
                            .expose(region, OpFlags.ALLOW_REMOTE_READ, Duration.ofSeconds(5))) {
                futures.add(exposure.returned());
                channel.send(text("exposed"), Duration.ofSeconds(20));
            }
        } catch (VerbenaException expected) {
            // It, too, is a way to hear of the failure.
        }
    }

    /** One step that fails for lack of memory ends no client: it tries again. */
    private static void reconnect(Poller poller, MessageServer server, Duration within)
            throws InterruptedException {
        try (MessageClient client =
                MessageClient.start(
                        poller,
                        server.localAddress(),
                        OPTIONS,
                        ReconnectOptions.DEFAULTS,
                        null,
                        channel -> {})) {
            client.channel(within).close();
            client.channel(within).send(text("again"), Duration.ofSeconds(20));
        }
    }

    private static void isAlive(Poller poller) throws InterruptedException {
        CountDownLatch ran = new CountDownLatch(1);
        poller.execute(ran::countDown);
        assertThat(ran.await(30, TimeUnit.SECONDS)).as("the poller runs tasks").isTrue();
    }
}
