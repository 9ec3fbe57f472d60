package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.PostedRequest;
import dev.verbena.internal.verbs.SendChain;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;

/** Sends that invalidate a token, with each flag, as the peer sees them. */
@Timeout(60)
class SendAndInvalidateTest {
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final OpFlags DEFER = OpFlags.DEFER;
    private static final OpFlags SILENT = OpFlags.SILENT_SUCCESS;
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(60);

    private final Rig rig =
            Rig.connected(QueuePairLimits.depths(16, 16).withBuffers(2, 1).withInlineBytes(64));
    private final QueuePair sender = rig.a;
    private final QueuePair peer = rig.b;
    private final MemoryWindow window = rig.domain.createMemoryWindow();
    private int token;

    @BeforeEach
    void bind() {
        peer.bind(1, window, rig.memory, 0, 64, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
        token = window.remoteToken();
        assertThat(rig.device.honours(token)).isTrue();
    }

    @AfterEach
    void close() {
        window.close();
        rig.close();
    }

    /** Polls one receive: it names the token, and the token is dead. */
    private void expectInvalidation(long context, int bytes) {
        Completions received = new Completions(1);
        assertThat(rig.queue.poll(received)).isEqualTo(1);
        assertThat(received.queuePair(0)).isSameAs(peer);
        assertThat(received.type(0)).isEqualTo(OperationType.RECEIVE_AND_INVALIDATE);
        assertThat(received.context(0)).isEqualTo(context);
        assertThat(received.status(0)).isEqualTo(Status.SUCCESS);
        assertThat(received.bytes(0)).isEqualTo(bytes);
        assertThat(received.invalidatedToken(0)).isEqualTo(token);
        assertThat(rig.device.honours(token)).isFalse();
        assertThat(window.bound()).isFalse();
        assertThat(peer.invalidate(9, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
    }

    @ParameterizedTest
    @CsvSource({"0, 1", "0, 3", "0x200, 1", "0x200, 3"}) // at once and deferred; 3 are gathered
    void inlineBytesAreThoseOfTheCall(String deferred, int buffers) {
        OpFlags defer = OpFlags.ofValue(Integer.decode(deferred));
        MemorySegment unregistered = rig.arena.allocate(12);
        for (int i = 0; i < 12; i++) {
            unregistered.set(ValueLayout.JAVA_BYTE, i, (byte) (i + 1));
        }
        BufferList list = new BufferList(3); // the queue pair was made for 2
        int each = 12 / buffers;
        for (int i = 0; i < buffers; i++) {
            list.addUnregistered(unregistered.asSlice((long) i * each, each));
        }
        peer.receive(5, rig.bytes(64)).orThrow();
        sender.sendAndInvalidate(6, list, token, OpFlags.INLINE.and(SILENT).and(defer)).orThrow();
        unregistered.fill((byte) 0x7F); // the call has returned
        list.clear();
        if (defer != OpFlags.NONE) {
            assertThat(rig.device.sends).hasSize(1); // the bind
            sender.write(7, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, SILENT).orThrow();
        }
        PostedRequest posted = rig.device.sends.get(1);
        assertThat(posted.opcode()).isEqualTo(SendChain.SEND_WITH_INVALIDATE);
        assertThat(posted.inline()).containsExactly(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
        expectInvalidation(5, 12);
    }

    @Test
    void aDeferredOneInvalidatesWhenItIsPostedAndNoEarlier() {
        peer.receive(5, rig.bytes(64)).orThrow();
        peer.receive(6, rig.bytes(64)).orThrow();
        BufferList list = new BufferList(2).add(rig.memory, 10, 20).add(rig.memory, 100, 4);
        sender.sendAndInvalidate(7, list, token, DEFER.and(SILENT)).orThrow();
        list.clear().add(rig.memory, 1000, 1); // the caller's again
        assertThat(rig.poll()).isEmpty();
        assertThat(rig.device.honours(token)).isTrue();
        assertThat(window.bound()).isTrue();
        sender.send(8, rig.bytes(3), SILENT).orThrow();
        assertThat(rig.device.chains.getLast()).isEqualTo(2);
        expectInvalidation(5, 24);
        assertThat(rig.poll()).containsExactly("RECEIVE 6 SUCCESS");
    }

    /** What was deferred reaches the peer also when the chain ends by a refusal. */
    @Test
    void aDeferredOneInvalidatesWhenTheNextRequestIsRefused() {
        peer.receive(5, rig.bytes(64)).orThrow();
        sender.sendAndInvalidate(6, rig.bytes(8), token, DEFER.and(SILENT)).orThrow();
        assertThat(
                        sender.sendAndInvalidate(7, rig.bytes(8), token, OpFlags.ALLOW_REMOTE_READ)
                                .status())
                .isEqualTo(Status.INVALID_PARAMETER);
        expectInvalidation(5, 8);
        assertThat(rig.poll()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {0x000, 0x200, 0x040, 0x240}) // DEFER, INLINE, and both
    void aSolicitingOneWakesThePeerAndAPlainOneDoesNot(int value) {
        OpFlags flags = OpFlags.ofValue(value);
        for (OpFlags solicit : List.of(OpFlags.NONE, OpFlags.SEND_AND_SOLICIT_EVENT)) {
            peer.receive(5, rig.bytes(64)).orThrow();
            peer.receive(6, rig.bytes(64)).orThrow();
            assertThat(rig.queue.arm(NotifyType.SOLICITED)).isFalse();
            sender.sendAndInvalidate(7, rig.bytes(8), token, flags.and(solicit).and(SILENT))
                    .orThrow();
            sender.send(8, rig.bytes(8), SILENT).orThrow(); // sends off what was deferred
            rig.device.run();
            assertThat(rig.queue.await(solicit != OpFlags.NONE ? LONG : SHORT))
                    .isEqualTo(solicit != OpFlags.NONE ? Status.SUCCESS : Status.IO_TIMEOUT);
            expectInvalidation(5, 8);
            assertThat(rig.poll()).containsExactly("RECEIVE 6 SUCCESS");
            if (solicit == OpFlags.NONE) {
                bind();
            }
        }
    }
}
