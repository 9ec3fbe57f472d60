package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** What queue pairs, completion queues and arenas count: exact values, whatever happens. */
@Timeout(60)
class CountersTest {
    private static final QueuePairLimits LIMITS =
            QueuePairLimits.depths(16, 16).withInlineBytes(64).withMaxDeferred(8);

    private static Rig rig() {
        return Rig.connected(LIMITS);
    }

    private static RequestCounters requests(QueuePair pair) {
        return pair.counters().requests();
    }

    private static RequestCounters receives(QueuePair pair) {
        return pair.counters().receives();
    }

    /** All of a queue's counts in one line, zeros left out. */
    private static String of(RequestCounters counters) {
        StringBuilder text = new StringBuilder();
        add(text, "posted", counters.posted());
        add(text, "bytes", counters.bytes());
        add(text, "outstanding", counters.outstanding());
        add(text, "ended", counters.ended());
        add(text, "failed", counters.failed());
        add(text, "cancelled", counters.cancelled());
        add(text, "refused", counters.refused());
        add(text, "full", counters.refusedAsFull());
        add(text, "internal", counters.internalSignals());
        return text.toString().trim();
    }

    private static String of(CompletionQueueCounters counters) {
        StringBuilder text = new StringBuilder();
        add(text, "delivered", counters.delivered());
        add(text, "failed", counters.failed());
        add(text, "cancelled", counters.cancelled());
        add(text, "synthesized", counters.synthesized());
        add(text, "internal", counters.internalSignals());
        add(text, "kept", counters.kept());
        add(text, "waits", counters.waits());
        add(text, "timeouts", counters.timeouts());
        return text.toString().trim();
    }

    private static void add(StringBuilder text, String name, long count) {
        if (count != 0) {
            text.append(name).append(' ').append(count).append(' ');
        }
    }

    @Test
    void nothingWasCountedAtFirst() {
        try (Rig rig = rig()) {
            assertThat(of(requests(rig.a))).isEmpty();
            assertThat(of(receives(rig.a))).isEmpty();
            assertThat(of(rig.queue.counters())).isEmpty();
        }
    }

