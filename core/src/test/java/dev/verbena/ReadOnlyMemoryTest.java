package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Rights;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Memory that nobody may write to. The kernel pins memory as writable, and refuses a read-only
 * mapping, when any right to write is asked for, or the right to bind windows.
 */
class ReadOnlyMemoryTest {
    private final Rig rig = Rig.connected(QueuePairLimits.depths(8, 8));
    private final MemorySegment memory = rig.arena.allocate(4096, 4096);
    private final MemorySegment readOnly = memory.asReadOnly();

    @AfterEach
    void close() {
        rig.close();
    }

    private static Access[] rights(Access... rights) {
        return rights;
    }

    @Test
    void aReadOnlyMappingOfAFileIsRegisteredAndSentFrom(@TempDir Path folder) throws IOException {
        Path file = Files.write(folder.resolve("file"), new byte[4096]);
        rig.device.pagesAreReadOnly = true;
        try (FileChannel channel = FileChannel.open(file);
                MemoryRegion region =
                        rig.domain.register(
                                channel.map(FileChannel.MapMode.READ_ONLY, 0, 4096, rig.arena))) {
            assertThat(rig.device.registeredFor.getLast()).isZero();
            assertThat(region.bindable()).isFalse();
            BufferList bytes = new BufferList(1).add(region, 0, 8);
            rig.b.receive(1, rig.bytes(8)).orThrow();
            rig.a.send(2, bytes).orThrow();
            assertThat(rig.poll()).hasSize(2);
            assertThat(rig.a.receive(3, bytes).status()).isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(rig.a.read(4, bytes, Rig.REMOTE, Rig.TOKEN, OpFlags.NONE).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }
    }

    @Test
    void thePeerMayReadIt() {
        rig.device.pagesAreReadOnly = true;
        rig.domain.register(readOnly, Access.REMOTE_READ).close();
        assertThat(rig.device.registeredFor.getLast()).isEqualTo(Rights.REMOTE_READ);
    }

    @Test
    void noRightThatLetsSomebodyWriteIsGranted() {
        int before = rig.device.registeredFor.size();
        for (Access[] rights :
                new Access[][] {
                    rights(Access.LOCAL_WRITE),
                    rights(Access.REMOTE_WRITE),
                    rights(Access.RDMA_READ_SINK),
                    rights(Access.REMOTE_READ, Access.REMOTE_WRITE), // atomics, too
                    rights(Access.WINDOWS, Access.LOCAL_WRITE)
                }) {
            assertThatThrownBy(() -> rig.domain.register(readOnly, rights))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("read-only")
                    .hasMessageContaining(rights[rights.length - 1].name());
        }
        assertThat(rig.device.registeredFor).hasSize(before);
    }

    @Test
    void noPartOfAListOfItTakesAMessage() {
        try (MemoryRegion region = rig.domain.register(readOnly, Access.REMOTE_READ)) {
            BufferList part = new BufferList(1).add(BufferList.of(region), 8, 8);
            assertThat(rig.a.receive(1, part).status()).isEqualTo(Status.ACCESS_VIOLATION);
        }
    }

    @Test
    void aWindowIsNotBoundToIt() {
        try (MemoryRegion region = rig.domain.register(readOnly, Access.REMOTE_READ);
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            assertThat(rig.a.bind(1, window, region, 0, 64, OpFlags.ALLOW_REMOTE_READ).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(window.bound()).isFalse();
        }
    }

    @Test
    void aWindowIsBoundToItWhereThatWasAskedFor() {
        try (MemoryWindow window = rig.domain.createMemoryWindow();
                MemoryRegion region = rig.domain.register(readOnly, Access.WINDOWS)) {
            assertThat(rig.device.registeredFor.getLast()).isEqualTo(Rights.BIND_WINDOWS);
            assertThat(region.bindable()).isTrue();
            rig.a.bind(1, window, region, 0, 64, OpFlags.ALLOW_REMOTE_READ).orThrow();
            assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
            assertThat(rig.a.bind(2, window, region, 0, 64, OpFlags.ALLOW_REMOTE_WRITE).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }
    }

    @Test
    void windowsAreBoundToWritableMemoryUnasked() {
        rig.domain.register(memory).close();
        assertThat(rig.device.registeredFor.getLast()).isEqualTo(Rights.BIND_WINDOWS);
        try (Rig without =
                new Rig(QueuePairLimits.depths(1, 1), device -> device.windows = false, null)) {
            assertThat(without.memory.bindable()).isFalse();
        }
    }

    @Test
    void theAdviceNamesTheCauseWhereOnlyTheKernelKnowsIt() {
        rig.device.pagesAreReadOnly = true;
        for (Access[] rights : new Access[][] {rights(), rights(Access.LOCAL_WRITE)}) {
            assertThatThrownBy(() -> rig.domain.register(memory, rights))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.ACCESS_VIOLATION))
                    .hasMessageContaining("EFAULT")
                    .hasMessageContaining("mapped read-only")
                    .hasMessageContaining("asReadOnly()");
        }
        assertThatThrownBy(() -> rig.domain.register(readOnly, Access.WINDOWS))
                .hasMessageContaining("without WINDOWS");
    }
}
