package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Rights;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.util.List;

/** Memory of another device. */
class DmaBufTest {
    private final Rig rig = Rig.connected(QueuePairLimits.depths(8, 8).withInlineBytes(64));

    @AfterEach
    void close() {
        rig.close();
    }

    @Test
    void itIsRegisteredAndNamedByItsAddressForThePeer() {
        try (MemoryRegion region =
                rig.domain.registerDmaBuf(
                        7, 4096 + 16, 8192, 16, Access.REMOTE_READ, Access.REMOTE_WRITE)) {
            assertThat(rig.device.dmaBufs).containsExactly(List.of(7L, 4112L, 8192L, 16L));
            assertThat(rig.device.registeredFor.getLast() & Rights.REMOTE_WRITE).isNotZero();
            assertThat(region.bytes()).isEqualTo(8192);
            assertThat(region.remoteMemory())
                    .isEqualTo(new RemoteMemory(16, region.remoteToken(), 8192));
            assertThat(region.pageBytes()).isZero();
            assertThat(region)
                    .hasToString("MemoryRegion of 8192 bytes of a dma-buf, named from 0x10");
            rig.b.receive(1, new BufferList(1).add(region, 100, 8000)).orThrow();
            rig.a.send(2, BufferList.of(region)).orThrow();
            rig.poll();
            MemorySegment sges = MemorySegment.ofArray(rig.device.receives.getLast().sges());
            assertThat(sges.get(JAVA_LONG_UNALIGNED, 0)).isEqualTo(116);
            assertThatThrownBy(() -> new BufferList(1).add(region, 8192, 1))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
    }

    @Test
    void aWindowIsBoundToIt() {
        try (MemoryRegion region = rig.domain.registerDmaBuf(7, 0, 8192, 0, Access.REMOTE_WRITE);
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            rig.a.bind(1, window, region, 64, 64, OpFlags.ALLOW_REMOTE_WRITE).orThrow();
            assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
            assertThat(window.remoteMemory().address()).isEqualTo(64);
        }
    }

    @Test
    void javaHasNoAccessToItsBytes() {
        try (MemoryRegion region = rig.domain.registerDmaBuf(7, 0, 8192, 0)) {
            assertThatThrownBy(region::memory)
                    .isInstanceOf(UnsupportedOperationException.class)
                    .hasMessageContaining("no access to a dma-buf");
            for (long offset : new long[] {0, 1, 8000}) {
                BufferList bytes = new BufferList(1).add(region, offset, 8);
                assertThat(rig.a.send(1, bytes, OpFlags.INLINE).status())
                        .isEqualTo(Status.ACCESS_VIOLATION);
                assertThat(rig.a.send(1, bytes, OpFlags.INLINE.and(OpFlags.DEFER)).status())
                        .isEqualTo(Status.ACCESS_VIOLATION);
            }
        }
    }

    @Test
    void aProviderWithoutThemSaysSoInOneSentence() {
        rig.device.dmaBufError = Errno.EOPNOTSUPP;
        assertThatThrownBy(() -> rig.domain.registerDmaBuf(7, 0, 8192, 0))
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.NOT_SUPPORTED))
                .hasMessageContaining("ibv_reg_dmabuf_mr(descriptor 7, 8,192 bytes)")
                .hasMessageContaining("cannot register dma-bufs");
    }

    @Test
    void otherRefusalsSayWhatToLookAt() {
        rig.device.dmaBufError = Errno.EBADF;
        assertThatThrownBy(() -> rig.domain.registerDmaBuf(7, 0, 8192, 0))
                .hasMessageContaining("not open");
        rig.device.dmaBufError = Errno.EINVAL;
        assertThatThrownBy(() -> rig.domain.registerDmaBuf(7, 0, 8192, 0))
                .hasMessageContaining("Is the file descriptor a dma-buf's");
        rig.device.dmaBufError = Errno.EFAULT;
        assertThatThrownBy(() -> rig.domain.registerDmaBuf(7, 0, 8192, 0))
                .hasMessageContaining("exporter");
    }

    @Test
    void argumentsThatCannotBeAreRefused() {
        for (long[] a :
                new long[][] {
                    {-1, 0, 1, 0},
                    {1, -1, 1, 4095},
                    {1, 0, 0, 0},
                    {1, 0, 1, -4096},
                    {1, 0, Long.MAX_VALUE, 4096},
                    {1, 16, 1, 0}
                }) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> rig.domain.registerDmaBuf((int) a[0], a[1], a[2], a[3]))
                    .withMessageContaining("dma-buf");
        }
        assertThatIllegalArgumentException()
                .isThrownBy(() -> rig.domain.registerDmaBuf(1, 0, 1, 0, Access.ON_DEMAND))
                .withMessageContaining("ON_DEMAND");
        assertThat(rig.device.dmaBufs).isEmpty();
    }
}
