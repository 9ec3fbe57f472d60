package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Rights;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/** Memory that is paged on demand, and hints for memory that the device writes to. */
class OnDemandMemoryTest {
    private static final long ALL = 3;

    private final Rig rig = rig(device -> device.paging = ALL);

    private static Rig rig(Consumer<FakeDevice> habits) {
        return new Rig(QueuePairLimits.depths(8, 8), habits, null).connect();
    }

    @AfterEach
    void close() {
        rig.close();
    }

    private int lastRights() {
        return rig.device.registeredFor.getLast();
    }

    @Test
    void aDeviceWithoutItRefusesItInWordsAndIsNotAsked() {
        try (Rig without = rig(device -> {})) {
            int before = without.device.registeredFor.size();
            assertThatThrownBy(
                            () ->
                                    without.domain.allocate(
                                            100, Access.LOCAL_WRITE, Access.ON_DEMAND))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.NOT_SUPPORTED))
                    .hasMessageContaining("fake0")
                    .hasMessageContaining("no on-demand paging")
                    .hasMessageContaining("without ON_DEMAND");
            assertThat(without.device.registeredFor).hasSize(before);
            assertThat(without.adapter.info().onDemandPaging().supported()).isFalse();
            assertThat(without.adapter.info().onDemandPaging().sends()).isFalse();
            assertThat(without.adapter.info().onDemandPaging())
                    .hasToString("OnDemandPaging(not supported)");
        }
    }

    @Test
    void memoryOfAnyKindIsRegisteredForIt() {
        rig.domain.allocate(100, Access.LOCAL_WRITE, Access.ON_DEMAND).close();
        assertThat(lastRights())
                .isEqualTo(Rights.LOCAL_WRITE | Rights.ON_DEMAND | Rights.BIND_WINDOWS);
        try (RegisteredArena arena = rig.domain.createArena(Access.ON_DEMAND)) {
            assertThat(arena.regionOf(arena.allocate(1)).rights())
                    .containsExactly(Access.ON_DEMAND);
        }
        assertThat(lastRights()).isEqualTo(Rights.ON_DEMAND | Rights.BIND_WINDOWS);
        rig.domain.register(rig.arena.allocate(100).asReadOnly(), Access.ON_DEMAND).close();
        assertThat(lastRights()).isEqualTo(Rights.ON_DEMAND);
    }

    /** Soft-RoCE has it, and puts data in the wrong place: somebody should know. */
    @Test
    void aDefectOfTheProviderIsLoggedOnceForEachAdapter() {
        try (Rig soft =
                new Rig(
                        QueuePairLimits.depths(4, 4),
                        device -> {
                            device.vendorId = FakeDevice.RXE;
                            device.paging = ALL;
                        },
                        null)) {
            List<String> logged =
                    LoggedMessages.of(() -> soft.domain.allocate(8, Access.ON_DEMAND).close());
            assertThat(logged)
                    .singleElement()
                    .asString()
                    .contains("Soft-RoCE's on-demand paging loses where in a page");
            assertThat(LoggedMessages.of(() -> soft.domain.allocate(8).close())).isEmpty();
            assertThat(LoggedMessages.of(() -> soft.domain.allocate(8, Access.ON_DEMAND).close()))
                    .isEmpty();
        }
        assertThat(LoggedMessages.of(() -> rig.domain.allocate(8, Access.ON_DEMAND).close()))
                .isEmpty();
    }

    @Test
    void aRefusalByTheKernelSaysHowToDoWithoutIt() {
        rig.device.pagesAreReadOnly = true;
        assertThatThrownBy(() -> rig.domain.allocate(100, Access.LOCAL_WRITE, Access.ON_DEMAND))
                .hasMessageContaining("ibv_reg_mr(100 bytes)")
                .hasMessageContaining("Without ON_DEMAND it is pinned");
    }

    @Test
    void theAdapterSaysForWhatItCanBeUsed() {
        OnDemandPaging all = rig.adapter.info().onDemandPaging();
        assertThat(all)
                .hasToString(
                        "OnDemandPaging(for sends, receives, shared receives, writes, reads, atomics)");
        assertThat(all.implicit()).isTrue();
        OnDemandPaging some = paging(1, 1 | 4);
        assertThat(some).hasToString("OnDemandPaging(for sends, writes)");
        assertThat(some.implicit()).isFalse();
        assertThat(all)
                .isNotEqualTo(some)
                .isEqualTo(paging(3, 63))
                .hasSameHashCodeAs(paging(3, 63));
        assertThat(paging(0, 63).reads()).isFalse();
    }

    private static OnDemandPaging paging(long general, int operations) {
        try (Rig other =
                rig(
                        device -> {
                            device.paging = general;
                            device.pagingOperations = operations;
                        })) {
            return other.adapter.info().onDemandPaging();
        }
    }

    @Test
    void prefetchNamesTheBytes() {
        try (MemoryRegion region = rig.domain.allocate(9000, Access.ON_DEMAND)) {
            region.prefetch(4096, 100, Prefetch.READ);
            region.prefetch(0, 9000, Prefetch.WRITE);
            region.prefetch(8999, 1, Prefetch.PRESENT);
            region.prefetch(9000, 0, Prefetch.READ);
            long start = region.start();
            long key = region.localToken();
            assertThat(rig.device.prefetches)
                    .containsExactly(
                            List.of(0L, start + 4096, 100L, key),
                            List.of(1L, start, 9000L, key),
                            List.of(2L, start + 8999, 1L, key));
            for (long[] range : new long[][] {{0, 9001}, {9000, 1}, {-1, 1}, {0, -1}}) {
                assertThatThrownBy(() -> region.prefetch(range[0], range[1], Prefetch.READ))
                        .isInstanceOf(IndexOutOfBoundsException.class);
            }
        }
    }

    @Test
    void prefetchTakesLongRangesInParts() {
        try (MemoryRegion region = rig.domain.allocate(5L << 30, Access.ON_DEMAND)) {
            region.prefetch(0, region.bytes(), Prefetch.READ);
            assertThat(rig.device.prefetches)
                    .extracting(p -> p.get(2))
                    .containsExactly(1L << 31, 1L << 31, 1L << 30);
            assertThat(rig.device.prefetches.getLast().get(1))
                    .isEqualTo(region.start() + (4L << 30));
        }
    }

    @Test
    void prefetchOfPinnedMemoryHasNothingToDo() {
        rig.memory.prefetch(0, 4096, Prefetch.WRITE);
        assertThat(rig.device.prefetches).isEmpty();
        assertThatThrownBy(() -> rig.memory.prefetch(0, 4097, Prefetch.WRITE))
                .isInstanceOf(IndexOutOfBoundsException.class);
    }

    @Test
    void prefetchThatFailsSaysWhatThatMeans() {
        rig.device.prefetchError = Errno.EOPNOTSUPP;
        MemoryRegion region = rig.domain.allocate(100, Access.ON_DEMAND);
        assertThatThrownBy(() -> region.prefetch(0, 100, Prefetch.READ))
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.NOT_SUPPORTED))
                .hasMessageContaining("ibv_advise_mr(READ, 100 bytes)")
                .hasMessageContaining("when a request needs it");
        region.close();
        region.awaitClosed(Duration.ZERO); // the failure has left nothing behind
        assertThatIllegalStateException().isThrownBy(() -> region.prefetch(0, 100, Prefetch.READ));
    }

    @Test
    void relaxedOrderingIsAskedFor() {
        rig.domain.allocate(100, Access.LOCAL_WRITE, Access.RELAXED_ORDERING).close();
        assertThat(lastRights())
                .isEqualTo(Rights.LOCAL_WRITE | Rights.RELAXED_ORDERING | Rights.BIND_WINDOWS);
    }

    @Test
    void whereItIsRefusedTheOrderIsKeptWithoutAnError() {
        for (int errno : new int[] {Errno.EOPNOTSUPP, Errno.EINVAL}) {
            rig.device.optionalRightsError = errno;
            rig.domain.allocate(100, Access.LOCAL_WRITE, Access.RELAXED_ORDERING).close();
            assertThat(lastRights()).isEqualTo(Rights.LOCAL_WRITE | Rights.BIND_WINDOWS);
        }
        rig.device.optionalRightsError = Errno.ENOMEM;
        assertThatThrownBy(() -> rig.domain.allocate(100, Access.RELAXED_ORDERING))
                .hasMessageContaining("ENOMEM");
    }
}
