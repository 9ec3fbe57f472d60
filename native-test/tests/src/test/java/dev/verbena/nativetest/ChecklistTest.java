package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.internal.verbs.Descriptors;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * NDK's promises, point by point, between two devices. What needs no device (flag values, credits
 * and refusals at each index) is tested in core, on a device that does not exist.
 */
@NeedsDevices
@Timeout(300)
class ChecklistTest {
    private static final OpFlags SILENT = OpFlags.SILENT_SUCCESS;
    private static final OpFlags DEFER = OpFlags.DEFER;
    private static final OpFlags INLINE = OpFlags.INLINE;
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(300);

    private static QueuePairLimits limits(int depth) {
        return QueuePairLimits.depths(depth, depth);
    }

    private static void assumeWindows(Pair pair) {
        assumeTrue(
                pair.right.adapter.info().invalidatableWindows()
                        && pair.left.adapter.info().sendsWithInvalidate(),
                "SKIPPED: the device has no memory windows of type 2");
    }

    /** Writes as fast as the device can: a full queue is no failure. */
    private static void write(
            Pair pair, long context, MemoryRegion source, MemoryRegion target, OpFlags flags) {
        BufferList bytes = whole(source);
        whenThereIsRoom(
                "write " + context,
                () ->
                        pair.left.queuePair.write(
                                context,
                                bytes,
                                target.memory().address(),
                                target.remoteToken(),
                                flags));
    }

    /** Posts again as long as the queue is full of requests that the device has not ended yet. */
    private static void whenThereIsRoom(String what, Supplier<Status> post) {
        Deadline deadline = Deadline.of("room for " + what);
        Status status;
        do {
            deadline.check();
            status = post.get();
        } while (status == Status.NO_MORE_ENTRIES);
        status.orThrow();
    }

    @Nested
    class Point03Silence {
        @ParameterizedTest
        @ValueSource(ints = {1, 2, 3, 16})
        void tenTimesTheDepthInSilenceAndOneLoudIsOneCompletion(int depth) {
            try (Pair pair = new Pair(limits(depth)).connect()) {
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                for (int i = 0; i < 10 * depth; i++) {
                    write(pair, i, source, target, SILENT);
                }
                write(pair, -1, source, target, OpFlags.NONE);
                assertThat(pair.left.ends(1)).containsExactly("WRITE -1 SUCCESS");
                assertThat(pair.left.endsNow()).isEmpty();
                assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
            }
        }

        @Test
        void oneFailingSilentRequestIsReported() {
            try (Pair pair = new Pair(limits(4)).connect()) {
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                pair.left
                        .queuePair
                        .write(1, whole(source), 0, ~target.remoteToken(), SILENT)
                        .orThrow();
                var _ =
                        pair.left.queuePair.write(
                                2,
                                whole(source),
                                target.memory().address(),
                                target.remoteToken(),
                                SILENT);
                assertThat(pair.left.ends(2))
                        .containsExactly("WRITE 1 ACCESS_VIOLATION", "WRITE 2 CANCELLED");
            }
        }
    }

    @Nested
    class Point04DeferralOnAndOff {
        /**
         * The same random program with deferral and without: the same completions, and the same
         * bytes at the other end.
         */
        @ParameterizedTest(name = "seed {0}")
        @ValueSource(longs = {1, 2, 3, 20261120})
        void randomProgramsHaveTheSameEnds(long seed) {
            List<String> deferred = run(seed, 64);
            assertThat(run(seed, 0)).as("seed %d", seed).isEqualTo(deferred);
        }

