package dev.verbena.nativetest;

import static dev.verbena.nativetest.Checklist.DEFER;
import static dev.verbena.nativetest.Checklist.RW;
import static dev.verbena.nativetest.Checklist.SILENT;
import static dev.verbena.nativetest.Checklist.assumeWindows;
import static dev.verbena.nativetest.Checklist.limits;
import static dev.verbena.nativetest.Checklist.whenThereIsRoom;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.Status;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/**
 * NDK's promises, point by point, between two devices: the life of a window. What needs no device
 * (flag values, credits and refusals at each index) is tested in core, on a device that does not
 * exist.
 */
@NeedsDevices
@Timeout(300)
class ChecklistWindowsTest {
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
                assertThat(pair.right.queuePair.bind(6, window, target, 0, 128, RW).status())
                        .isEqualTo(Status.INVALID_DEVICE_REQUEST);
                pair.right.queuePair.invalidate(7, window, DEFER).orThrow();
                assertThat(pair.right.queuePair.invalidate(8, window, OpFlags.NONE).status())
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
                        assertThat(
                                        pair.right
                                                .queuePair
                                                .invalidate(5, window, OpFlags.NONE)
                                                .status())
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
}
