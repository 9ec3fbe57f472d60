package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.fill;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Memory that a peer may not touch: a remote access error at the initiator, and not one byte
 * changed at the target.
 */
@NeedsDevices
@Timeout(120)
class AccessErrorsTest {
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final int REM_ACCESS_ERR = 10;

    /** Two connected sides and memory at the target, looked at before and after. */
    private static final class Scene implements AutoCloseable {
        final Pair pair = new Pair(QueuePairLimits.depths(8, 8)).connect();
        final MemorySegment memory = pair.right.arena.allocate(8192, 4096);
        final MemoryRegion source = pair.left.filled(64, 1);
        private final byte[] before;

        Scene() {
            fill(memory, 2);
            before = memory.toArray(ValueLayout.JAVA_BYTE);
        }

        MemoryRegion target(Access... rights) {
            // Half of it, so that there is memory behind it that is nobody's business.
            return pair.right.register(memory.asSlice(0, 4096), rights);
        }

        void writeIsRefused(long address, int token) {
            refused(
                    pair.left
                            .queuePair
                            .write(1, whole(source), address, token, OpFlags.NONE)
                            .status(),
                    pair.left.queuePair.send(2, new BufferList(1)).status());
        }

        void readIsRefused(long address, int token) {
            byte[] sink = source.memory().toArray(ValueLayout.JAVA_BYTE);
            refused(
                    pair.left
                            .queuePair
                            .read(1, whole(source), address, token, OpFlags.NONE)
                            .status(),
                    pair.left.queuePair.send(2, new BufferList(1)).status());
            assertThat(source.memory().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(sink);
        }

        private void refused(Status posted, Status behind) {
            assertThat(posted).isEqualTo(Status.SUCCESS);
            assertThat(behind).isEqualTo(Status.SUCCESS);
            Completions completions = pair.left.completion();
            assertThat(completions.context(0)).isEqualTo(1);
            assertThat(completions.status(0)).isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(completions.providerCode(0) >>> 32).isEqualTo(REM_ACCESS_ERR);
            assertThat(pair.left.ends(1)).containsExactly("SEND 2 CANCELLED");
            assertThat(memory.toArray(ValueLayout.JAVA_BYTE)).isEqualTo(before);
        }

        @Override
        public void close() {
            pair.close();
        }
    }

    private static void withWindow(Scene scene) {
        assumeTrue(
                scene.pair.right.adapter.info().invalidatableWindows(),
                "SKIPPED: the device has no memory windows of type 2");
    }

    @Test
    void aWriteWithoutTheRight() {
        try (Scene scene = new Scene()) {
            MemoryRegion target = scene.target(Access.REMOTE_READ, Access.LOCAL_WRITE);
            scene.writeIsRefused(target.memory().address(), target.remoteToken());
        }
    }

    @Test
    void aReadWithoutTheRight() {
        try (Scene scene = new Scene()) {
            MemoryRegion target = scene.target(Access.REMOTE_WRITE);
            scene.readIsRefused(target.memory().address(), target.remoteToken());
        }
    }

    @Test
    void aWriteThroughAWindowForReading() {
        try (Scene scene = new Scene()) {
            withWindow(scene);
            MemoryRegion target = scene.target(Access.LOCAL_WRITE);
            try (MemoryWindow window = scene.pair.right.domain.createMemoryWindow()) {
                scene.pair
                        .right
                        .queuePair
                        .bind(9, window, target, 0, 4096, OpFlags.ALLOW_REMOTE_READ)
                        .orThrow();
                scene.pair.right.ends(1);
                scene.writeIsRefused(target.memory().address(), window.remoteToken());
            }
        }
    }

    @Test
    void oneBytePastTheRange() {
        try (Scene scene = new Scene()) {
            MemoryRegion target = scene.target(Access.REMOTE_WRITE, Access.REMOTE_READ);
            scene.writeIsRefused(target.memory().address() + 4096 - 63, target.remoteToken());
        }
        try (Scene scene = new Scene()) {
            MemoryRegion target = scene.target(Access.REMOTE_WRITE, Access.REMOTE_READ);
            scene.readIsRefused(target.memory().address() - 1, target.remoteToken());
        }
    }

    @Test
    void aTokenOfAClosedRegion() {
        try (Scene scene = new Scene()) {
            MemoryRegion target = scene.target(Access.REMOTE_WRITE, Access.REMOTE_READ);
            target.close();
            scene.writeIsRefused(target.memory().address(), target.remoteToken());
        }
    }