        private List<String> run(long seed, int maxDeferred) {
            Random random = new Random(seed);
            List<String> ends = new ArrayList<>();
            try (Pair pair =
                    new Pair(
                                    QueuePairLimits.depths(128, 128)
                                            .withBuffers(2, 1)
                                            .withInlineBytes(64)
                                            .withMaxDeferred(maxDeferred))
                            .connect()) {
                assumeWindows(pair);
                // What travels inline may change at once, the rest not before its completion.
                MemoryRegion steady = pair.left.filled(4096, 1);
                MemoryRegion changing = pair.left.filled(4096, 4);
                MemoryRegion sink = pair.left.filled(4096, 5);
                MemoryRegion target = pair.right.filled(4096, 2);
                MemoryRegion inbox = pair.right.filled(128 * 64L, 3);
                MemoryWindow window = pair.left.domain.createMemoryWindow();
                for (int i = 0; i < 100; i++) {
                    pair.right
                            .queuePair
                            .receive(i, new BufferList(1).add(inbox, i * 64L, 64))
                            .orThrow();
                }
                long base = target.memory().address();
                int loud = 0;
                for (int i = 0; i < 100; i++) {
                    boolean silent = random.nextInt(3) == 0;
                    OpFlags flags =
                            (silent ? SILENT : OpFlags.NONE)
                                    .and(random.nextInt(3) > 0 && i < 99 ? DEFER : OpFlags.NONE)
                                    .and(
                                            random.nextInt(4) == 0
                                                    ? OpFlags.READ_FENCE
                                                    : OpFlags.NONE);
                    OpFlags inline = random.nextBoolean() ? INLINE : OpFlags.NONE;
                    MemoryRegion source = inline == INLINE ? changing : steady;
                    int size = random.nextInt(33);
                    int from = random.nextInt(1000);
                    BufferList bytes =
                            new BufferList(2).add(source, from, size).add(source, 2000, size / 2);
                    long at = base + random.nextInt(4000);
                    Status status =
                            switch (random.nextInt(6)) {
                                case 0, 1 -> pair.left.queuePair.send(i, bytes, flags.and(inline));
                                case 2 ->
                                        pair.left.queuePair.write(
                                                i,
                                                bytes,
                                                at,
                                                target.remoteToken(),
                                                flags.and(inline));
                                case 3 ->
                                        pair.left.queuePair.read(
                                                i,
                                                new BufferList(1).add(sink, 3000, size),
                                                at,
                                                target.remoteToken(),
                                                flags);
                                case 4 ->
                                        pair.left.queuePair.bind(
                                                i, window, sink, 0, 4096, flags.and(RW));
                                default -> pair.left.queuePair.invalidate(i, window, flags);
                            };
                    ends.add(i + " answers " + status.name());
                    loud += status == Status.SUCCESS && !silent ? 1 : 0;
                    if (inline == INLINE) {
                        changing.memory().set(ValueLayout.JAVA_BYTE, from, (byte) (i * 7));
                    }
                }
                ends.addAll(pair.left.ends(loud));
                pair.left.queuePair.flush();
                assertThat(pair.left.endsNow()).isEmpty();
                pair.left.queuePair.close();
                window.close();
                assertThat(pair.left.endsNow()).isEmpty();
                ends.add(hash(target) + " " + hash(inbox));
            }
            return ends;
        }

        private static long hash(MemoryRegion region) {
            long hash = 7;
            for (long i = 0; i < region.memory().byteSize(); i++) {
                hash = hash * 31 + region.memory().get(ValueLayout.JAVA_BYTE, i);
            }
            return hash;
        }
    }

    @Nested
    class Point05EndsOfChains {
        private void defer(Pair pair, MemoryRegion source, MemoryRegion target, int... contexts) {
            for (int context : contexts) {
                pair.left
                        .queuePair
                        .write(
                                context,
                                whole(source),
                                target.memory().address(),
                                target.remoteToken(),
                                DEFER)
                        .orThrow();
            }
        }

        @Test
        void anInlineFailureSendsTheChainOff() {
            try (Pair pair = new Pair(limits(8)).connect()) {
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                defer(pair, source, target, 1, 2);
                assertThat(pair.left.endsNow()).isEmpty();
                assertThat(pair.left.queuePair.send(3, whole(source), OpFlags.ALLOW_REMOTE_READ))
                        .isEqualTo(Status.INVALID_PARAMETER);
                assertThat(pair.left.ends(2)).containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
                assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
            }
        }

