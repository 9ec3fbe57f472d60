package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Pages;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;

class RegisteredArenaTest {
    private static final long SLAB = 1 << 16;

    private final Rig rig =
            Rig.connected(QueuePairLimits.depths(8, 8).withBuffers(3, 1).withInlineBytes(64));
    private final RegisteredArena arena =
            rig.domain.createArena(SLAB, 64 * SLAB, Access.REMOTE_READ, Access.REMOTE_WRITE);

    @AfterEach
    void close() {
        arena.close();
        rig.close();
    }

    /** Neither an arena nor a domain that could not be created keeps what it needs open. */
    @Test
    void whatCannotBeCreatedLeavesNothing() {
        FakeDevice device = new FakeDevice();
        Adapter adapter = FakeAdapters.open(device);
        ProtectionDomain domain = adapter.createProtectionDomain();
        assertThatThrownBy(() -> domain.createArena(1 << 20, 1 << 20, (Access[]) null))
                .isInstanceOf(NullPointerException.class);
        domain.close();
        domain.awaitClosed(Duration.ZERO);
        Error error = new Error("no memory");
        device.beforeStep =
                step -> {
                    throw error;
                };
        assertThatThrownBy(adapter::createProtectionDomain).isSameAs(error);
        adapter.close();
        adapter.awaitClosed(Duration.ZERO);
        device.dispose();
    }

    @Test
    void segmentsAreZeroedAlignedAndApart() {
        Random random = new Random(7);
        TreeMap<Long, MemorySegment> all = new TreeMap<>();
        for (int i = 0; i < 500; i++) {
            long bytes = random.nextInt(i % 100 == 0 ? (int) (3 * SLAB) : 3000);
            long alignment = 1L << random.nextInt(i % 100 == 50 ? 19 : 10);
            MemorySegment segment = arena.allocate(bytes, alignment);
            assertThat(segment.byteSize()).isEqualTo(bytes);
            assertThat(segment.address() % alignment).isZero();
            assertThat(segment.toArray(JAVA_BYTE)).containsOnly(0);
            segment.fill((byte) 1);
            assertThat(all.put(segment.address(), segment)).as("same address").isNull();
        }
        long end = 0;
        for (MemorySegment segment : all.values()) {
            assertThat(segment.address()).isGreaterThanOrEqualTo(end);
            end = segment.address() + segment.byteSize();
        }
    }

    @Test
    void eachSegmentKnowsItsRegionAndItsPlaceThere() {
        Set<MemoryRegion> regions = new HashSet<>();
        for (long bytes : new long[] {0, 1, 8, SLAB, SLAB - 1, SLAB + 1, 5 * SLAB, 17}) {
            MemorySegment segment = arena.allocate(bytes);
            MemoryRegion region = arena.regionOf(segment);
            long offset = arena.offsetOf(segment);
            assertThat(region.start() + offset).isEqualTo(segment.address());
            assertThat(offset + bytes).isLessThanOrEqualTo(region.bytes());
            assertThat(region.rights()).containsExactly(Access.REMOTE_READ, Access.REMOTE_WRITE);
            RemoteMemory remote = arena.remoteMemory(segment);
            assertThat(remote)
                    .isEqualTo(new RemoteMemory(segment.address(), region.remoteToken(), bytes));
            if (bytes > 2) {
                MemorySegment last = segment.asSlice(bytes - 1);
                assertThat(arena.regionOf(last)).isSameAs(region);
                assertThat(arena.offsetOf(last)).isEqualTo(offset + bytes - 1);
            }
            regions.add(region);
        }
        // Two slabs of small ones, for the last did not fit into the first, and a region for each
        // that is larger than a slab.
        assertThat(regions).hasSizeBetween(4, 6);
    }

    @Test
    void otherMemoryIsRefused() {
        MemorySegment first = arena.allocate(SLAB + 100);
        try (Arena other = Arena.ofConfined()) {
            for (MemorySegment segment :
                    List.of(
                            other.allocate(8),
                            MemorySegment.ofArray(new byte[8]),
                            MemorySegment.NULL,
                            MemorySegment.ofAddress(first.address() - 1),
                            MemorySegment.ofAddress(first.address() + 64 * SLAB),
                            // One byte too long, and starting behind the end of a region.
                            Pages.segment(first.address(), SLAB + 101, other),
                            Pages.segment(first.address() + SLAB + 101, 1, other),
                            MemorySegment.ofAddress(Long.MIN_VALUE),
                            MemorySegment.ofAddress(-1))) {
                assertThatIllegalArgumentException()
                        .isThrownBy(() -> arena.regionOf(segment))
                        .withMessageContaining("did not allocate");
            }
        }
    }

