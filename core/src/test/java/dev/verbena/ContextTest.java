package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/**
 * The caller's context comes back with all its 64 bits, whatever was posted with it and however
 * that ended.
 */
@Timeout(60)
class ContextTest {
    /** Each bit is set in one of the first two and clear in the other; the rest are the edges. */
    private static final long[] CONTEXTS = {
        0xFEDC_BA98_7654_3210L,
        0x0123_4567_89AB_CDEFL,
        -1,
        0,
        Long.MIN_VALUE,
        Long.MAX_VALUE,
        0xFFFF_FFFFL,
        0x8000_0000L,
        1L << 32
    };

    private static final int COUNT = CONTEXTS.length;
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final int IO_TIMEOUT = 12; // IBV_WC_RETRY_EXC_ERR
    private static final int BUFFER_OVERFLOW = 1; // IBV_WC_LOC_LEN_ERR

    private interface Post {
        Status with(Scene scene, long context, OpFlags flags);
    }

    private enum Operation {
        SEND("SEND", "RECEIVE", (s, c, f) -> s.rig.a.send(c, s.bytes, f).status()),
        SEND_AND_INVALIDATE(
                "SEND",
                "RECEIVE_AND_INVALIDATE",
                (s, c, f) -> s.rig.a.sendAndInvalidate(c, s.bytes, 0xFFFF_FF01, f).status()),
        SEND_WITH_IMMEDIATE(
                "SEND",
                "RECEIVE",
                (s, c, f) -> s.rig.a.sendWithImmediate(c, s.bytes, 7, f).status()),
        WRITE(
                "WRITE",
                null,
                (s, c, f) -> s.rig.a.write(c, s.bytes, Rig.REMOTE, Rig.TOKEN, f).status()),
        WRITE_WITH_IMMEDIATE(
                "WRITE",
                "RECEIVE_OF_WRITE",
                (s, c, f) ->
                        s.rig.a
                                .writeWithImmediate(c, s.bytes, Rig.REMOTE, Rig.TOKEN, 7, f)
                                .status()),
        READ(
                "READ",
                null,
                (s, c, f) -> s.rig.a.read(c, s.bytes, Rig.REMOTE, Rig.TOKEN, f).status()),
        COMPARE_AND_SWAP(
                "COMPARE_AND_SWAP",
                null,
                (s, c, f) ->
                        s.rig.a
                                .compareAndSwap(c, s.bytes, Rig.REMOTE, Rig.TOKEN, 1, 2, f)
                                .status()),
        FETCH_AND_ADD(
                "FETCH_AND_ADD",
                null,
                (s, c, f) -> s.rig.a.fetchAndAdd(c, s.bytes, Rig.REMOTE, Rig.TOKEN, 1, f).status()),
        BIND(
                "BIND",
                null,
                (s, c, f) -> s.rig.a.bind(c, s.window(), s.rig.memory, 0, 8, RW.and(f)).status()),
        INVALIDATE("INVALIDATE", null, (s, c, f) -> s.rig.a.invalidate(c, s.window(), f).status());

        final String ends;
        final String endsAtPeer; // the receive that it takes, or null
        final Post post;

        Operation(String ends, String endsAtPeer, Post post) {
            this.ends = ends;
            this.endsAtPeer = endsAtPeer;
            this.post = post;
        }
    }

    /** Two queue pairs, and a window for each request that needs one. */
    private static final class Scene implements AutoCloseable {
        final Rig rig = Rig.connected(QueuePairLimits.depths(32, 32));
        final BufferList bytes = rig.bytes(8);
        private final List<MemoryWindow> windows = new ArrayList<>();
        private int next;

        Scene(Operation operation) {
            if (operation == Operation.BIND || operation == Operation.INVALIDATE) {
                for (int i = 0; i < COUNT; i++) {
                    windows.add(rig.domain.createMemoryWindow());
                }
            }
            if (operation == Operation.INVALIDATE) {
                for (MemoryWindow window : windows) {
                    rig.a.bind(1, window, rig.memory, 0, 8, RW).orThrow();
                }
                assertThat(rig.poll()).hasSize(COUNT);
            }
        }

        MemoryWindow window() {
            return windows.get(next++);
        }

        /** What is there, polled by the consumer, or by this layer first, which keeps it. */
        List<String> poll(boolean kept) {
            if (kept) {
                assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
            }
            return rig.poll();
        }

        @Override
        public void close() {
            windows.forEach(MemoryWindow::close);
            rig.close();
        }
    }

    /** As many succeed as stand before the failing one; those behind it are flushed. */
    private static String end(int index, int failing, String failure) {
        return index < failing ? "SUCCESS" : index == failing ? failure : "CANCELLED";
    }

    @ParameterizedTest
    @EnumSource(Operation.class)
    void ofARequestThatSucceedsFailsOrIsFlushed(Operation operation) {
        for (int failing = 0; failing <= COUNT; failing++) {
            for (OpFlags flags : new OpFlags[] {OpFlags.NONE, OpFlags.SILENT_SUCCESS}) {
                endsInTurn(operation, failing, flags, false);
                endsInTurn(operation, failing, flags, true);
            }
        }
    }

