package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.util.Arrays;

/** Queue pairs of one thread, which build their requests in the same memory. */
class SharedRequestTest {
    private static final QueuePairLimits LIMITS =
            QueuePairLimits.depths(8, 8).withBuffers(2, 1).withInlineBytes(16).withMaxDeferred(4);

    @Test
    void whatOneDefersIsNotSentByAnother() {
        try (Rig rig = Rig.confined(LIMITS)) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, OpFlags.DEFER).orThrow();
            rig.b.write(2, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, OpFlags.DEFER).orThrow();
            rig.b.receive(3, rig.bytes(8)).orThrow();
            rig.a.receive(3, rig.bytes(8)).orThrow();
            assertThat(rig.device.sends).isEmpty();
            rig.a.send(4, rig.bytes(8)).orThrow();
            assertThat(rig.device.chains).containsExactly(2);
            assertThat(rig.poll())
                    .containsExactlyInAnyOrder(
                            "WRITE 1 SUCCESS", "SEND 4 SUCCESS", "RECEIVE 3 SUCCESS");
            rig.b.send(5, rig.bytes(8)).orThrow();
            assertThat(rig.device.chains).containsExactly(2, 2);
            assertThat(rig.poll())
                    .containsExactlyInAnyOrder(
                            "WRITE 2 SUCCESS", "SEND 5 SUCCESS", "RECEIVE 3 SUCCESS");
        }
    }

    /** Inline bytes that cannot be read are found when the request is half built. */
    @Test
    void aRequestThatWasBegunAndRefusedLeavesNothingBehind() {
        try (Rig rig = Rig.confined(LIMITS)) {
            Arena closed = Arena.ofConfined();
            BufferList unreadable =
                    new BufferList(1).addUnregistered(closed.allocate(8).fill((byte) 1));
            closed.close();
            assertThat(
                            rig.a
                                    .write(1, unreadable, Rig.REMOTE, Rig.TOKEN, OpFlags.INLINE)
                                    .isAccepted())
                    .isFalse();
            rig.b.write(2, rig.bytes(3), Rig.REMOTE + 1, Rig.TOKEN + 1, OpFlags.NONE).orThrow();
            assertThat(rig.device.chains).containsExactly(1);
            assertThat(rig.poll()).containsExactly("WRITE 2 SUCCESS");
            assertThat(rig.device.sends.getFirst().inline()).isEmpty();
        }
    }

    /** Requests of other kinds in turns: rxe refuses a bind with another request's values in it. */
    @Test
    void eachRequestHasItsOwnFieldsOnly() {
        try (Rig rig = Rig.confined(LIMITS);
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            rig.a
                    .compareAndSwap(1, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, -1, -1, OpFlags.NONE)
                    .orThrow();
            rig.b.bind(2, window, rig.memory, 0, 8, OpFlags.ALLOW_REMOTE_READ).orThrow();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, OpFlags.NONE).orThrow();
            PostedRequest bind = rig.device.sends.get(1);
            assertThat(rig.poll())
                    .containsExactly(
                            "COMPARE_AND_SWAP 1 SUCCESS", "BIND 2 SUCCESS", "WRITE 3 SUCCESS");
            // The union with remote address, key and operands, between what a bind sets.
            int from = (int) ibv_send_wr.wr$offset();
            int to = (int) ibv_send_wr.qp_type$offset();
            assertThat(Arrays.copyOfRange(bind.request(), from, to))
                    .hasSizeGreaterThan(24)
                    .containsOnly(0);
        }
    }

    /** One made later with longer lists and more bytes, and then both by turns. */
    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void aLargerOneDoesNotDisturbTheSmaller(int maxDeferred) {
        QueuePairLimits large =
                QueuePairLimits.depths(16, 8)
                        .withBuffers(4, 1)
                        .withInlineBytes(64)
                        .withMaxDeferred(maxDeferred);
        try (Rig rig = Rig.confined(LIMITS);
                QueuePair other = rig.domain.createQueuePair(rig.queue, rig.queue, large)) {
            other.connect(other.address());
            rig.memory.memory().asSlice(0, 64).fill((byte) 7);
            for (int i = 0; i < 3; i++) {
                rig.a.send(i, rig.bytes(16), OpFlags.INLINE).orThrow();
                other.write(i, rig.bytes(64), Rig.REMOTE, Rig.TOKEN, OpFlags.INLINE).orThrow();
                rig.a.write(i, rig.bytes(16), Rig.REMOTE, Rig.TOKEN, OpFlags.NONE).orThrow();
                other.write(
                                i,
                                rig.bytes(64),
                                Rig.REMOTE,
                                Rig.TOKEN,
                                OpFlags.INLINE.and(OpFlags.DEFER))
                        .orThrow();
                other.write(i, rig.bytes(1), Rig.REMOTE, Rig.TOKEN, OpFlags.NONE).orThrow();
            }
            assertThat(rig.device.sends)
                    .hasSize(15)
                    .allMatch(sent -> sent.inline().length % 16 == 0)
                    .filteredOn(sent -> sent.inline().length == 64)
                    .hasSize(6);
        }
    }
}