    @Test
    void aSegmentWhoseOwnerHasFreedItIsRefusedEvenIfItsAddressIsHereNow() {
        long address = arena.allocate(64).address();
        MemorySegment stale;
        try (Arena before = Arena.ofConfined()) {
            stale = Pages.segment(address, 64, before);
            assertThat(arena.offsetOf(stale)).isZero();
        }
        BufferList list = new BufferList(1, arena);
        assertThatIllegalStateException()
                .isThrownBy(() -> list.add(stale))
                .withMessageContaining("closed");
        assertThatIllegalStateException().isThrownBy(() -> arena.regionOf(stale));
        assertThatIllegalStateException().isThrownBy(() -> arena.remoteMemory(stale));
        assertThat(list.size()).isZero();
    }

    @Test
    void codeThatKnowsAllocatorsOnlyUsesIt() {
        SegmentAllocator allocator = arena;
        MemorySegment greeting = allocator.allocateFrom("Hello");
        assertThat(greeting.scope()).isEqualTo(arena.scope());
        BufferList list = new BufferList(3, arena).add(greeting);
        list.add(greeting.asSlice(0, 2)).add(rig.memory, 0, 3);
        assertThat(list.size()).isEqualTo(3);
        assertThat(list.bytes()).isEqualTo(6 + 2 + 3);
        rig.b.receive(1, rig.bytes(64)).orThrow();
        rig.a.send(2, list).orThrow();
        assertThat(rig.poll()).hasSize(2);
        MemorySegment sges = MemorySegment.ofArray(rig.device.sends.getLast().sges());
        assertThat(sges.get(JAVA_LONG.withByteAlignment(1), 0)).isEqualTo(greeting.address());
        assertThatIllegalArgumentException()
                .isThrownBy(() -> list.clear().add(MemorySegment.NULL.asSlice(0)));
    }

    @Test
    void aListWithoutAnArenaSaysWhatItNeeds() {
        assertThatIllegalStateException()
                .isThrownBy(() -> new BufferList(1).add(arena.allocate(8)))
                .withMessageContaining("new BufferList(capacity, arena)");
    }

