package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Supplier;

class RemoteMemoryTest {
    private static final long ADDRESS = 0x0123_4567_89AB_CDE8L;
    private static final int TOKEN = 0xFEDC_BA98;
    private static final OpFlags NONE = OpFlags.NONE;

    private final RemoteMemory memory = new RemoteMemory(ADDRESS, TOKEN, 100);
    private final Rig rig = Rig.connected(QueuePairLimits.depths(16, 16));

    @AfterEach
    void close() {
        rig.close();
    }

    @Test
    void itsBytesInAMessageAreThoseOfTheTable() {
        MemorySegment message = MemorySegment.ofArray(new byte[23]);
        new RemoteMemory(ADDRESS, TOKEN, 0x0102_0304_0506L).writeTo(message, 3);
        byte[] bytes = message.toArray(ValueLayout.JAVA_BYTE);
        assertThat(HexFormat.of().formatHex(bytes))
                .isEqualTo("000000" + "0123456789abcde8" + "0000010203040506" + "fedcba98");
        assertThat(RemoteMemory.readFrom(message, 3))
                .isEqualTo(new RemoteMemory(ADDRESS, TOKEN, 0x0102_0304_0506L));
    }

    @Test
    void aMessageThatIsTooShortOrSenselessIsRefused() {
        MemorySegment message = MemorySegment.ofArray(new byte[RemoteMemory.MESSAGE_BYTES]);
        assertThatThrownBy(() -> RemoteMemory.readFrom(message, 1))
                .isInstanceOf(IndexOutOfBoundsException.class);
        assertThatThrownBy(() -> memory.writeTo(message, 1))
                .isInstanceOf(IndexOutOfBoundsException.class);
        assertThat(message.toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
        message.set(ValueLayout.JAVA_BYTE, 8, (byte) 0x80); // the length's highest bit
        assertThatThrownBy(() -> RemoteMemory.readFrom(message, 0))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void aPartLiesInTheWhole() {
        assertThat(memory.slice(60, 40)).isEqualTo(new RemoteMemory(ADDRESS + 60, TOKEN, 40));
        assertThat(memory.slice(100, 0).bytes()).isZero();
        assertThatThrownBy(() -> memory.slice(61, 40))
                .isInstanceOf(IndexOutOfBoundsException.class);
        assertThatThrownBy(() -> memory.slice(-1, 2)).isInstanceOf(IndexOutOfBoundsException.class);
    }

    @Test
    void equalOnesHaveAllThreeInCommon() {
        assertThat(memory)
                .isEqualTo(new RemoteMemory(ADDRESS, TOKEN, 100))
                .hasSameHashCodeAs(new RemoteMemory(ADDRESS, TOKEN, 100))
                .isNotEqualTo(new RemoteMemory(ADDRESS + 8, TOKEN, 100))
                .isNotEqualTo(new RemoteMemory(ADDRESS, TOKEN + 1, 100))
                .isNotEqualTo(new RemoteMemory(ADDRESS, TOKEN, 101))
                .hasToString("100 bytes at 0x123456789abcde8 of the peer, token 0xfedcxxxx");
    }

    @Test
    void regionsAndWindowsSayWhatAPeerMayUse() {
        assertThat(rig.memory.remoteMemory())
                .isEqualTo(
                        new RemoteMemory(
                                rig.memory.memory().address(),
                                rig.memory.remoteToken(),
                                rig.memory.memory().byteSize()));
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            MemorySegment message = MemorySegment.ofArray(new byte[23]);
            assertThatThrownBy(window::remoteMemory).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> window.writeTo(message, 3))
                    .isInstanceOf(IllegalStateException.class);
            rig.a.bind(1, window, rig.memory, 16, 8, OpFlags.ALLOW_REMOTE_READ).orThrow();
            assertThat(window.remoteMemory())
                    .isEqualTo(
                            new RemoteMemory(
                                    rig.memory.memory().address() + 16, window.remoteToken(), 8));
            window.writeTo(message, 3);
            assertThat(RemoteMemory.readFrom(message, 3)).isEqualTo(window.remoteMemory());
            assertThat(
                            rig.a
                                    .bind(2, window, rig.memory, 64, 32, OpFlags.ALLOW_REMOTE_READ)
                                    .status())
                    .isNotEqualTo(Status.SUCCESS);
            assertThat(window.remoteMemory().bytes()).isEqualTo(8);
            rig.a.invalidate(3, window, NONE).orThrow();
            rig.a.bind(4, window, rig.memory, 64, 32, OpFlags.ALLOW_REMOTE_READ).orThrow();
            assertThat(window.remoteMemory())
                    .isEqualTo(
                            new RemoteMemory(
                                    rig.memory.memory().address() + 64, window.remoteToken(), 32));
        }
    }

