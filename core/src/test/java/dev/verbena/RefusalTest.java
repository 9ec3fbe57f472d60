package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.queue.Refusal;

import org.assertj.core.api.AbstractThrowableAssert;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A refused post says which operation, on which queue pair, to which peer, and why. */
class RefusalTest {
    private final Rig rig = Rig.connected(QueuePairLimits.depths(2, 2).withInlineBytes(8));

    @AfterEach
    void close() {
        rig.close();
    }

    private AbstractThrowableAssert<?, ?> refused(Status status, Status expected) {
        assertThat(status).isEqualTo(expected);
        return assertThatThrownBy(() -> status.orThrow(rig.a))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining(rig.a.toString())
                .hasMessageContaining(rig.a.peer().orElseThrow().toString())
                .hasMessageContaining(expected.name());
    }

    @Test
    void aSuccessThrowsNothing() {
        Status.SUCCESS.orThrow(rig.a);
    }

    @Test
    void ofABoundWindow() {
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            OpFlags read = OpFlags.ALLOW_REMOTE_READ;
            rig.a.bind(1, window, rig.memory, 0, 8, read).orThrow(rig.a);
            refused(rig.a.bind(2, window, rig.memory, 0, 8, read), Status.INVALID_DEVICE_REQUEST)
                    .hasMessageStartingWith("bind of QueuePair")
                    .hasMessageContaining("the window is still bound: invalidate it first");
            rig.a.invalidate(3, window, OpFlags.NONE).orThrow(rig.a);
            rig.poll();
            refused(rig.a.invalidate(4, window, OpFlags.NONE), Status.INVALID_DEVICE_REQUEST)
                    .hasMessageStartingWith("invalidate of QueuePair")
                    .hasMessageContaining("the window is not bound on this queue pair");
        }
    }

    @Test
    void ofAFullQueue() {
        rig.device.running = false;
        rig.a.send(1, rig.bytes(1)).orThrow(rig.a);
        rig.a.send(2, rig.bytes(1)).orThrow(rig.a);
        refused(rig.a.send(3, rig.bytes(1)), Status.NO_MORE_ENTRIES)
                .hasMessageStartingWith("send of QueuePair")
                .hasMessageContaining("poll its completion queue");
        assertThat(rig.a.outstandingRequests()).isEqualTo(2);
        rig.device.running = true;
        rig.device.run();
        rig.poll();
        assertThat(rig.a.outstandingRequests()).isZero();
    }

    @Test
    void ofAReceive() {
        rig.a.receive(1, rig.bytes(1)).orThrow(rig.a);
        rig.a.receive(2, rig.bytes(1)).orThrow(rig.a);
        assertThat(rig.a.outstandingReceives()).isEqualTo(2);
        refused(rig.a.receive(3, rig.bytes(1)), Status.NO_MORE_ENTRIES)
                .hasMessageStartingWith("receive of QueuePair");
    }

    @Test
    void ofTooManyInlineBytes() {
        refused(rig.a.send(1, rig.bytes(9), OpFlags.INLINE), Status.INVALID_PARAMETER)
                .hasMessageContaining("maxInlineBytes");
    }

    @Test
    void ofBytesBeyondRemoteMemory() {
        RemoteMemory target = RemoteMemory.of(Rig.REMOTE, 1, 8);
        refused(rig.a.write(1, rig.bytes(9), target, 0, OpFlags.NONE), Status.INVALID_PARAMETER)
                .hasMessageStartingWith("write of QueuePair")
                .hasMessageContaining("beyond the remote memory");
    }

    @Test
    void ofAProviderThatRefuses() {
        rig.device.answer = 12;
        rig.device.refused = 0;
        Status status = rig.a.send(1, rig.bytes(1));
        rig.device.answer = 0;
        refused(status, Status.INSUFFICIENT_RESOURCES)
                .hasMessageContaining("the provider refused it")
                .hasMessageContaining("ENOMEM");
    }

    @Test
    void ofAProviderThatRefusesAReceive() {
        rig.device.answer = 12;
        rig.device.refused = 0;
        Status status = rig.a.receive(1, rig.bytes(1));
        rig.device.answer = 0;
        refused(status, Status.INSUFFICIENT_RESOURCES)
                .hasMessageStartingWith("receive of QueuePair")
                .hasMessageContaining("ENOMEM");
        assertThat(rig.a.outstandingReceives()).isZero();
        rig.a.receive(2, rig.bytes(1)).orThrow(rig.a);
        rig.a.receive(3, rig.bytes(1)).orThrow(rig.a);
    }

    @Test
    void ofAProviderThatRefusesAnInlineRequest() {
        rig.device.answer = 22;
        rig.device.refused = 0;
        Status status = rig.a.send(1, rig.bytes(1), OpFlags.INLINE);
        rig.device.answer = 0;
        refused(status, Status.INVALID_PARAMETER).hasMessageContaining("EINVAL");
    }

    @Test
    void ofWhatIsNull() {
        OpFlags none = OpFlags.NONE;
        BufferList one = rig.bytes(1);
        RemoteMemory target = RemoteMemory.of(Rig.REMOTE, 1, 8);
        assertThatThrownBy(() -> rig.a.send(1, null, none))
                .isInstanceOf(NullPointerException.class)
                .hasMessage("buffers must not be null");
        assertThatThrownBy(() -> rig.a.send(1, one, null))
                .isInstanceOf(NullPointerException.class)
                .hasMessage("flags must not be null");
        assertThatThrownBy(() -> rig.a.write(1, one, null, 0, none))
                .isInstanceOf(NullPointerException.class)
                .hasMessage("memory must not be null");
        assertThatThrownBy(() -> rig.a.write(1, null, target, 0, none))
                .isInstanceOf(NullPointerException.class)
                .hasMessage("buffers must not be null");
    }

    /** A status that is not of the last refused post: no reason is made up. */
    @Test
    void ofAStatusFromElsewhere() {
        assertThat(rig.a.send(1, rig.bytes(9), OpFlags.INLINE)).isEqualTo(Status.INVALID_PARAMETER);
        assertThatThrownBy(() -> Status.ACCESS_VIOLATION.orThrow(rig.a))
                .hasMessageStartingWith("A request of QueuePair")
                .hasMessageContaining(Status.ACCESS_VIOLATION.meaning());
    }

    @ParameterizedTest
    @EnumSource(Refusal.class)
    void everyRefusalHasAStatusAndAReason(Refusal refusal) {
        assertThat(Refusal.of(refusal.code())).isSameAs(refusal);
        assertThat(Refusals.status(refusal.code()).isSuccess()).isFalse();
        assertThat(Refusals.reason(refusal.code())).isNotBlank().doesNotEndWith(".");
    }
}