        @Test
        void aFlushEndsEachOnce() {
            try (Pair pair = new Pair(limits(8)).connect()) {
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                defer(pair, source, target, 1, 2, 3);
                pair.left.queuePair.flush();
                List<String> ends = pair.left.ends(3);
                for (int i = 0; i < 3; i++) { // some may have been fast enough
                    assertThat(ends.get(i))
                            .isIn(
                                    "WRITE " + (i + 1) + " CANCELLED",
                                    "WRITE " + (i + 1) + " SUCCESS");
                }
                pair.left.queuePair.close();
                assertThat(pair.left.endsNow()).isEmpty();
            }
        }

        @Test
        void aCloseEndsEachOnce() {
            try (Pair pair = new Pair(limits(8)).connect()) {
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                defer(pair, source, target, 1, 2, 3);
                pair.left.queuePair.close();
                List<String> ends = pair.left.endsNow();
                assertThat(ends).hasSize(3);
                for (int i = 0; i < 3; i++) {
                    assertThat(ends.get(i)).startsWith("WRITE " + (i + 1) + " ");
                }
            }
        }
    }

    @Nested
    class Point06Inline {
        private static final QueuePairLimits ONE_BUFFER = limits(8).withInlineBytes(128);

        @ParameterizedTest
        @ValueSource(booleans = {false, true})
        void eightUnregisteredBuffersAreCopiedByTheCall(boolean deferred) {
            try (Pair pair = new Pair(ONE_BUFFER).connect()) {
                MemoryRegion inbox = pair.right.filled(128, 9);
                MemorySegment unregistered = pair.left.arena.allocate(80);
                Pair.fill(unregistered, 5);
                byte[] expected = unregistered.toArray(ValueLayout.JAVA_BYTE);
                BufferList eight = new BufferList(8);
                for (int i = 0; i < 8; i++) {
                    eight.addUnregistered(unregistered.asSlice(i * 10L, 10));
                }
                pair.right.queuePair.receive(1, whole(inbox)).orThrow();
                pair.left.queuePair.send(2, eight, deferred ? INLINE.and(DEFER) : INLINE).orThrow();
                unregistered.fill((byte) 0); // the call has returned
                eight.clear();
                if (deferred) {
                    pair.right.queuePair.receive(3, whole(inbox)).orThrow();
                    pair.left.queuePair.send(4, new BufferList(1)).orThrow();
                }
                Completions received = pair.right.completion();
                assertThat(received.bytes(0)).isEqualTo(80);
                assertThat(inbox.memory().asSlice(0, 80).toArray(ValueLayout.JAVA_BYTE))
                        .isEqualTo(expected);
            }
        }

        @Test
        void aWriteCarriesBytesInline() {
            try (Pair pair = new Pair(ONE_BUFFER).connect()) {
                MemoryRegion target = pair.right.filled(64, 9);
                MemorySegment unregistered = pair.left.arena.allocate(64);
                Pair.fill(unregistered, 5);
                byte[] expected = unregistered.toArray(ValueLayout.JAVA_BYTE);
                pair.left
                        .queuePair
                        .write(
                                1,
                                new BufferList(1).addUnregistered(unregistered),
                                target.memory().address(),
                                target.remoteToken(),
                                INLINE)
                        .orThrow();
                unregistered.fill((byte) 0);
                assertThat(pair.left.ends(1)).containsExactly("WRITE 1 SUCCESS");
                assertThat(target.memory().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(expected);
            }
        }
    }

