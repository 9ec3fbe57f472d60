package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.AbstractThrowableAssert;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;

/** A refused post returns the exact reason, which belongs to one of NDK's statuses. */
class RefusalTest {
    private final Rig rig = Rig.connected(QueuePairLimits.depths(2, 2).withInlineBytes(8));

    @AfterEach
    void close() {
        rig.close();
    }

    private static AbstractThrowableAssert<?, ?> refused(PostResult result, Status expected) {
        assertThat(result.isAccepted()).isFalse();
        assertThat(result.status()).isEqualTo(expected);
        return assertThatThrownBy(result::orThrow)
                .isInstanceOf(VerbenaException.class)
                .hasMessage("The request was refused: %s. %s".formatted(result.reason(), expected));
    }

    @Test
    void anAcceptedRequestThrowsNothing() {
        PostResult.ACCEPTED.orThrow();
        assertThat(PostResult.ACCEPTED.status()).isEqualTo(Status.SUCCESS);
        assertThat(PostResult.ofErrno(0)).isSameAs(PostResult.ACCEPTED);
    }

    @Test
    void ofABoundWindow() {
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            OpFlags read = OpFlags.ALLOW_REMOTE_READ;
            rig.a.bind(1, window, rig.memory, 0, 8, read).orThrow();
            refused(rig.a.bind(2, window, rig.memory, 0, 8, read), Status.INVALID_DEVICE_REQUEST)
                    .hasMessageContaining("the window is still bound: invalidate it first");
            rig.a.invalidate(3, window, OpFlags.NONE).orThrow();
            rig.poll();
            refused(rig.a.invalidate(4, window, OpFlags.NONE), Status.INVALID_DEVICE_REQUEST)
                    .hasMessageContaining("the window is not bound on this queue pair");
        }
    }

    @Test
    void ofAFullQueue() {
        rig.device.running = false;
        rig.a.send(1, rig.bytes(1)).orThrow();
        rig.a.send(2, rig.bytes(1)).orThrow();
        refused(rig.a.send(3, rig.bytes(1)), Status.NO_MORE_ENTRIES)
                .hasMessageContaining("poll its completion queue");
        assertThat(rig.a.outstandingRequests()).isEqualTo(2);
        rig.device.running = true;
        rig.device.run();
        rig.poll();
        assertThat(rig.a.outstandingRequests()).isZero();
    }

    @Test
    void ofAReceive() {
        rig.a.receive(1, rig.bytes(1)).orThrow();
        rig.a.receive(2, rig.bytes(1)).orThrow();
        assertThat(rig.a.outstandingReceives()).isEqualTo(2);
        refused(rig.a.receive(3, rig.bytes(1)), Status.NO_MORE_ENTRIES);
    }

    @Test
    void ofTooManyInlineBytes() {
        refused(rig.a.send(1, rig.bytes(9), OpFlags.INLINE), Status.INVALID_PARAMETER)
                .hasMessageContaining("maxInlineBytes");
    }

    @Test
    void ofBytesBeyondRemoteMemory() {
        RemoteMemory target = new RemoteMemory(Rig.REMOTE, 1, 8);
        refused(rig.a.write(1, rig.bytes(9), target, 0, OpFlags.NONE), Status.INVALID_PARAMETER)
                .hasMessageContaining("beyond the remote memory");
    }

    @Test
    void ofAProviderThatRefuses() {
        rig.device.answer = 12;
        rig.device.refused = 0;
        PostResult result = rig.a.send(1, rig.bytes(1));
        rig.device.answer = 0;
        refused(result, Status.INSUFFICIENT_RESOURCES)
                .hasMessageContaining("the provider refused it")
                .hasMessageContaining("ENOMEM");
    }

    @Test
    void ofAProviderThatRefusesAReceive() {
        rig.device.answer = 12;
        rig.device.refused = 0;
        PostResult result = rig.a.receive(1, rig.bytes(1));
        rig.device.answer = 0;
        refused(result, Status.INSUFFICIENT_RESOURCES).hasMessageContaining("ENOMEM");
        assertThat(rig.a.outstandingReceives()).isZero();
        rig.a.receive(2, rig.bytes(1)).orThrow();
        rig.a.receive(3, rig.bytes(1)).orThrow();
    }

    @Test
    void ofAProviderThatRefusesAnInlineRequest() {
        rig.device.answer = 22;
        rig.device.refused = 0;
        PostResult result = rig.a.send(1, rig.bytes(1), OpFlags.INLINE);
        rig.device.answer = 0;
        refused(result, Status.INVALID_PARAMETER).hasMessageContaining("EINVAL");
    }

    @Test
    void ofWhatIsNull() {
        OpFlags none = OpFlags.NONE;
        BufferList one = rig.bytes(1);
        RemoteMemory target = new RemoteMemory(Rig.REMOTE, 1, 8);
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

    /** A provider's errno is kept, also one that Linux does not have. */
    @ParameterizedTest
    @ValueSource(ints = {1, 12, 22, 133, 134, 9999})
    void anErrnoOfTheProvider(int errno) {
        PostResult result = PostResult.ofErrno(errno);
        assertThat(result.errno()).isEqualTo(errno);
        assertThat(result.reason()).contains("the provider refused it", "errno " + errno);
        refused(result, VerbenaException.statusOf(errno));
    }

    static List<PostResult> reasons() throws IllegalAccessException {
        List<PostResult> all = new ArrayList<>();
        for (Field field : PostResult.class.getFields()) {
            if (field.getType() == PostResult.class) {
                PostResult one = (PostResult) field.get(null);
                assertThat(one).hasToString(field.getName());
                all.add(one);
            }
        }
        assertThat(all)
                .hasSize(28)
                .contains(PostResult.ACCEPTED); // and 25 of posts, two of channels
        all.remove(PostResult.ACCEPTED);
        return all;
    }

    @ParameterizedTest
    @MethodSource("reasons")
    void everyRefusalHasAStatusAndAReason(PostResult refusal) {
        assertThat(refusal.isAccepted()).isFalse();
        assertThat(refusal.status().isSuccess()).isFalse();
        assertThat(refusal.errno()).isZero();
        assertThat(refusal.reason()).isNotBlank().doesNotEndWith(".");
    }
}