    @Test
    void namingASegmentAllocatesNothing() {
        MemorySegment segment = arena.allocate(64);
        BufferList list = new BufferList(1, arena);
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 20 && least > 0; round++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < 10_000; i++) {
                list.clear().add(segment);
            }
            least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
        }
        assertThat(least).isZero();
    }

    @Test
    void threadsMayAllocateAtOnce() throws InterruptedException {
        ConcurrentLinkedQueue<MemorySegment> all = new ConcurrentLinkedQueue<>();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            threads.add(
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        for (int i = 0; i < 2000; i++) {
                                            MemorySegment segment = arena.allocate(100);
                                            arena.regionOf(segment);
                                            all.add(segment);
                                        }
                                    }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(all).hasSize(8000);
        assertThat(all.stream().map(MemorySegment::address).distinct()).hasSize(8000);
    }

    @Test
    void sizesThatCannotBeAreRefused() {
        for (long[] size : new long[][] {{-1, 1}, {1, 3}, {1, 0}, {1, -4}, {1, Long.MIN_VALUE}}) {
            assertThatIllegalArgumentException().isThrownBy(() -> arena.allocate(size[0], size[1]));
        }
        for (long[] size : new long[][] {{3000, SLAB}, {1024, SLAB}, {SLAB, 0}, {SLAB, 1L << 50}}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> rig.domain.createArena(size[0], size[1]));
        }
    }

    @Test
    void itAllocatesNoMoreThanItsMaximum() {
        MemorySegment large = arena.allocate(63 * SLAB);
        arena.allocate(SLAB);
        for (long[] size : new long[][] {{1, 1}, {SLAB + 1, 1}, {1L << 62, 1}, {1, 1L << 62}}) {
            assertThatThrownBy(() -> arena.allocate(size[0], size[1]))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INSUFFICIENT_RESOURCES))
                    .hasMessageContaining("4,194,304 of its 4,194,304 bytes");
        }
        large.set(JAVA_BYTE, 63 * SLAB - 1, (byte) 1);
    }

    @Test
    void aSlabThatCannotBeRegisteredIsTriedAgainByTheNextAllocation() {
        rig.device.pagesAreReadOnly = true;
        assertThatThrownBy(() -> arena.allocate(8)).hasMessageContaining("ibv_reg_mr");
        rig.device.pagesAreReadOnly = false;
        assertThat(arena.offsetOf(arena.allocate(8))).isZero();
    }

    @Test
    void aSlabIsNotClosedAlone() {
        MemorySegment segment = arena.allocate(8);
        MemoryRegion region = arena.regionOf(segment);
        assertThatIllegalStateException()
                .isThrownBy(region::close)
                .withMessageContaining("is closed with it");
        segment.set(JAVA_LONG, 0, 1);
        rig.a.send(1, new BufferList(1, arena).add(segment)).orThrow();
        arena.close();
        region.awaitClosed(Duration.ZERO);
    }

    @Test
    void closingItFreesAll() throws IOException {
        MemorySegment small = arena.allocate(8);
        MemorySegment large = arena.allocate(4 * SLAB);
        BufferList list = new BufferList(1, arena).add(small);
        arena.close();
        arena.close();
        arena.awaitClosed(Duration.ZERO);
        for (MemorySegment segment : List.of(small, large)) {
            assertThat(AllocateTest.mapped(segment.address())).isFalse();
            assertThatIllegalStateException().isThrownBy(() -> segment.get(JAVA_BYTE, 0));
        }
        assertThat(rig.a.send(1, list).status()).isEqualTo(Status.ACCESS_VIOLATION);
        assertThat(rig.a.send(1, list, OpFlags.INLINE).status()).isEqualTo(Status.ACCESS_VIOLATION);
        assertThatIllegalStateException().isThrownBy(() -> arena.allocate(8));
        assertThatIllegalStateException().isThrownBy(() -> list.clear().add(small));
    }

    @Test
    void itsMemoryStaysAsLongAsAWindowIsBound() throws IOException {
        MemorySegment segment = arena.allocate(64);
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            rig.a
                    .bind(
                            1,
                            window,
                            arena.regionOf(segment),
                            arena.offsetOf(segment),
                            64,
                            OpFlags.ALLOW_REMOTE_WRITE)
                    .orThrow();
            assertThat(rig.poll()).hasSize(1);
            arena.close();
            assertThatIllegalStateException().isThrownBy(() -> segment.get(JAVA_BYTE, 0));
            assertThat(AllocateTest.mapped(segment.address())).isTrue();
            assertThatThrownBy(() -> arena.awaitClosed(Duration.ZERO))
                    .hasMessageContaining("must stay allocated");
        }
        arena.awaitClosed(Duration.ofSeconds(10));
        assertThat(AllocateTest.mapped(segment.address())).isFalse();
    }

    @Test
    void itsMemoryStaysWhenASlabCannotBeDeregistered() throws IOException {
        MemorySegment segment = arena.allocate(64);
        rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EINVAL);
        assertThatThrownBy(arena::close).hasMessageContaining("ibv_dereg_mr");
        assertThat(AllocateTest.mapped(segment.address())).isTrue();
        rig.device.destroyErrors.clear();
        rig.device.forgetRefused();
    }

    @Test
    void itIsNotClosedWhileACallUsesASegment() throws Exception {
        Pipe pipe = Pipe.open();
        ByteBuffer bytes = arena.allocate(16 * SLAB).asByteBuffer();
        Thread writer =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    try {
                                        pipe.sink().write(bytes); // blocks: a pipe is small
                                    } catch (IOException e) {
                                        throw new AssertionError(e);
                                    }
                                });
        assertThat(pipe.source().read(ByteBuffer.allocate(1))).isEqualTo(1);
        assertThatIllegalStateException()
                .isThrownBy(arena::close)
                .withMessageContaining("inside a call that uses its memory");
        assertThat(arena.isClosed()).isFalse();
        pipe.source().configureBlocking(false);
        ByteBuffer drain = ByteBuffer.allocate(1 << 16);
        long start = System.nanoTime();
        while (writer.isAlive()) {
            assertThat(System.nanoTime() - start).isLessThan(15_000_000_000L);
            pipe.source().read(drain.clear());
        }
    }
}
