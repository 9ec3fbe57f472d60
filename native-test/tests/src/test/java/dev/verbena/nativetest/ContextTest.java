package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.AdapterInfo;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.SharedReceiveQueue;
import dev.verbena.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;

/** The caller's context comes back with all its 64 bits, over a real device. */
@NeedsDevices
@Timeout(300)
class ContextTest {
    private static final long[] CONTEXTS = {
        0xFEDC_BA98_7654_3210L, 0x0123_4567_89AB_CDEFL, -1, 0, Long.MIN_VALUE, 0x8000_0000L
    };

    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(128, 128);
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final int NO_TOKEN = 0x7FFF_FF01;

    private interface Post {
        Status with(Scene scene, long context, int token);
    }

    private enum Operation {
        SEND("SEND", "RECEIVE", info -> true, (s, c, t) -> s.queuePair.send(c, s.bytes).status()),
        SEND_AND_INVALIDATE(
                "SEND",
                "RECEIVE_AND_INVALIDATE",
                AdapterInfo::sendsWithInvalidate,
                (s, c, t) ->
                        s.queuePair
                                .sendAndInvalidate(c, s.bytes, s.tokenOfPeersWindow(), OpFlags.NONE)
                                .status()),
        SEND_WITH_IMMEDIATE(
                "SEND",
                "RECEIVE",
                AdapterInfo::immediateData,
                (s, c, t) -> s.queuePair.sendWithImmediate(c, s.bytes, -7, OpFlags.NONE).status()),
        WRITE(
                "WRITE",
                null,
                info -> true,
                (s, c, t) -> s.queuePair.write(c, s.bytes, s.at, t, OpFlags.NONE).status()),
        WRITE_WITH_IMMEDIATE(
                "WRITE",
                "RECEIVE_OF_WRITE",
                AdapterInfo::immediateData,
                (s, c, t) ->
                        s.queuePair
                                .writeWithImmediate(c, s.bytes, s.at, t, -7, OpFlags.NONE)
                                .status()),
        READ(
                "READ",
                null,
                info -> true,
                (s, c, t) -> s.queuePair.read(c, s.bytes, s.at, t, OpFlags.NONE).status()),
        COMPARE_AND_SWAP(
                "COMPARE_AND_SWAP",
                null,
                AdapterInfo::atomics,
                (s, c, t) ->
                        s.queuePair
                                .compareAndSwap(c, s.bytes, s.at, t, 1, 2, OpFlags.NONE)
                                .status()),
        FETCH_AND_ADD(
                "FETCH_AND_ADD",
                null,
                AdapterInfo::atomics,
                (s, c, t) ->
                        s.queuePair.fetchAndAdd(c, s.bytes, s.at, t, 1, OpFlags.NONE).status()),
        BIND(
                "BIND",
                null,
                AdapterInfo::invalidatableWindows,
                (s, c, t) -> s.queuePair.bind(c, s.nextWindow(), s.local, 0, 8, RW).status()),
        INVALIDATE(
                "INVALIDATE",
                null,
                AdapterInfo::invalidatableWindows,
                (s, c, t) -> s.queuePair.invalidate(c, s.nextWindow(), OpFlags.NONE).status());

        final String ends;
        final String endsAtPeer; // the receive that it takes, or null
        final Predicate<AdapterInfo> can;
        final Post post;

        Operation(String ends, String endsAtPeer, Predicate<AdapterInfo> can, Post post) {
            this.ends = ends;
            this.endsAtPeer = endsAtPeer;
            this.can = can;
            this.post = post;
        }

        boolean sends() {
            return ends.equals("SEND");
        }
    }

    /** A connected pair with memory and windows at both ends. */
    private static final class Scene implements AutoCloseable {
        final Pair pair = new Pair(LIMITS).connect();
        final QueuePair queuePair = pair.left.queuePair;
        final MemoryRegion local = pair.left.filled(8, 1);
        final MemoryRegion remote = pair.right.filled(8, 2);
        final BufferList bytes = whole(local);
        final long at = remote.memory().address();
        private final List<MemoryWindow> windows = new ArrayList<>();
        private final List<MemoryWindow> peersWindows = new ArrayList<>();
        private int next;