    @Test
    void requestsAreOutstandingUntilTheyArePolled() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(100), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.read(2, rig.bytes(20), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(3, rig.bytes(3), Rig.REMOTE, 1, OpFlags.INLINE).orThrow();
            assertThat(of(requests(rig.a))).isEqualTo("posted 3 bytes 123 outstanding 3");
            assertThat(rig.poll()).hasSize(3);
            assertThat(of(requests(rig.a))).isEqualTo("posted 3 bytes 123 ended 3");
            assertThat(of(rig.queue.counters())).isEqualTo("delivered 3");
            assertThat(of(requests(rig.b))).isEmpty();
        }
    }

    @Test
    void messagesAreCountedOnBothSides() {
        try (Rig rig = rig()) {
            for (int i = 0; i < 3; i++) {
                rig.b.receive(i, rig.bytes(64)).orThrow();
            }
            rig.a.send(1, rig.bytes(10)).orThrow();
            rig.a.sendWithImmediate(2, rig.bytes(20), 7, OpFlags.NONE).orThrow(); // not plain
            assertThat(of(receives(rig.b))).isEqualTo("posted 3 outstanding 3");
            assertThat(rig.poll()).hasSize(4);
            assertThat(of(receives(rig.b))).isEqualTo("posted 3 bytes 30 outstanding 1 ended 2");
            assertThat(of(requests(rig.a))).isEqualTo("posted 2 bytes 30 ended 2");
            assertThat(of(rig.queue.counters())).isEqualTo("delivered 4");
        }
    }

    @Test
    void deferredRequestsWerePosted() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
            assertThat(of(requests(rig.a))).isEqualTo("posted 2 bytes 16 outstanding 2");
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.poll()).hasSize(3);
            assertThat(of(requests(rig.a))).isEqualTo("posted 3 bytes 24 ended 3");
        }
    }

    @Test
    void silentRequestsHaveInternalSignals() {
        try (Rig rig = rig()) { // each eighth one has a signal
            for (int i = 0; i < 20; i++) {
                rig.a.write(i, rig.bytes(1), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
            }
            assertThat(rig.poll()).isEmpty();
            // Of the last four nobody knows.
            assertThat(of(requests(rig.a)))
                    .isEqualTo("posted 20 bytes 20 outstanding 4 ended 16 internal 2");
            rig.a.write(20, rig.bytes(1), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.poll()).hasSize(1);
            assertThat(of(requests(rig.a))).isEqualTo("posted 21 bytes 21 ended 21 internal 2");
            assertThat(of(rig.queue.counters())).isEqualTo("delivered 1 internal 2");
        }
    }

    @Test
    void refusedPostsAreNotPosted() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(2, 1))) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            refused(rig.a.receive(2, rig.bytes(8)).status());
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.answer = 22;
            rig.device.refused = 0;
            refused(rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status());
            refused(
                    rig.a
                            .write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.ALLOW_REMOTE_READ)
                            .status());
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            refused(
                    rig.a
                            .write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE)
                            .status()); // polls, and keeps
            refused(rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status());
            assertThat(of(requests(rig.a))).isEqualTo("posted 2 bytes 16 ended 2 refused 4 full 2");
            assertThat(of(receives(rig.a))).isEqualTo("posted 1 outstanding 1 refused 1 full 1");
            assertThat(of(rig.queue.counters())).isEqualTo("kept 2");
            assertThat(rig.poll()).hasSize(2);
            assertThat(of(rig.queue.counters())).isEqualTo("delivered 2 kept 2");
        }
    }

    private static void refused(Status status) {
        assertThat(status).isNotEqualTo(Status.SUCCESS);
    }

    @Test
    void aFailureCancelsWhatIsBehindIt() {
        try (Rig rig = rig()) {
            rig.device.failAt = 1;
            rig.device.failStatus = 10; // IBV_WC_REM_ACCESS_ERR
            rig.a.receive(7, rig.bytes(8)).orThrow();
            for (int i = 0; i < 4; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            }
            assertThat(rig.poll()).hasSize(5);
            assertThat(of(requests(rig.a)))
                    .isEqualTo("posted 4 bytes 32 ended 4 failed 1 cancelled 2");
            assertThat(of(receives(rig.a))).isEqualTo("posted 1 ended 1 cancelled 1");
            assertThat(of(rig.queue.counters())).isEqualTo("delivered 5 failed 1 cancelled 3");
            rig.a.receive(8, rig.bytes(8)).orThrow(); // this library cancels it
            assertThat(rig.poll()).hasSize(1);
            assertThat(of(receives(rig.a))).isEqualTo("posted 2 ended 2 cancelled 2");
            assertThat(of(rig.queue.counters()))
                    .isEqualTo("delivered 6 failed 1 cancelled 4 synthesized 1 kept 1");
        }
    }

    @Test
    void aFlushAndAClosePostRequestsOfTheirOwnThatDoNotCount() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
            rig.a.close();
            assertThat(of(requests(rig.a))).isEqualTo("posted 3 bytes 24 ended 3 cancelled 3");
            assertThat(rig.poll()).hasSize(3);
            assertThat(of(requests(rig.a))).isEqualTo("posted 3 bytes 24 ended 3 cancelled 3");
            assertThat(of(rig.queue.counters())).isEqualTo("delivered 3 cancelled 3 kept 3");
        }
    }

    @Test
    void whatTheProviderRefusesLateIsSynthesized() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
            rig.device.answer = 22;
            rig.device.refused = 1;
            refused(rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status());
            assertThat(rig.poll()).hasSize(2);
            assertThat(of(requests(rig.a)))
                    .isEqualTo("posted 2 bytes 16 ended 2 failed 1 cancelled 1 refused 1");
            assertThat(of(rig.queue.counters()))
                    .isEqualTo("delivered 2 failed 1 cancelled 1 synthesized 1");
        }
    }

    @Test
    void aRefusedRequestThatTheProviderMayHaveKeptWasNotPosted() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.run();
            rig.device.answer = 22;
            rig.device.refused = -1; // bad_wr is NULL
            refused(rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status());
            assertThat(rig.poll()).hasSize(1);
            rig.a.flush();
            assertThat(rig.poll()).isEmpty();
            assertThat(of(requests(rig.a))).isEqualTo("posted 1 bytes 8 ended 1 refused 1");
        }
    }

    /** Sequence numbers wrap around: forty requests after the first one here. */
    @ParameterizedTest
    @ValueSource(ints = {1, 3, 16})
    void countsGoOnWhereSequenceNumbersWrapAround(int depth) {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(depth, depth))) {
            for (int i = 1; i <= 200; i++) {
                rig.b.receive(i, rig.bytes(8)).orThrow();
                rig.a.send(i, rig.bytes(8)).orThrow();
                assertThat(requests(rig.a).posted()).isEqualTo(i);
                assertThat(requests(rig.a).outstanding()).isEqualTo(1);
                assertThat(rig.poll()).hasSize(2);
                assertThat(requests(rig.a).ended()).isEqualTo(i);
                assertThat(receives(rig.b).ended()).isEqualTo(i);
            }
            assertThat(rig.queue.counters().delivered()).isEqualTo(400);
        }
    }

    @Test
    void aQueuePairWithSharedReceivesCountsThoseThatCameToIt() {
        try (Rig rig = new Rig(LIMITS);
                SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(8, 1, s -> {});
                QueuePair c = rig.domain.createQueuePair(rig.queue, rig.queue, shared, LIMITS)) {
            rig.a.connect(c.address());
            c.connect(rig.a.address());
            shared.receive(1, rig.bytes(64)).orThrow();
            shared.receive(2, rig.bytes(64)).orThrow();
            rig.a.send(3, rig.bytes(40)).orThrow();
            assertThat(rig.poll()).hasSize(2);
            refused(c.receive(4, rig.bytes(8)).status());
            assertThat(of(receives(c))).isEqualTo("posted 1 bytes 40 ended 1 refused 1");
        }
    }

    @Test
    void aSharedReceiveQueueCountsItsPosts() {
        SharedReceiveQueue shared;
        try (Rig rig = new Rig(LIMITS);
                SharedReceiveQueue made = rig.domain.createSharedReceiveQueue(2, 1, s -> {});
                QueuePair c = rig.domain.createQueuePair(rig.queue, rig.queue, made, LIMITS)) {
            shared = made;
            rig.a.connect(c.address());
            c.connect(rig.a.address());
            shared.receive(1, rig.bytes(64)).orThrow();
            shared.receive(2, rig.bytes(64)).orThrow();
            refused(shared.receive(3, rig.bytes(64)).status());
            refused(
                    shared.receive(3, new BufferList(2).add(rig.memory, 0, 8).add(rig.memory, 8, 8))
                            .status());
            rig.a.send(3, rig.bytes(40)).orThrow();
            assertThat(rig.poll()).hasSize(2);
            rig.device.refused = 0;
            rig.device.answer = Errno.ENOMEM; // of the provider
            refused(shared.receive(3, rig.bytes(64)).status());
            assertThat(of(shared.counters()))
                    .isEqualTo("posted 2 outstanding 1 ended 1 refused 3 full 1");
        }
        refused(shared.receive(3, new BufferList(1)).status());
        assertThat(shared.counters().posted()).isEqualTo(2);
        assertThat(shared.counters().refused()).isEqualTo(4);
    }

    @Test
    void waitsAndTimeoutsAreCounted() {
        try (Rig rig = rig()) {
            rig.queue.arm(NotifyType.ANY);
            assertThat(rig.queue.await(Duration.ofMillis(1))).isEqualTo(Status.IO_TIMEOUT);
            assertThat(of(rig.queue.counters())).isEqualTo("waits 1 timeouts 1");
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.run();
            assertThat(rig.queue.await(Duration.ofSeconds(30))).isEqualTo(Status.SUCCESS);
            assertThat(rig.queue.counters().waits()).isEqualTo(2);
            assertThat(rig.queue.counters().timeouts()).isEqualTo(1);
            assertThat(rig.poll()).hasSize(1);
        }
    }

    @Test
    void anyThreadMayReadThoseOfConfinedQueues() throws Exception {
        try (Rig rig = Rig.confined(LIMITS)) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.poll()).hasSize(1);
            FutureTask<String> task =
                    new FutureTask<>(() -> of(requests(rig.a)) + "; " + of(rig.queue.counters()));
            Thread.ofPlatform().daemon().start(task);
            assertThat(task.get(30, TimeUnit.SECONDS))
                    .isEqualTo("posted 1 bytes 8 ended 1; delivered 1");
        }
    }

    /** Another thread reads while this one posts: nothing runs backwards, or ends unposted. */
    @Test
    void whatAnotherThreadReadsOnlyGrows() throws Exception {
        try (Rig rig = rig()) {
            FutureTask<Long> reader =
                    new FutureTask<>(
                            () -> {
                                long posted = 0;
                                long ended = 0;
                                while (posted < 20_000) {
                                    RequestCounters now = requests(rig.a);
                                    assertThat(now.posted()).isBetween(posted, 20_000L);
                                    assertThat(now.outstanding()).isBetween(0, 16);
                                    assertThat(now.bytes()).isBetween(8 * ended, 8 * 20_000L);
                                    posted = now.posted();
                                    ended = Math.max(ended, posted - 17);
                                }
                                return posted;
                            });
            Thread.ofPlatform().daemon().start(reader);
            Completions completions = new Completions(16);
            BufferList bytes = rig.bytes(8);
            for (int i = 0; i < 20_000; i++) {
                rig.a.write(i, bytes, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                if (i % 16 == 15) {
                    assertThat(rig.queue.poll(completions)).isEqualTo(16);
                }
            }
            assertThat(reader.get(30, TimeUnit.SECONDS)).isEqualTo(20_000);
            assertThat(requests(rig.a).ended()).isEqualTo(20_000);
        }
    }

    @Test
    void anArenaCountsWhatItAllocatesAndRegisters() {
        try (Rig rig = rig()) {
            RegisteredArena arena = rig.domain.createArena(1 << 16, 1 << 20, Access.LOCAL_WRITE);
            assertThat(arena.counters()).isEqualTo(new RegisteredArena.Counters(0, 0, 0, 0));
            MemorySegment one = arena.allocate(100, 8);
            MemorySegment two = arena.allocate(200, 8);
            assertThat(one.address()).isNotEqualTo(two.address());
            assertThat(arena.counters()).isEqualTo(new RegisteredArena.Counters(2, 300, 1, 65_536));
            assertThat(arena.allocate(100_000, 8).byteSize()).isEqualTo(100_000);
            arena.close();
            RegisteredArena.Counters counters = arena.counters();
            assertThat(counters.allocations()).isEqualTo(3);
            assertThat(counters.allocatedBytes()).isEqualTo(100_300);
            assertThat(counters.registrations()).isEqualTo(2);
            assertThat(counters.registeredBytes()).isEqualTo(165_536);
        }
    }

    @Test
    void aSnapshotHasEachCountInItsPlace() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(2000), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.a.counters())
                    .isEqualTo(
                            new QueuePairCounters(
                                    new RequestCounters(1, 1, 0, 0, 0, 0, 0, 0, 2000),
                                    new RequestCounters(0, 0, 0, 0, 0, 0, 0, 0, 0)));
            assertThat(rig.poll()).hasSize(1);
            assertThat(rig.queue.counters())
                    .isEqualTo(new CompletionQueueCounters(1, 0, 0, 0, 0, 0, 0, 0));
        }
    }
}
