package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Pages;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

/** Memory that a region owns. */
class AllocateTest {
    private final Rig rig = Rig.connected(QueuePairLimits.depths(8, 8).withInlineBytes(64));

    @AfterEach
    void close() {
        rig.close();
    }

    /** Whether the process has memory at an address. */
    static boolean mapped(long address) throws IOException {
        return !permissions(address).isEmpty();
    }

    /** What the process may do at an address, as in "rw-p"; empty where nothing is mapped. */
    static String permissions(long address) throws IOException {
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.map(line -> line.split("[- ]", 3))
                    .filter(
                            range ->
                                    Long.parseUnsignedLong(range[0], 16) <= address
                                            && address < Long.parseUnsignedLong(range[1], 16))
                    .map(range -> range[2].substring(0, 4))
                    .findFirst()
                    .orElse("");
        }
    }

    private static void assertGone(MemorySegment memory) {
        assertThatThrownBy(() -> memory.get(JAVA_BYTE, 0))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void itIsZeroedAndStartsAtAPage() {
        try (MemoryRegion region = rig.domain.allocate(5000, Access.LOCAL_WRITE)) {
            MemorySegment memory = region.memory();
            assertThat(memory.byteSize()).isEqualTo(5000).isEqualTo(region.bytes());
            assertThat(memory.address() % Pages.SIZE).isZero();
            assertThat(memory.toArray(JAVA_BYTE)).containsOnly(0);
            assertThat(region.pageBytes()).isEqualTo(Pages.SIZE);
            assertThat(region.rights()).containsExactly(Access.LOCAL_WRITE);
            memory.set(JAVA_LONG, 4992, 7);
        }
        assertThat(rig.memory.pageBytes()).isZero();
    }

    @Test
    void anyThreadMayUseIt() throws InterruptedException {
        try (MemoryRegion region = rig.domain.allocate(8, Access.LOCAL_WRITE)) {
            Thread other = Thread.ofPlatform().start(() -> region.memory().set(JAVA_LONG, 0, 7));
            other.join();
            assertThat(region.memory().get(JAVA_LONG, 0)).isEqualTo(7);
        }
    }

    @Test
    void itsAlignmentIsTheOneAskedFor() throws IOException {
        for (long alignment = 1; alignment <= 1 << 24; alignment <<= 1) {
            MemoryOptions options = MemoryOptions.DEFAULTS.withAlignment(alignment);
            long address;
            try (MemoryRegion region = rig.domain.allocate(100, options)) {
                address = region.memory().address();
                assertThat(address % alignment).as("aligned to %d", alignment).isZero();
                region.memory().fill((byte) 1);
                assertThat(mapped(address)).isTrue();
            }
            assertThat(mapped(address)).isFalse();
        }
    }

    @Test
    void nothingIsKeptOfWhatWasMappedToFindAnAlignedAddress() throws IOException {
        MemoryOptions options = MemoryOptions.DEFAULTS.withAlignment(1 << 28);
        long before = addressSpace();
        List<MemoryRegion> regions =
                Stream.generate(() -> rig.domain.allocate(100, options)).limit(50).toList();
        assertThat(addressSpace() - before).isLessThan(4L << 30); // or 12.5 GiB
        regions.forEach(MemoryRegion::close);
    }

    private static long addressSpace() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[0])
                * Pages.SIZE;
    }

    @Test
    void itMayBeLargerThanAnArray() {
        long bytes = 3L << 30;
        try (MemoryRegion region = rig.domain.allocate(bytes, Access.LOCAL_WRITE)) {
            region.memory().set(JAVA_BYTE, bytes - 1, (byte) 7);
            BufferList end = new BufferList(1).add(region, bytes - 1, 1);
            rig.a.send(1, end).orThrow();
            assertThat(BufferList.of(region).bytes()).isEqualTo(bytes);
        }
    }

    @Test
    void noBytesAreRefused() {
        for (long bytes : new long[] {0, -1}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> rig.domain.allocate(bytes))
                    .withMessageContaining("1 byte");
        }
    }

    @Test
    void moreThanThereAreAddressesIsRefused() {
        for (HugePages pages : HugePages.values()) {
            MemoryOptions options =
                    MemoryOptions.DEFAULTS.withAlignment(1L << 40).withHugePages(pages);
            for (long bytes : new long[] {Long.MAX_VALUE, Long.MAX_VALUE - (1L << 40), 1L << 62}) {
                assertThatThrownBy(() -> rig.domain.allocate(bytes, options))
                        .as("%d bytes, %s", bytes, pages)
                        .isInstanceOf(VerbenaException.class);
            }
        }
    }

    @Test
    void moreThanThereIsIsRefusedWithAdvice() {
        assertThatThrownBy(() -> rig.domain.allocate(1L << 60))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining("mmap(1,152,921,504,606,846,976 bytes)")
                .hasMessageContaining("ulimit -v");
    }

    @Nested
    class WhenItsRegionIsClosed {
        private final MemoryRegion region = rig.domain.allocate(64, Access.REMOTE_WRITE);
        private final MemorySegment memory = region.memory();
        private final long address = memory.address();

        @Test
        void itIsFreed() throws IOException {
            memory.set(JAVA_BYTE, 0, (byte) 1);
            region.close();
            assertGone(memory);
            assertThat(mapped(address)).isFalse();
        }

        @Test
        void aListThatNamesItIsRefused() {
            BufferList list = BufferList.of(region);
            region.close();
            assertThat(rig.a.send(1, list).status()).isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(rig.a.send(1, list, OpFlags.INLINE).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }

        @Test
        void itStaysAsLongAsAWindowIsBound() throws IOException {
            try (MemoryWindow window = rig.domain.createMemoryWindow()) {
                rig.a.bind(1, window, region, 0, 64, OpFlags.ALLOW_REMOTE_WRITE).orThrow();
                assertThat(rig.poll()).hasSize(1);
                region.close();
                assertGone(memory);
                assertThat(mapped(address)).isTrue(); // the peer may write
                assertThatThrownBy(() -> region.awaitClosed(Duration.ZERO))
                        .hasMessageContaining("must stay allocated");
            }
            region.awaitClosed(Duration.ofSeconds(10));
            assertThat(mapped(address)).isFalse();
        }

        @Test
        void itStaysWhenTheDeviceMayStillWrite() throws IOException {
            rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EINVAL);
            assertThatThrownBy(region::close).hasMessageContaining("ibv_dereg_mr");
            assertGone(memory);
            assertThat(mapped(address)).isTrue();
            rig.device.destroyErrors.clear();
            rig.device.forgetRefused();
        }

        @Test
        void aCallThatUsesItIsLeftInPeace() throws Exception {
            Pipe pipe = Pipe.open();
            MemoryRegion large = rig.domain.allocate(1 << 20, Access.LOCAL_WRITE);
            ByteBuffer bytes = large.memory().asByteBuffer();
            CountDownLatch begun = new CountDownLatch(1);
            Thread writer =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        begun.countDown();
                                        try {
                                            while (bytes.hasRemaining()) {
                                                pipe.sink().write(bytes); // blocks: a pipe is small
                                            }
                                        } catch (IOException | IllegalStateException e) {
                                            // the region was closed between two writes
                                        }
                                    });
            begun.await();
            assertThat(pipe.source().read(ByteBuffer.allocate(1))).isEqualTo(1);
            long place = large.memory().address();
            large.close();
            large.awaitClosed(Duration.ofSeconds(10)); // deregistered
            ByteBuffer drain = ByteBuffer.allocate(1 << 16);
            long start = System.nanoTime();
            while (writer.isAlive() || mapped(place)) {
                assertThat(System.nanoTime() - start).as("time").isLessThan(15_000_000_000L);
                pipe.source().configureBlocking(false);
                pipe.source().read(drain.clear());
            }
            assertGone(large.memory());
            region.close();
        }
    }

    @Test
    void itIsFreedWhenItCannotBeRegistered() throws IOException {
        rig.device.pagesAreReadOnly = true;
        long before = mappings();
        for (int i = 0; i < 100; i++) {
            assertThatThrownBy(() -> rig.domain.allocate(1 << 20, Access.LOCAL_WRITE))
                    .hasMessageContaining("ibv_reg_mr");
        }
        assertThat(mappings() - before).isLessThan(50);
    }

    private static long mappings() throws IOException {
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.count();
        }
    }

    @Nested
    class InHugePages {
        private final long huge = Pages.hugeSize();

        @Test
        void transparentOnesStartWhereOneStarts() {
            MemoryOptions options = MemoryOptions.DEFAULTS.withHugePages(HugePages.TRANSPARENT);
            try (MemoryRegion region = rig.domain.allocate(huge, options);
                    MemoryRegion small = rig.domain.allocate(1, options)) {
                assertThat(region.memory().address() % huge).isZero();
                assertThat(small.pageBytes()).isEqualTo(Pages.SIZE);
            }
        }

        @Test
        void reservedOnesAreUsedOrTheExceptionSaysHowToHaveThem() {
            MemoryOptions options = MemoryOptions.DEFAULTS.withHugePages(HugePages.REQUIRED);
            if (Pages.hugeFree() > 0) {
                try (MemoryRegion region = rig.domain.allocate(1, options)) {
                    assertThat(region.pageBytes()).isEqualTo(huge);
                    region.memory().fill((byte) 1);
                }
            }
            assertThatThrownBy(() -> rig.domain.allocate(1L << 40, options))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INSUFFICIENT_RESOURCES))
                    .hasMessageContaining("huge pages of %,d KiB", huge >> 10)
                    .hasMessageContaining("vm.nr_hugepages");
        }

        @Test
        void whereThereAreNoneOrdinaryOnesTakeTheirPlace() {
            MemoryOptions options = MemoryOptions.DEFAULTS.withHugePages(HugePages.PREFERRED);
            long more = (Pages.hugeFree() + 1) * huge;
            try (MemoryRegion region = rig.domain.allocate(more, options)) {
                assertThat(region.pageBytes()).isEqualTo(Pages.SIZE);
                region.memory().set(JAVA_BYTE, more - 1, (byte) 1);
            }
        }
    }

    @Test
    void optionsAreComparedByValue() {
        MemoryOptions options =
                MemoryOptions.DEFAULTS.withAlignment(1 << 16).withHugePages(HugePages.PREFERRED);
        assertThat(options)
                .isEqualTo(
                        MemoryOptions.DEFAULTS
                                .withHugePages(HugePages.PREFERRED)
                                .withAlignment(1 << 16))
                .hasSameHashCodeAs(
                        MemoryOptions.DEFAULTS
                                .withHugePages(HugePages.PREFERRED)
                                .withAlignment(1 << 16))
                .isNotEqualTo(MemoryOptions.DEFAULTS)
                .isNotEqualTo(options.withAlignment(1))
                .hasToString("MemoryOptions(aligned to 65536, huge pages: PREFERRED)");
        for (long alignment : new long[] {0, -8, 3, 1L << 41, Long.MIN_VALUE}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> MemoryOptions.DEFAULTS.withAlignment(alignment))
                    .withMessageContaining(Long.toString(alignment));
        }
    }
}