    @Nested
    class Point07WindowLife {
        @Test
        void fromBindToBind() {
            try (Pair pair = new Pair(limits(16)).connect()) {
                assumeWindows(pair);
                MemoryRegion target = pair.right.filled(256, 1);
                MemoryRegion source = pair.left.filled(256, 2);
                MemoryWindow window = pair.right.domain.createMemoryWindow();
                long at = target.memory().address();

                // The token travels in a message behind its bind, without waiting.
                MemoryRegion letter = pair.right.filled(8, 0);
                MemoryRegion inbox = pair.left.filled(8, 0);
                pair.left.queuePair.receive(1, whole(inbox)).orThrow();
                pair.right.queuePair.bind(2, window, target, 0, 128, RW.and(SILENT)).orThrow();
                letter.memory().set(ValueLayout.JAVA_INT, 0, window.remoteToken());
                pair.right.queuePair.send(3, whole(letter)).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("RECEIVE 1 SUCCESS");
                int token = inbox.memory().get(ValueLayout.JAVA_INT, 0);
                assertThat(token).isEqualTo(window.remoteToken());

                BufferList half = new BufferList(1).add(source, 0, 64);
                pair.left.queuePair.write(4, half, at, token, OpFlags.NONE).orThrow();
                pair.left
                        .queuePair
                        .read(5, new BufferList(1).add(source, 128, 64), at, token, OpFlags.NONE)
                        .orThrow();
                assertThat(pair.left.ends(2)).containsExactly("WRITE 4 SUCCESS", "READ 5 SUCCESS");
                assertThat(
                                source.memory()
                                        .asSlice(128, 64)
                                        .mismatch(source.memory().asSlice(0, 64)))
                        .isEqualTo(-1);

                // Rebinding takes an invalidate; both go in one chain. The second invalidate is
                // refused before it can reach the kernel.
                assertThat(pair.right.ends(1)).containsExactly("SEND 3 SUCCESS");
                assertThat(pair.right.queuePair.bind(6, window, target, 0, 128, RW))
                        .isEqualTo(Status.INVALID_DEVICE_REQUEST);
                pair.right.queuePair.invalidate(7, window, DEFER).orThrow();
                assertThat(pair.right.queuePair.invalidate(8, window, OpFlags.NONE))
                        .isEqualTo(Status.INVALID_DEVICE_REQUEST);
                pair.right.queuePair.bind(9, window, target, 64, 64, RW).orThrow();
                assertThat(pair.right.ends(2))
                        .containsExactly("INVALIDATE 7 SUCCESS", "BIND 9 SUCCESS");
                int second = window.remoteToken();
                assertThat(second).isNotEqualTo(token);
                assertThat(second >>> 8).isEqualTo(token >>> 8);
                pair.left.queuePair.write(10, half, at + 64, second, OpFlags.NONE).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("WRITE 10 SUCCESS");

                // The stale token, last: it ends the connection.
                pair.left.queuePair.read(11, half, at, token, OpFlags.NONE).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("READ 11 ACCESS_VIOLATION");
                window.close();
            }
        }

        @Test
        void thePeerInvalidatesWithASend() {
            try (Pair pair = new Pair(limits(16)).connect()) {
                assumeWindows(pair);
                MemoryRegion target = pair.right.filled(64, 1);
                MemoryRegion source = pair.left.filled(64, 2);
                try (MemoryWindow window = pair.right.domain.createMemoryWindow()) {
                    for (int round = 0; round < 3; round++) {
                        pair.right.queuePair.bind(1, window, target, 0, 64, RW).orThrow();
                        assertThat(pair.right.ends(1)).containsExactly("BIND 1 SUCCESS");
                        int token = window.remoteToken();
                        long at = target.memory().address();
                        pair.left.queuePair.write(2, whole(source), at, token, SILENT).orThrow();
                        pair.right.queuePair.receive(3, whole(target)).orThrow();
                        BufferList part = new BufferList(1).add(source, 0, 24);
                        pair.left
                                .queuePair
                                .sendAndInvalidate(4, part, token, OpFlags.NONE)
                                .orThrow();
                        assertThat(pair.left.ends(1)).containsExactly("SEND 4 SUCCESS");
                        Completions received = pair.right.completion();
                        assertThat(received.type(0))
                                .isEqualTo(OperationType.RECEIVE_AND_INVALIDATE);
                        assertThat(received.invalidatedToken(0)).isEqualTo(token);
                        assertThat(received.bytes(0)).isEqualTo(24);
                        assertThat(window.bound()).isFalse();
                        assertThat(pair.right.queuePair.invalidate(5, window, OpFlags.NONE))
                                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
                    }
                    // Nobody reads through it any more.
                    pair.left
                            .queuePair
                            .read(
                                    6,
                                    whole(source),
                                    target.memory().address(),
                                    window.remoteToken(),
                                    OpFlags.NONE)
                            .orThrow();
                    assertThat(pair.left.ends(1)).containsExactly("READ 6 ACCESS_VIOLATION");
                }
            }
        }