    private void endsInTurn(Operation operation, int failing, OpFlags flags, boolean kept) {
        try (Scene scene = new Scene(operation)) {
            Rig rig = scene.rig;
            rig.device.running = false;
            rig.device.failAt = failing;
            rig.device.failStatus = IO_TIMEOUT;
            List<String> expected = new ArrayList<>();
            List<String> expectedAtPeer = new ArrayList<>();
            for (int i = 0; i < COUNT; i++) {
                long context = CONTEXTS[i];
                String end = end(i, failing, "IO_TIMEOUT");
                if (operation.endsAtPeer != null) {
                    rig.b.receive(~context, scene.bytes).orThrow();
                    if (i < failing) {
                        expectedAtPeer.add(operation.endsAtPeer + " " + ~context + " SUCCESS");
                    }
                }
                operation.post.with(scene, context, flags).orThrow();
                if (flags == OpFlags.NONE || i >= failing) {
                    expected.add(operation.ends + " " + context + " " + end);
                }
            }
            rig.device.running = true;
            List<String> seen =
                    scene.poll(kept && !(expected.isEmpty() && expectedAtPeer.isEmpty()));
            assertThat(seen.stream().filter(end -> !end.startsWith("RECEIVE")))
                    .containsExactlyElementsOf(expected);
            assertThat(seen.stream().filter(end -> end.startsWith("RECEIVE")))
                    .containsExactlyElementsOf(expectedAtPeer);
        }
    }

    @ParameterizedTest
    @EnumSource(value = Operation.class, mode = EnumSource.Mode.EXCLUDE, names = "INVALIDATE")
    void ofADeferredRequestThatTheProviderDoesNotTake(Operation operation) {
        try (Scene scene = new Scene(operation)) {
            Rig rig = scene.rig;
            List<String> expected = new ArrayList<>();
            for (int i = 0; i < COUNT; i++) {
                operation.post.with(scene, CONTEXTS[i], OpFlags.DEFER).orThrow();
                expected.add(
                        operation.ends + " " + CONTEXTS[i] + " " + end(i, 0, "INTERNAL_ERROR"));
            }
            rig.device.answer = 22;
            rig.device.refused = 0;
            assertThat(rig.a.write(77, scene.bytes, Rig.REMOTE, Rig.TOKEN, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll()).isEqualTo(expected);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void ofAReceive(boolean kept) {
        for (int failing = 0; failing <= COUNT; failing++) {
            try (Scene scene = new Scene(Operation.SEND)) {
                Rig rig = scene.rig;
                List<String> expected = new ArrayList<>();
                for (int i = 0; i < COUNT; i++) {
                    rig.b.receive(CONTEXTS[i], scene.bytes).orThrow();
                    expected.add(
                            "RECEIVE " + CONTEXTS[i] + " " + end(i, failing, "BUFFER_OVERFLOW"));
                }
                messages(rig, failing);
                if (failing < COUNT) {
                    rig.device.failReceive(rig.b.address().queuePairNumber(), BUFFER_OVERFLOW);
                }
                assertThat(scene.poll(kept)).isEqualTo(expected);
            }
        }
    }

    @Test
    void ofAReceiveThatIsPostedAfterTheEnd() {
        try (Scene scene = new Scene(Operation.SEND)) {
            scene.rig.b.flush();
            List<String> expected = new ArrayList<>();
            for (long context : CONTEXTS) {
                scene.rig.b.receive(context, scene.bytes).orThrow();
                expected.add("RECEIVE " + context + " CANCELLED");
            }
            assertThat(scene.rig.poll()).isEqualTo(expected);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void ofASharedReceive(boolean kept) {
        for (int failing = 0; failing <= COUNT; failing++) {
            try (Rig rig = new Rig(QueuePairLimits.depths(32, 32));
                    SharedReceiveQueue shared =
                            rig.domain.createSharedReceiveQueue(32, 1, status -> {});
                    QueuePair sharing =
                            rig.domain.createQueuePair(
                                    rig.queue, rig.queue, shared, QueuePairLimits.depths(1, 1))) {
                rig.a.connect(sharing.address());
                sharing.connect(rig.a.address());
                List<String> expected = new ArrayList<>();
                for (int i = 0; i < COUNT; i++) {
                    shared.receive(CONTEXTS[i], rig.bytes(8)).orThrow();
                    expected.add(
                            "RECEIVE " + CONTEXTS[i] + " " + end(i, failing, "BUFFER_OVERFLOW"));
                }
                messages(rig, failing);
                if (failing < COUNT) {
                    rig.device.messagesHang = true; // they take the others, and end none
                    messages(rig, COUNT - failing);
                    int number = sharing.address().queuePairNumber();
                    rig.device.failReceive(number, BUFFER_OVERFLOW);
                    rig.device.bringLastReceive(number);
                }
                if (kept) {
                    assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
                }
                assertThat(rig.poll()).isEqualTo(expected);
            }
        }
    }

    private static void messages(Rig rig, int count) {
        for (int i = 0; i < count; i++) {
            rig.a.send(0, rig.bytes(8), OpFlags.SILENT_SUCCESS).orThrow();
        }
        rig.device.run();
    }
}