    /** Each form at an offset posts what the plain form posts. */
    @Test
    void requestsNameTheAddressBehindTheOffset() {
        BufferList eight = rig.bytes(8);
        List<Supplier<PostResult>> posts =
                List.of(
                        () -> rig.a.write(1, eight, memory, 16, NONE),
                        () -> rig.a.write(1, eight, ADDRESS + 16, TOKEN, NONE),
                        () -> rig.a.read(1, eight, memory, 16, NONE),
                        () -> rig.a.read(1, eight, ADDRESS + 16, TOKEN, NONE),
                        () -> rig.a.writeWithImmediate(1, eight, memory, 16, 7, NONE),
                        () -> rig.a.writeWithImmediate(1, eight, ADDRESS + 16, TOKEN, 7, NONE),
                        () -> rig.a.compareAndSwap(1, eight, memory, 16, 2, 3, NONE),
                        () -> rig.a.compareAndSwap(1, eight, ADDRESS + 16, TOKEN, 2, 3, NONE),
                        () -> rig.a.fetchAndAdd(1, eight, memory, 16, 2, NONE),
                        () -> rig.a.fetchAndAdd(1, eight, ADDRESS + 16, TOKEN, 2, NONE));
        for (int i = 0; i < posts.size(); i += 2) {
            posts.get(i).get().orThrow();
            posts.get(i + 1).get().orThrow();
            List<PostedRequest> sends = rig.device.sends;
            assertThat(behindIdAndList(sends.get(i)))
                    .isEqualTo(behindIdAndList(sends.get(i + 1)))
                    .isNotEmpty();
        }
    }

    private static String behindIdAndList(PostedRequest posted) {
        return HexFormat.of().formatHex(posted.request(), 24, 128);
    }

    @Test
    void bytesOutsideAreRefusedAndSendOffWhatWasDeferred() {
        BufferList eight = rig.bytes(8);
        for (long offset : new long[] {-1, 93, Long.MAX_VALUE, Long.MIN_VALUE}) {
            List<Supplier<PostResult>> posts =
                    List.of(
                            () -> rig.a.write(9, eight, memory, offset, NONE),
                            () -> rig.a.read(9, eight, memory, offset, NONE),
                            () -> rig.a.writeWithImmediate(9, eight, memory, offset, 7, NONE),
                            () -> rig.a.compareAndSwap(9, eight, memory, offset, 2, 3, NONE),
                            () -> rig.a.fetchAndAdd(9, eight, memory, offset, 2, NONE));
            for (Supplier<PostResult> post : posts) {
                rig.a.write(1, eight, memory, 92, OpFlags.DEFER).orThrow();
                assertThat(post.get().status()).isEqualTo(Status.INVALID_PARAMETER);
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
            }
        }
        rig.a.write(1, eight, memory, 92, OpFlags.DEFER).orThrow();
        assertThatThrownBy(() -> rig.a.write(2, eight, null, 0, NONE))
                .isInstanceOf(NullPointerException.class);
        assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
        rig.a.close();
        assertThat(rig.a.write(3, eight, memory, 93, NONE).status())
                .isEqualTo(Status.CONNECTION_INVALID);
    }
}