    @Test
    void aTokenThatWasInvalidated() {
        try (Scene scene = new Scene()) {
            withWindow(scene);
            MemoryRegion target = scene.target(Access.LOCAL_WRITE);
            try (MemoryWindow window = scene.pair.right.domain.createMemoryWindow()) {
                QueuePair owner = scene.pair.right.queuePair;
                owner.bind(8, window, target, 0, 4096, RW).orThrow();
                owner.invalidate(9, window, OpFlags.NONE).orThrow();
                assertThat(scene.pair.right.ends(2))
                        .containsExactly("BIND 8 SUCCESS", "INVALIDATE 9 SUCCESS");
                scene.writeIsRefused(target.memory().address(), window.remoteToken());
            }
        }
    }

    @Test
    void aStaleTokenOfAWindowThatIsBoundAgain() {
        try (Scene scene = new Scene()) {
            withWindow(scene);
            MemoryRegion target = scene.target(Access.LOCAL_WRITE);
            try (MemoryWindow window = scene.pair.right.domain.createMemoryWindow()) {
                QueuePair owner = scene.pair.right.queuePair;
                owner.bind(7, window, target, 0, 4096, RW).orThrow();
                int stale = window.remoteToken();
                owner.invalidate(8, window, OpFlags.NONE).orThrow();
                owner.bind(9, window, target, 0, 4096, RW).orThrow();
                scene.pair.right.ends(3);
                scene.readIsRefused(target.memory().address(), stale);
            }
        }
    }

    @Test
    void anotherQueuePairsToken() {
        try (Scene scene = new Scene();
                Pair other = new Pair(QueuePairLimits.depths(8, 8))) {
            withWindow(scene);
            // A window bound on another queue pair of the same domain, connected elsewhere.
            Pair.Side right = scene.pair.right;
            try (QueuePair second =
                            right.domain.createQueuePair(
                                    right.completionQueue,
                                    right.completionQueue,
                                    QueuePairLimits.depths(4, 4));
                    MemoryWindow window = right.domain.createMemoryWindow()) {
                second.connect(other.left.queuePair.address());
                other.left.queuePair.connect(second.address());
                MemoryRegion target = scene.target(Access.LOCAL_WRITE);
                second.bind(9, window, target, 0, 4096, RW).orThrow();
                assertThat(right.ends(1)).containsExactly("BIND 9 SUCCESS");
                scene.writeIsRefused(target.memory().address(), window.remoteToken());
            }
        }
    }

    @Test
    void aTokenOfAnotherDomain() {
        try (Scene scene = new Scene();
                Pair other = new Pair(QueuePairLimits.depths(8, 8))) {
            MemoryRegion elsewhere =
                    other.right.register(
                            scene.memory.asSlice(0, 4096), Access.REMOTE_WRITE, Access.REMOTE_READ);
            scene.writeIsRefused(elsewhere.memory().address(), elsewhere.remoteToken());
        }
    }

    /** A peer's mistake ends this side's connection too; nothing outstanding here reports it. */
    @Test
    void receivesPostedAfterThePeersMistakeEndCancelled() {
        try (Scene scene = new Scene()) {
            MemoryRegion target = scene.target(Access.LOCAL_WRITE);
            scene.writeIsRefused(target.memory().address(), target.remoteToken());
            scene.pair.right.queuePair.receive(5, whole(scene.pair.right.memory(8))).orThrow();
            assertThat(scene.pair.right.ends(1)).containsExactly("RECEIVE 5 CANCELLED");
        }
    }

    /** The peer sees it; this side may get SUCCESS, and sees the end with its next request. */
    @Test
    void aBadTokenToInvalidateEndsTheConnection() {
        try (Scene scene = new Scene()) {
            withWindow(scene);
            scene.pair.right.queuePair.receive(1, whole(scene.pair.right.memory(64))).orThrow();
            scene.pair.right.queuePair.receive(2, whole(scene.pair.right.memory(64))).orThrow();
            scene.pair
                    .left
                    .queuePair
                    .sendAndInvalidate(3, new BufferList(1), 0x7FFF_FF01, OpFlags.NONE)
                    .orThrow();
            Completions received = scene.pair.right.completion();
            assertThat(received.context(0)).isEqualTo(1);
            // A NIC reports it like a message that is too long.
            assertThat(received.status(0))
                    .isEqualTo(
                            RdmaDevices.isSoftRoce(scene.pair.right.adapter.name())
                                    ? Status.ACCESS_VIOLATION
                                    : Status.BUFFER_OVERFLOW);
            assertThat(scene.pair.right.ends(1)).containsExactly("RECEIVE 2 CANCELLED");
            assertThat(scene.pair.left.ends(1)).hasSize(1);
            scene.pair.left.queuePair.send(4, new BufferList(1)).orThrow();
            assertThat(scene.pair.left.completion().status(0))
                    .isIn(Status.IO_TIMEOUT, Status.CANCELLED);
        }
    }
}