        @Test
        void moreBindsThanATokenHasGenerations() {
            try (Pair pair = new Pair(limits(64)).connect()) {
                assumeWindows(pair);
                MemoryRegion target = pair.right.filled(64, 1);
                MemoryRegion source = pair.left.filled(64, 2);
                try (MemoryWindow window = pair.right.domain.createMemoryWindow()) {
                    List<Integer> tokens = new ArrayList<>();
                    for (int i = 0; i < 270; i++) {
                        int context = i;
                        whenThereIsRoom(
                                "bind " + i,
                                () ->
                                        pair.right.queuePair.bind(
                                                context, window, target, 0, 64, RW.and(SILENT)));
                        tokens.add(window.remoteToken());
                        if (i % 90 == 89) {
                            whenThereIsRoom(
                                    "send " + i,
                                    () -> pair.right.queuePair.send(context, new BufferList(1)));
                            pair.left.queuePair.receive(i, whole(source)).orThrow();
                            assertThat(pair.right.ends(1))
                                    .containsExactly("SEND " + i + " SUCCESS");
                            pair.left.ends(1);
                            pair.left
                                    .queuePair
                                    .write(
                                            i,
                                            whole(source),
                                            target.memory().address(),
                                            window.remoteToken(),
                                            OpFlags.NONE)
                                    .orThrow();
                            assertThat(pair.left.ends(1))
                                    .containsExactly("WRITE " + i + " SUCCESS");
                        }
                        whenThereIsRoom(
                                "invalidate " + i,
                                () -> pair.right.queuePair.invalidate(context, window, SILENT));
                    }
                    assertThat(tokens).doesNotHaveDuplicates();
                    assertThat(pair.right.endsNow()).isEmpty();
                    // No slot was lost: once all has ended, the queue takes as many as at first.
                    whenThereIsRoom(
                            "the last send",
                            () -> pair.right.queuePair.send(270, new BufferList(1)));
                    pair.left.queuePair.receive(270, whole(source)).orThrow();
                    assertThat(pair.right.ends(1)).containsExactly("SEND 270 SUCCESS");
                    for (int i = 0; i < 64; i++) {
                        pair.right
                                .queuePair
                                .write(
                                        i,
                                        whole(target),
                                        source.memory().address(),
                                        source.remoteToken(),
                                        SILENT)
                                .orThrow();
                    }
                }
            }
        }
    }

    @Nested
    class Point08FreedByPolling {
        @Test
        void aPolledInvalidationFreesTheWindowForTheNextBind() {
            try (Pair pair = new Pair(limits(8)).connect()) {
                assumeWindows(pair);
                MemoryRegion target = pair.right.filled(64, 1);
                try (MemoryWindow window = pair.right.domain.createMemoryWindow()) {
                    pair.right.queuePair.bind(1, window, target, 0, 64, RW).orThrow();
                    pair.right.queuePair.receive(2, whole(target)).orThrow();
                    assertThat(pair.right.ends(1)).containsExactly("BIND 1 SUCCESS");
                    pair.left
                            .queuePair
                            .sendAndInvalidate(
                                    3, new BufferList(1), window.remoteToken(), OpFlags.NONE)
                            .orThrow();
                    assertThat(pair.right.ends(1))
                            .containsExactly("RECEIVE_AND_INVALIDATE 2 SUCCESS");
                    pair.right.queuePair.bind(4, window, target, 0, 64, RW).orThrow();
                    assertThat(pair.right.ends(1)).containsExactly("BIND 4 SUCCESS");
                }
            }
        }
    }

    @Nested
    class Point09Arming {
        private final List<OpFlags> sent = new ArrayList<>();