        MemoryWindow nextWindow() {
            return windows.get(next++);
        }

        /** As many as there are contexts, not bound. */
        void makeWindows() {
            for (int i = 0; i < CONTEXTS.length; i++) {
                windows.add(pair.left.domain.createMemoryWindow());
            }
        }

        void bindWindows() {
            for (MemoryWindow window : windows) {
                queuePair.bind(5, window, local, 0, 8, RW).orThrow();
            }
            assertThat(pair.left.ends(windows.size())).containsOnly("BIND 5 SUCCESS");
        }

        int tokenOfPeersWindow() {
            MemoryWindow window = pair.right.domain.createMemoryWindow();
            peersWindows.add(window);
            pair.right.queuePair.bind(6, window, remote, 0, 8, RW).orThrow();
            assertThat(pair.right.ends(1)).containsExactly("BIND 6 SUCCESS");
            return window.remoteToken();
        }

        @Override
        public void close() {
            windows.forEach(MemoryWindow::close);
            peersWindows.forEach(MemoryWindow::close);
            pair.close();
        }
    }

    private static void assumeCan(Scene scene, Operation operation) {
        assumeTrue(
                operation.can.test(scene.pair.left.adapter.info())
                        && operation.can.test(scene.pair.right.adapter.info()),
                "SKIPPED: the device cannot " + operation);
    }

    @ParameterizedTest
    @EnumSource(Operation.class)
    void ofARequestThatSucceeds(Operation operation) {
        try (Scene scene = new Scene()) {
            assumeCan(scene, operation);
            if (operation == Operation.BIND || operation == Operation.INVALIDATE) {
                scene.makeWindows();
            }
            if (operation == Operation.INVALIDATE) {
                scene.bindWindows();
            }
            for (long context : CONTEXTS) {
                if (operation.endsAtPeer != null) {
                    scene.pair.right.queuePair.receive(~context, whole(scene.remote)).orThrow();
                }
                operation.post.with(scene, context, scene.remote.remoteToken()).orThrow();
                assertThat(scene.pair.left.ends(1))
                        .containsExactly(operation.ends + " " + context + " SUCCESS");
                if (operation.endsAtPeer != null) {
                    assertThat(scene.pair.right.ends(1))
                            .containsExactly(operation.endsAtPeer + " " + ~context + " SUCCESS");
                }
            }
        }
    }

    /**
     * By a message that is longer than its receive, or by a token of nobody's. Not binds and
     * invalidates: there is no way to let one fail that is safe with Soft-RoCE.
     */
    @ParameterizedTest
    @EnumSource(
            value = Operation.class,
            mode = EnumSource.Mode.EXCLUDE,
            names = {"BIND", "INVALIDATE"})
    void ofARequestThatFailsAndThoseThatAreFlushedBehindIt(Operation operation) {
        for (int first = 0; first < 2; first++) { // these two have each bit set and clear
            try (Scene scene = new Scene()) {
                assumeCan(scene, operation);
                long context = CONTEXTS[first];
                long other = CONTEXTS[1 - first];
                scene.pair
                        .right
                        .queuePair
                        .receive(~context, new BufferList(1).add(scene.remote, 0, 4))
                        .orThrow();
                scene.pair.right.queuePair.receive(~other, whole(scene.remote)).orThrow();
                operation.post.with(scene, context, NO_TOKEN).orThrow();
                scene.queuePair
                        .write(other, scene.bytes, scene.at, NO_TOKEN, OpFlags.NONE)
                        .orThrow();
                assertThat(scene.pair.left.ends(2))
                        .containsExactly(
                                operation.ends
                                        + " "
                                        + context
                                        + (operation.sends()
                                                ? " REMOTE_RESOURCES"
                                                : " ACCESS_VIOLATION"),
                                "WRITE " + other + " CANCELLED");
                scene.pair.right.queuePair.flush(); // where the device has not done so itself
                List<String> received = scene.pair.right.ends(2);
                if (operation == Operation.WRITE_WITH_IMMEDIATE) { // may have taken its receive
                    assertThat(received.getFirst())
                            .startsWith("RECEIVE " + ~context + " ")
                            .doesNotEndWith("SUCCESS");
                } else {
                    assertThat(received.getFirst())
                            .isEqualTo(
                                    "RECEIVE "
                                            + ~context
                                            + (operation.sends()
                                                    ? " BUFFER_OVERFLOW"
                                                    : " CANCELLED"));
                }
                assertThat(received.getLast()).isEqualTo("RECEIVE " + ~other + " CANCELLED");
            }
        }
    }

