package dev.verbena.nativetest;

import static dev.verbena.nativetest.Checklist.DEFER;
import static dev.verbena.nativetest.Checklist.INLINE;
import static dev.verbena.nativetest.Checklist.RW;
import static dev.verbena.nativetest.Checklist.SILENT;
import static dev.verbena.nativetest.Checklist.assumeWindows;
import static dev.verbena.nativetest.Checklist.limits;
import static dev.verbena.nativetest.Checklist.write;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * NDK's promises, point by point, between two devices: silence, deferral, the ends of chains,
 * inline data, credits. What needs no device (flag values, credits and refusals at each index) is
 * tested in core, on a device that does not exist.
 */
@NeedsDevices
@Timeout(300)
class ChecklistTest {
    @Nested
    class Point03Silence {
        @ParameterizedTest
        @ValueSource(ints = {1, 2, 3, 16})
        void tenTimesTheDepthInSilenceAndOneSignaledIsOneCompletion(int depth) {
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
                int signaled = 0;
                for (int i = 0; i < 100; i++) {
                    // The last is signaled: its completion says that the silent ones are done.
                    boolean silent = random.nextInt(3) == 0 && i < 99;
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
                                case 0, 1 ->
                                        pair.left
                                                .queuePair
                                                .send(i, bytes, flags.and(inline))
                                                .status();
                                case 2 ->
                                        pair.left
                                                .queuePair
                                                .write(
                                                        i,
                                                        bytes,
                                                        at,
                                                        target.remoteToken(),
                                                        flags.and(inline))
                                                .status();
                                case 3 ->
                                        pair.left
                                                .queuePair
                                                .read(
                                                        i,
                                                        new BufferList(1).add(sink, 3000, size),
                                                        at,
                                                        target.remoteToken(),
                                                        flags)
                                                .status();
                                case 4 ->
                                        pair.left
                                                .queuePair
                                                .bind(i, window, sink, 0, 4096, flags.and(RW))
                                                .status();
                                default ->
                                        pair.left.queuePair.invalidate(i, window, flags).status();
                            };
                    ends.add(i + " answers " + status.name());
                    signaled += status == Status.SUCCESS && !silent ? 1 : 0;
                    if (inline == INLINE) {
                        changing.memory().set(ValueLayout.JAVA_BYTE, from, (byte) (i * 7));
                    }
                }
                ends.addAll(pair.left.ends(signaled));
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
                assertThat(
                                pair.left
                                        .queuePair
                                        .send(3, whole(source), OpFlags.ALLOW_REMOTE_READ)
                                        .status())
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
}