        private void message(Pair pair, OpFlags flags) {
            pair.right.queuePair.receive(1, new BufferList(1)).orThrow();
            pair.left.queuePair.send(sent.size(), new BufferList(1), flags).orThrow();
            sent.add(flags);
            pair.left.ends(1); // it has been received then
        }

        @ParameterizedTest
        @CsvSource({"0,0", "0,1", "0,2", "1,0", "1,1", "1,2", "2,0", "2,1", "2,2"})
        void theNineCombinations(int first, int second) {
            try (Pair pair = new Pair(limits(16)).connect()) {
                pair.right.completionQueue.arm(NotifyType.values()[first]);
                pair.right.completionQueue.arm(NotifyType.values()[second]);
                boolean any = first == 1 || second == 1;
                boolean solicited = first == 2 || second == 2;
                message(pair, OpFlags.NONE);
                assertThat(pair.right.completionQueue.await(any ? LONG : SHORT))
                        .isEqualTo(any ? Status.SUCCESS : Status.IO_TIMEOUT);
                if (!any) {
                    message(pair, OpFlags.SEND_AND_SOLICIT_EVENT);
                    assertThat(pair.right.completionQueue.await(solicited ? LONG : SHORT))
                            .isEqualTo(solicited ? Status.SUCCESS : Status.IO_TIMEOUT);
                }
            }
        }