    /**
     * Behind a message that nobody has a receive for. Not what concerns windows: Soft-RoCE may
     * carry that out, and once more when it repeats the message, which its kernel does not survive.
     */
    @Test
    void ofRequestsAndReceivesThatAreFlushed() {
        try (Scene scene = new Scene()) {
            Set<Operation> able = EnumSet.allOf(Operation.class);
            able.removeAll(
                    EnumSet.of(
                            Operation.BIND, Operation.INVALIDATE, Operation.SEND_AND_INVALIDATE));
            able.removeIf(operation -> !operation.can.test(scene.pair.left.adapter.info()));
            List<String> expected = new ArrayList<>();
            List<String> expectedReceives = new ArrayList<>();
            scene.queuePair.send(1, scene.bytes).orThrow();
            expected.add("SEND 1 CANCELLED");
            for (Operation operation : able) {
                for (long context : CONTEXTS) {
                    operation.post.with(scene, context, scene.remote.remoteToken()).orThrow();
                    expected.add(operation.ends + " " + context + " CANCELLED");
                }
            }
            for (long context : CONTEXTS) {
                scene.queuePair.receive(context, scene.bytes).orThrow();
                expectedReceives.add("RECEIVE " + context + " CANCELLED");
            }
            scene.queuePair.flush();
            for (long context : CONTEXTS) { // these this layer ends
                scene.queuePair.receive(~context, scene.bytes).orThrow();
                expectedReceives.add("RECEIVE " + ~context + " CANCELLED");
            }
            List<String> ends = scene.pair.left.ends(expected.size() + expectedReceives.size());
            assertThat(ends.stream().filter(end -> !end.startsWith("RECEIVE")))
                    .containsExactlyElementsOf(expected);
            assertThat(ends.stream().filter(end -> end.startsWith("RECEIVE")))
                    .containsExactlyElementsOf(expectedReceives);
        }
    }

    @Test
    void ofSharedReceivesThatSucceedAndFail() {
        try (Pair pair = new Pair(LIMITS)) {
            Pair.Side right = pair.right;
            assumeTrue(
                    right.adapter.info().maxSharedReceiveDepth() > 0,
                    "SKIPPED: no shared receive queues");
            MemoryRegion inbox = right.filled(8, 1);
            MemoryRegion source = pair.left.filled(8, 2);
            try (SharedReceiveQueue shared =
                            right.domain.createSharedReceiveQueue(16, 1, status -> {});
                    QueuePair sharing =
                            right.domain.createQueuePair(
                                    right.completionQueue, right.completionQueue, shared, LIMITS)) {
                pair.left.queuePair.connect(sharing.address());
                sharing.connect(pair.left.queuePair.address());
                for (long context : CONTEXTS) {
                    shared.receive(context, whole(inbox)).orThrow();
                    pair.left.queuePair.send(~context, whole(source)).orThrow();
                    assertThat(right.ends(1)).containsExactly("RECEIVE " + context + " SUCCESS");
                    assertThat(pair.left.ends(1)).containsExactly("SEND " + ~context + " SUCCESS");
                }
                long context = CONTEXTS[0];
                shared.receive(context, new BufferList(1).add(inbox, 0, 4)).orThrow();
                pair.left.queuePair.send(~context, whole(source)).orThrow();
                assertThat(right.ends(1))
                        .containsExactly("RECEIVE " + context + " BUFFER_OVERFLOW");
                assertThat(pair.left.ends(1))
                        .containsExactly("SEND " + ~context + " REMOTE_RESOURCES");
            }
        }
    }
}