        @Test
        void whatWasThereUnseenFiresAtOnceAndWhatWasSeenDoesNot() {
            try (Pair pair = new Pair(limits(16)).connect()) {
                message(pair, OpFlags.NONE);
                assertThat(pair.right.completionQueue.arm(NotifyType.ANY)).isTrue();
                assertThat(pair.right.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pair.right.completionQueue.arm(NotifyType.ANY)).isFalse();
                assertThat(pair.right.completionQueue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
                message(pair, OpFlags.NONE);
                assertThat(pair.right.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pair.right.endsNow()).hasSize(2);
            }
        }

        @Test
        void thisLayersOwnSignalsWakeNobody() {
            try (Pair pair = new Pair(limits(2)).connect()) { // every silent request is signaled
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                pair.left.completionQueue.arm(NotifyType.ANY);
                for (int i = 0; i < 20; i++) {
                    write(pair, i, source, target, SILENT);
                }
                assertThat(pair.left.completionQueue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
                write(pair, 99, source, target, OpFlags.NONE);
                assertThat(pair.left.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pair.left.endsNow()).containsExactly("WRITE 99 SUCCESS");
            }
        }

        @Test
        void aFailingSendWakesUnderSolicited() {
            try (Pair pair = new Pair(limits(4)).connect()) {
                MemoryRegion gone = pair.left.memory(8);
                BufferList list = whole(gone);
                gone.close(); // its token is bad from here on
                pair.left.completionQueue.arm(NotifyType.SOLICITED);
                pair.left.queuePair.send(1, list).orThrow();
                assertThat(pair.left.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                Completions failed = pair.left.completion();
                assertThat(failed.status(0))
                        // Soft-RoCE from Linux 6.4 on says that it was flushed.
                        .isIn(Status.ACCESS_VIOLATION, Status.CANCELLED);
                assertThat(failed.providerCode(0)).isNotZero();
            }
        }

        /** Its message is too long. */
        @ParameterizedTest
        @EnumSource(Wait.class)
        void aFailingReceiveWakesUnderSolicited(Wait wait) throws InterruptedException {
            LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
            try (Pair pair = armed(wait, called)) {
                pair.right.queuePair.receive(1, whole(pair.right.memory(4))).orThrow();
                pair.left.queuePair.send(2, whole(pair.left.filled(8, 1))).orThrow();
                assertThat(wait.forFiring(pair, called)).isEqualTo(Status.SUCCESS);
                assertThat(pair.right.ends(1)).containsExactly("RECEIVE 1 BUFFER_OVERFLOW");
            }
        }

        /** The peer's mistake flushes them, or this side itself. */
        @ParameterizedTest
        @EnumSource(Wait.class)
        void flushedReceivesWakeUnderSolicited(Wait wait) throws InterruptedException {
            for (boolean byThePeer : new boolean[] {true, false}) {
                LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
                try (Pair pair = armed(wait, called)) {
                    pair.right.queuePair.receive(1, whole(pair.right.memory(8))).orThrow();
                    pair.right.queuePair.receive(2, whole(pair.right.memory(8))).orThrow();
                    if (byThePeer) {
                        MemoryRegion target = pair.right.filled(8, 2);
                        long at = target.memory().address();
                        pair.left
                                .queuePair
                                .write(
                                        3,
                                        whole(pair.left.filled(8, 1)),
                                        at,
                                        target.remoteToken() ^ 0x5500,
                                        OpFlags.NONE)
                                .orThrow();
                    } else {
                        pair.right.queuePair.flush();
                    }
                    assertThat(wait.forFiring(pair, called)).isEqualTo(Status.SUCCESS);
                    assertThat(pair.right.ends(2))
                            .containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
                }
            }
        }

        /** How a consumer may wait. */
        private enum Wait {
            AWAIT,
            CALLBACK,
            OWN_LOOP;

            Status forFiring(Pair pair, LinkedBlockingQueue<Status> called)
                    throws InterruptedException {
                return switch (this) {
                    case AWAIT -> pair.right.completionQueue.await(LONG);
                    case CALLBACK -> called.poll(30, TimeUnit.SECONDS);
                    case OWN_LOOP -> {
                        CompletionQueue queue = pair.right.completionQueue;
                        Deadline deadline = Deadline.of("event at the descriptor");
                        Status taken = Status.PENDING;
                        while (taken == Status.PENDING) {
                            deadline.check();
                            if (Descriptors.await(1000, queue.eventDescriptor()) != 0) {
                                taken = queue.takeEvent(); // not before: it would look by itself
                            }
                        }
                        yield taken;
                    }
                };
            }
        }

        private static Pair armed(Wait wait, LinkedBlockingQueue<Status> called) {
            Pair pair = new Pair(limits(8), wait == Wait.CALLBACK ? called::add : null).connect();
            if (wait == Wait.OWN_LOOP) {
                assertThat(pair.right.completionQueue.eventDescriptor()).isNotNegative();
            }
            assertThat(pair.right.completionQueue.arm(NotifyType.SOLICITED)).isFalse();
            return pair;
        }

        @Test
        void aCallbackComesOncePerArm() throws InterruptedException {
            LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
            try (Pair pair = new Pair(limits(16), called::add).connect()) {
                for (int i = 0; i < 5; i++) {
                    pair.right.completionQueue.arm(NotifyType.ANY);
                    pair.right.completionQueue.arm(NotifyType.SOLICITED);
                    message(pair, i % 2 == 0 ? OpFlags.NONE : OpFlags.SEND_AND_SOLICIT_EVENT);
                    assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
                    message(pair, OpFlags.NONE);
                    assertThat(pair.right.endsNow()).hasSize(2);
                }
            }
            assertThat(called).isEmpty(); // none after the close, and none too many before
        }
    }

    @Nested
    class Point10Flush {
        @Test
        void aQueuePairThatNeverConnected() {
            try (Pair pair = new Pair(limits(4))) {
                MemoryRegion memory = pair.left.memory(8);
                pair.left.queuePair.receive(1, whole(memory)).orThrow();
                pair.left.queuePair.receive(2, whole(memory)).orThrow();
                pair.left.queuePair.flush();
                assertThat(pair.left.ends(2))
                        .containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
                pair.left.queuePair.receive(3, whole(memory)).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("RECEIVE 3 CANCELLED");
            }
        }

        @Test
        void silentAndDeferredRequestsAppearToo() {
            try (Pair pair = new Pair(limits(16)).connect()) {
                MemoryRegion memory = pair.left.filled(8, 1);
                for (int i = 0; i < 4; i++) {
                    pair.left.queuePair.receive(i, whole(memory)).orThrow();
                }
                // Nobody has a receive for the first, so all of these are outstanding.
                pair.left.queuePair.send(10, whole(memory), SILENT).orThrow();
                pair.left.queuePair.send(11, whole(memory)).orThrow();
                pair.left.queuePair.send(12, whole(memory), SILENT).orThrow();
                pair.left.queuePair.send(13, whole(memory), DEFER).orThrow();
                pair.left.queuePair.send(14, whole(memory), DEFER.and(SILENT)).orThrow();
                pair.left.queuePair.flush();
                assertThat(pair.left.ends(9))
                        .containsExactlyInAnyOrder(
                                "RECEIVE 0 CANCELLED",
                                "RECEIVE 1 CANCELLED",
                                "RECEIVE 2 CANCELLED",
                                "RECEIVE 3 CANCELLED",
                                "SEND 10 CANCELLED",
                                "SEND 11 CANCELLED",
                                "SEND 12 CANCELLED",
                                "SEND 13 CANCELLED",
                                "SEND 14 CANCELLED");
                assertThat(pair.left.queuePair.send(15, whole(memory)))
                        .isEqualTo(Status.CONNECTION_INVALID);
                pair.left.queuePair.close();
                assertThat(pair.left.endsNow()).isEmpty();
            }
        }

        @Test
        void besidePosts() throws InterruptedException {
            for (int round = 0; round < 5; round++) {
                try (Pair pair = new Pair(limits(16)).connect()) {
                    MemoryRegion source = pair.left.filled(8, 1);
                    MemoryRegion target = pair.right.filled(8, 2);
                    CountDownLatch started = new CountDownLatch(1);
                    AtomicReference<List<String>> accepted = new AtomicReference<>();
                    Thread poster =
                            Thread.ofPlatform()
                                    .start(
                                            () ->
                                                    accepted.set(
                                                            postUntilRefused(
                                                                    pair, source, target,
                                                                    started)));
                    started.await();
                    List<String> ends = new ArrayList<>(pair.left.endsNow());
                    pair.left.queuePair.flush();
                    Deadline deadline = Deadline.of("end of the poster");
                    while (poster.isAlive()) {
                        deadline.check();
                        ends.addAll(pair.left.endsNow());
                    }
                    poster.join();
                    pair.left.queuePair.close();
                    ends.addAll(pair.left.endsNow());
                    assertThat(ends.stream().map(e -> e.substring(0, e.lastIndexOf(' '))))
                            .containsExactlyElementsOf(accepted.get());
                }
            }
        }

        private static List<String> postUntilRefused(
                Pair pair, MemoryRegion source, MemoryRegion target, CountDownLatch started) {
            List<String> accepted = new ArrayList<>();
            BufferList list = whole(source);
            Deadline deadline = Deadline.of("end of posting after the flush");
            Status status;
            do {
                deadline.check();
                OpFlags flags = accepted.size() % 3 == 1 ? DEFER : OpFlags.NONE;
                status =
                        pair.left.queuePair.write(
                                accepted.size(),
                                list,
                                target.memory().address(),
                                target.remoteToken(),
                                flags);
                if (status == Status.SUCCESS) {
                    accepted.add("WRITE " + accepted.size());
                }
                started.countDown();
            } while (status == Status.SUCCESS || status == Status.NO_MORE_ENTRIES);
            return accepted;
        }
    }

    @Nested
    class Point12Closing {
        @Test
        void insideACallback() throws InterruptedException {
            AtomicReference<Pair> all = new AtomicReference<>();
            LinkedBlockingQueue<String> done = new LinkedBlockingQueue<>();
            Pair pair =
                    new Pair(
                                    limits(4),
                                    status -> {
                                        all.get().right.close();
                                        done.add("closed");
                                    })
                            .connect();
            all.set(pair);
            MemoryRegion inbox = pair.right.memory(8, Access.LOCAL_WRITE);
            pair.right.queuePair.receive(1, whole(inbox)).orThrow();
            pair.right.completionQueue.arm(NotifyType.ANY);
            pair.left.queuePair.send(2, new BufferList(1)).orThrow();
            assertThat(done.poll(30, TimeUnit.SECONDS)).isEqualTo("closed");
            pair.left.close();
        }
    }
}
