package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The life of memory windows; {@link Rig} looks for panics and for windows left behind. */
class WindowTest {
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);

    private final Rig rig = Rig.connected(QueuePairLimits.depths(16, 16));
    private final MemoryWindow window = rig.domain.createMemoryWindow();

    @AfterEach
    void close() {
        window.close();
        rig.close();
    }

    private Status bind(OpFlags flags) {
        return rig.a.bind(1, window, rig.memory, 0, 64, flags).status();
    }

    @Test
    void aBoundWindowIsNotBoundAgainAndAFreeOneNotInvalidated() {
        assertThat(rig.a.invalidate(2, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
        bind(RW).orThrow();
        int token = window.remoteToken();
        assertThat(window.bound()).isTrue();
        assertThat(bind(RW)).isEqualTo(Status.INVALID_DEVICE_REQUEST);
        assertThat(window.remoteToken()).isEqualTo(token);
        assertThat(rig.b.invalidate(2, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        assertThat(window.bound()).isFalse();
        assertThat(rig.a.invalidate(3, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
        bind(OpFlags.NONE).orThrow();
        assertThat(window.remoteToken()).isNotEqualTo(token);
        assertThat(rig.poll())
                .containsExactly("BIND 1 SUCCESS", "INVALIDATE 2 SUCCESS", "BIND 1 SUCCESS");
    }

    @Test
    void thePeerInvalidatesAndTheReceiveSaysWhichToken() {
        bind(RW).orThrow();
        rig.a.receive(5, rig.bytes(64)).orThrow();
        int token = window.remoteToken();
        rig.b.sendAndInvalidate(6, rig.bytes(24), token, OpFlags.NONE).orThrow();
        Completions completions = new Completions(8);
        assertThat(rig.queue.poll(completions)).isEqualTo(3);
        for (int i = 0; i < 3; i++) {
            if (completions.type(i) == OperationType.RECEIVE_AND_INVALIDATE) {
                assertThat(completions.invalidatedToken(i)).isEqualTo(token);
                assertThat(completions.bytes(i)).isEqualTo(24);
                assertThat(completions.context(i)).isEqualTo(5);
                assertThat(completions.hasImmediate(i)).isFalse();
            } else {
                int index = i;
                assertThatThrownBy(() -> completions.invalidatedToken(index))
                        .isInstanceOf(IllegalStateException.class);
            }
        }
        assertThat(window.bound()).isFalse();
        assertThat(rig.a.invalidate(7, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
        bind(RW).orThrow();
    }

    /**
     * An invalidate failed, so the device has the window bound for good; the next bind made the
     * window anew. Soft-RoCE would wait for the old one when the queue pair is destroyed.
     */
    @Test
    void theQueuePairTakesAlongWhatItsWindowsWereBefore() {
        bind(OpFlags.DEFER).orThrow();
        rig.device.failAt = 1;
        rig.device.failStatus = 10;
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        bind(OpFlags.DEFER).orThrow(); // nobody has polled: the queue pair seems well
        bind(OpFlags.NONE)
                .orThrow(); // looks for an invalidation, finds the failures, makes the window anew
        rig.a.close();
        assertThat(rig.device.panics).isEmpty();
    }

    /** For the device it stays bound on the first queue pair, which frees it before its end. */
    @Test
    void aWindowThatCannotBeMadeAnewStaysWithTheQueuePairItWasBoundOn() {
        spoil();
        rig.device.controlError = 12;
        assertThat(rig.b.bind(3, window, rig.memory, 0, 64, RW).status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        rig.a.close();
        assertThat(rig.device.panics).isEmpty();
    }

    @Test
    void anErrorWhileItIsMadeAnewLosesNoNativeWindow() {
        spoil();
        rig.device.beforeWindowKey =
                () -> {
                    throw new OutOfMemoryError("Java heap space");
                };
        assertThatThrownBy(() -> rig.b.bind(3, window, rig.memory, 0, 64, RW))
                .isInstanceOf(OutOfMemoryError.class);
        assertThat(rig.device.windowCount()).isOne();
        rig.b.bind(4, window, rig.memory, 0, 64, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 4 SUCCESS");
        assertThat(rig.device.windowCount()).isOne();
    }

    @Test
    void aQueuePairThatClosesBesideItsWindowIsNotDestroyedBeforeTheWindowIsFreed()
            throws Exception {
        bind(RW).orThrow();
        rig.poll();
        Thread closing = closeWhenAWindowIsFreed(rig.a);
        window.close();
        end(closing);
    }

    @Test
    void aQueuePairThatClosesBesideABindElsewhereIsNotDestroyedBeforeTheFormerWindowIsFreed()
            throws Exception {
        spoil();
        Thread closing = closeWhenAWindowIsFreed(rig.a);
        rig.b.bind(3, window, rig.memory, 0, 64, RW).orThrow();
        end(closing);
    }

    /** Its invalidate fails: for the device it is bound on the first queue pair for good. */
    private void spoil() {
        bind(RW).orThrow();
        rig.device.failAt = 1;
        rig.device.failStatus = 10;
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        assertThat(rig.poll()).hasSize(2);
    }

    /** Closes a queue pair as far as it gets while a window is about to be freed. */
    private Thread closeWhenAWindowIsFreed(QueuePair queuePair) {
        Thread closing = Thread.ofPlatform().unstarted(queuePair::close);
        rig.device.beforeFreeingWindow =
                () -> {
                    closing.start();
                    Until.isIn(closing, Thread.State.BLOCKED, Thread.State.TERMINATED);
                };
        return closing;
    }

    private void end(Thread closing) throws InterruptedException {
        assertThat(closing.getState()).isNotEqualTo(Thread.State.NEW);
        closing.join();
        assertThat(rig.device.panics).isEmpty();
    }

    @Test
    void anInvalidationThatNobodyHasPolledIsSeenBeforeASecondOneIsPosted() {
        bind(RW).orThrow();
        rig.a.receive(5, rig.bytes(64)).orThrow();
        rig.b.sendAndInvalidate(6, rig.bytes(8), window.remoteToken(), OpFlags.NONE).orThrow();
        rig.device.run(); // it has happened, and only the device knows
        assertThat(rig.a.invalidate(7, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
        assertThat(rig.poll())
                .containsExactlyInAnyOrder(
                        "BIND 1 SUCCESS", "SEND 6 SUCCESS", "RECEIVE_AND_INVALIDATE 5 SUCCESS");
    }

    /** Which the device does not report. */
    @Test
    void whatIsSynthesizedDoesNotWaitForASilentBind() {
        bind(RW.and(OpFlags.SILENT_SUCCESS)).orThrow();
        rig.device.run();
        rig.failADeferredWrite(2);
        assertThat(rig.poll()).containsExactly("WRITE 2 INTERNAL_ERROR");
    }

    @Test
    void rxeHasAnotherBitForIt() {
        try (Rig rxe =
                        new Rig(QueuePairLimits.depths(4, 4), d -> d.vendorId = 0xFFFFFF, null)
                                .connect();
                MemoryWindow bound = rxe.domain.createMemoryWindow()) {
            rxe.a.bind(1, bound, rxe.memory, 0, 8, RW).orThrow();
            rxe.a.receive(2, rxe.bytes(8)).orThrow();
            rxe.b.sendAndInvalidate(3, rxe.bytes(8), bound.remoteToken(), OpFlags.NONE).orThrow();
            assertThat(rxe.poll()).contains("RECEIVE_AND_INVALIDATE 2 SUCCESS");
            assertThat(bound.bound()).isFalse();
        }
    }

    @Test
    void anUnknownInvalidatedTokenIsDeliveredAllTheSame() {
        rig.a.receive(5, rig.bytes(64)).orThrow();
        rig.b.sendAndInvalidate(6, rig.bytes(8), 0xFFFF_FF01, OpFlags.NONE).orThrow();
        assertThat(rig.poll()).contains("RECEIVE_AND_INVALIDATE 5 SUCCESS");
    }

    @Test
    void noTokenComesAgainInAThousandBinds() {
        Set<Integer> tokens = new HashSet<>();
        for (int i = 0; i < 1000; i++) {
            bind(RW.and(OpFlags.SILENT_SUCCESS)).orThrow();
            assertThat(tokens.add(window.remoteToken())).as("bind %d", i).isTrue();
            rig.a.invalidate(1, window, OpFlags.SILENT_SUCCESS).orThrow();
        }
        rig.poll();
        assertThat(rig.device.windowCount()).isLessThanOrEqualTo(2);
    }

    @Test
    void bindsAndInvalidatesInOneChain() {
        Set<Integer> tokens = new HashSet<>();
        for (int i = 0; i < 300; i++) {
            Status bound = bind(RW.and(OpFlags.DEFER.and(OpFlags.SILENT_SUCCESS)));
            if (bound == Status.NO_MORE_ENTRIES) {
                rig.poll();
                continue;
            }
            bound.orThrow();
            tokens.add(window.remoteToken());
            rig.a.send(1, new BufferList(1), OpFlags.DEFER.and(OpFlags.SILENT_SUCCESS)).orThrow();
            var _ = rig.b.receive(1, rig.bytes(8));
            Status invalidated =
                    rig.a.invalidate(1, window, OpFlags.DEFER.and(OpFlags.SILENT_SUCCESS)).status();
            while (invalidated == Status.NO_MORE_ENTRIES) {
                rig.poll();
                invalidated = rig.a.invalidate(1, window, OpFlags.SILENT_SUCCESS).status();
            }
            invalidated.orThrow();
            rig.poll();
        }
        assertThat(tokens).hasSizeGreaterThan(250);
    }

    @Test
    void whatABindRefuses() {
        try (MemoryRegion readOnly = rig.domain.register(rig.arena.allocate(64));
                ProtectionDomain other = rig.adapter.createProtectionDomain();
                MemoryWindow foreign = other.createMemoryWindow()) {
            assertThat(rig.a.bind(1, window, readOnly, 0, 64, OpFlags.ALLOW_REMOTE_WRITE).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(rig.a.bind(1, foreign, rig.memory, 0, 64, RW).status())
                    .isEqualTo(Status.INVALID_PARAMETER_MIX);
            for (long[] range :
                    new long[][] {
                        {0, 0}, {-1, 8}, {0, 4097}, {4096, 1}, {0, -1}, {1, Long.MAX_VALUE}
                    }) {
                assertThat(rig.a.bind(1, window, rig.memory, range[0], range[1], RW).status())
                        .isEqualTo(Status.INVALID_PARAMETER);
            }
            assertThat(rig.a.bind(1, window, readOnly, 0, 64, OpFlags.ALLOW_REMOTE_READ).status())
                    .isEqualTo(Status.SUCCESS);
        }
        MemoryWindow closed = rig.domain.createMemoryWindow();
        closed.close();
        assertThatThrownBy(() -> rig.a.bind(1, closed, rig.memory, 0, 8, RW))
                .isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> rig.a.invalidate(1, closed, OpFlags.NONE))
                .isInstanceOf(IllegalStateException.class);
        MemoryRegion gone = rig.domain.register(rig.arena.allocate(8));
        gone.close();
        assertThatThrownBy(() -> rig.a.bind(1, window, gone, 0, 8, RW))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void anotherQueuePairWaitsForTheInvalidate() {
        bind(RW).orThrow();
        rig.device.running = false;
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        assertThat(rig.b.bind(3, window, rig.memory, 0, 8, RW).status())
                .isEqualTo(Status.DEVICE_BUSY);
        rig.device.running = true;
        rig.poll();
        rig.b.bind(3, window, rig.memory, 0, 8, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 3 SUCCESS");
    }

    @Test
    void aRefusedBindOrInvalidateChangesNothing() {
        int before = window.remoteToken();
        rig.device.answer = 22;
        rig.device.refused = 0;
        assertThat(bind(RW)).isEqualTo(Status.INVALID_PARAMETER);
        assertThat(window.bound()).isFalse();
        assertThat(window.remoteToken()).isEqualTo(before);
        bind(RW).orThrow();
        rig.device.answer = 22;
        rig.device.refused = 0;
        assertThat(rig.a.invalidate(2, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_PARAMETER);
        assertThat(window.bound()).isTrue();
        rig.a.invalidate(3, window, OpFlags.NONE).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS", "INVALIDATE 3 SUCCESS");
    }

    /** The provider refuses a post, and all that follow until this is undone. */
    private void refuseAll() {
        rig.device.answer = 12;
        rig.device.refused = 0;
        rig.device.beforePost = this::refuseAll;
    }

    private void refuseNoMore() {
        rig.device.answer = 0;
        rig.device.beforePost = () -> {};
    }

    /** The device has it bound on the first queue pair still. */
    @Test
    void aRefusedBindThatFindsItsInvalidateFailedNeedsANewNativeWindow() {
        bind(RW).orThrow();
        rig.poll();
        rig.device.failAt = 0;
        rig.device.failStatus = 10;
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        refuseAll();
        assertThat(bind(RW)).isEqualTo(Status.INSUFFICIENT_RESOURCES);
        refuseNoMore();
        assertThat(rig.poll()).containsExactly("INVALIDATE 2 ACCESS_VIOLATION");
        rig.b.bind(3, window, rig.memory, 0, 64, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 3 SUCCESS");
    }

    @Test
    void aRefusedInvalidateThatFindsThePeersLeavesTheWindowFree() {
        bind(RW).orThrow();
        rig.a.receive(5, rig.bytes(64)).orThrow();
        int token = window.remoteToken();
        rig.device.beforePost =
                () -> {
                    rig.b.sendAndInvalidate(6, rig.bytes(8), token, OpFlags.NONE).orThrow();
                    refuseAll();
                };
        assertThat(rig.a.invalidate(7, window, OpFlags.NONE).status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        refuseNoMore();
        assertThat(window.bound()).isFalse();
        bind(RW).orThrow();
        assertThat(rig.poll()).hasSize(4);
    }

    @Test
    void aRefusedInvalidateThatFindsItsBindFailedLeavesTheWindowFree() {
        rig.device.failAt = 0;
        rig.device.failStatus = 6; // IBV_WC_MW_BIND_ERR
        rig.device.running = false;
        bind(RW).orThrow();
        rig.device.beforePost =
                () -> {
                    rig.device.running = true;
                    refuseAll();
                };
        assertThat(rig.a.invalidate(2, window, OpFlags.NONE).status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        refuseNoMore();
        assertThat(window.bound()).isFalse();
        assertThat(rig.poll()).containsExactly("BIND 1 ACCESS_VIOLATION");
    }

    @Test
    void aBindThatFailsLeavesTheWindowFreeForAnotherQueuePair() {
        rig.device.failAt = 0;
        rig.device.failStatus = 6; // IBV_WC_MW_BIND_ERR
        bind(RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 ACCESS_VIOLATION");
        assertThat(window.bound()).isFalse();
        rig.b.bind(2, window, rig.memory, 0, 8, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 2 SUCCESS");
    }

    @Test
    void aDeferredBindWaitsForTheNextRequest() {
        bind(RW.and(OpFlags.DEFER)).orThrow();
        assertThat(rig.device.sends).isEmpty();
        assertThat(window.bound()).isTrue(); // what follows on its queue pair finds it so
        rig.a.invalidate(2, window, OpFlags.DEFER).orThrow(); // never deferred
        assertThat(rig.device.chains).containsExactly(2);
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS", "INVALIDATE 2 SUCCESS");
    }

    @Test
    void aWindowThatCannotBeMadeAnewIsNotBound() {
        rig.device.failAt = 0;
        rig.device.failStatus = 6; // IBV_WC_MW_BIND_ERR: the next bind makes it anew
        bind(RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 ACCESS_VIOLATION");
        rig.device.controlError = 12;
        assertThat(rig.b.bind(2, window, rig.memory, 0, 8, RW).status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        assertThat(window.bound()).isFalse();
        rig.b.bind(3, window, rig.memory, 0, 8, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 3 SUCCESS");
    }

    @Test
    void aWindowWhoseInvalidateWasCancelledIsMadeAnewForAnotherQueuePair() {
        bind(RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
        rig.device.failAt = 0;
        rig.device.failStatus = 10;
        rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
        rig.a.invalidate(3, window, OpFlags.NONE).orThrow();
        assertThat(rig.poll())
                .containsExactly("WRITE 2 ACCESS_VIOLATION", "INVALIDATE 3 CANCELLED");
        rig.b.bind(4, window, rig.memory, 0, 8, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 4 SUCCESS");
    }

    @Test
    void anInvalidationThatNobodyHasPolledIsSeenBeforeTheNextBind() {
        bind(RW).orThrow();
        rig.a.receive(5, rig.bytes(64)).orThrow();
        rig.b.sendAndInvalidate(6, rig.bytes(8), window.remoteToken(), OpFlags.NONE).orThrow();
        rig.device.run();
        bind(RW).orThrow();
        assertThat(rig.poll()).hasSize(4);
    }

    @Test
    void aQueuePairTakesItsWindowsWithItAndTheyComeAgain() {
        bind(RW).orThrow();
        rig.poll();
        int token = window.remoteToken();
        rig.a.close();
        assertThat(window.bound()).isFalse();
        rig.b.bind(2, window, rig.memory, 0, 8, RW).orThrow();
        assertThat(window.remoteToken()).isNotEqualTo(token);
        assertThat(rig.poll()).containsExactly("BIND 2 SUCCESS");
    }

    @Test
    void aRegionOutlivesTheWindowsBoundToIt() {
        int before = rig.device.objects();
        MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
        rig.a.bind(1, window, region, 0, 64, RW).orThrow();
        rig.poll();
        region.close();
        assertThat(rig.device.objects()).isEqualTo(before + 1);
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        rig.poll();
        bind(RW).orThrow(); // to another region
        assertThat(rig.device.objects()).isEqualTo(before);
    }

    @Test
    void itReleasesItsRegionWhenNoRequestNamesItAnyMore() {
        assertThat(window.releaseRegion()).as("which it has not").isTrue();
        int before = rig.device.objects();
        MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
        rig.a.bind(1, window, region, 0, 64, RW).orThrow();
        region.close();
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
        assertThat(window.releaseRegion()).as("while it is bound").isFalse();
        rig.device.running = false;
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        assertThat(window.releaseRegion()).as("before the invalidate has ended").isFalse();
        assertThat(rig.device.objects()).isEqualTo(before + 1);
        rig.device.running = true;
        assertThat(rig.poll()).containsExactly("INVALIDATE 2 SUCCESS");
        assertThat(window.releaseRegion()).isTrue();
        assertThat(rig.device.objects()).isEqualTo(before);
        assertThatThrownBy(window::remoteMemory).isInstanceOf(IllegalStateException.class);
        assertThat(window.releaseRegion()).isTrue();
        bind(RW).orThrow();
        assertThat(window.remoteMemory().bytes()).isEqualTo(64);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aClosedOneReleasesNothingAgain(boolean spoiled) {
        MemoryWindow closed = rig.domain.createMemoryWindow();
        try (MemoryRegion region =
                rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE)) {
            rig.a.bind(1, closed, region, 0, 64, RW).orThrow();
            rig.poll();
            rig.device.running = !spoiled;
            rig.a.invalidate(2, closed, OpFlags.NONE).orThrow();
            rig.a.flush();
            rig.device.running = true;
            rig.poll();
            closed.close();
            int before = rig.device.objects();
            List<String> destroyed = List.copyOf(rig.device.destroys);
            assertThat(closed.releaseRegion()).isTrue();
            assertThat(rig.device.destroys).isEqualTo(destroyed);
            assertThat(rig.device.objects()).isEqualTo(before);
            rig.b.bind(3, window, region, 0, 64, RW).orThrow(); // it is registered still
            assertThat(rig.poll()).containsExactly("BIND 3 SUCCESS");
            window.close();
        }
    }

    /** Nobody has told the device that it is not bound any more. */
    @Test
    void itReleasesItsRegionAlsoWhenItsInvalidateWasCancelled() {
        int before = rig.device.objects();
        MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
        rig.a.bind(1, window, region, 0, 64, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
        int token = window.remoteToken();
        rig.device.running = false;
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        rig.a.flush();
        rig.device.running = true;
        assertThat(rig.poll()).containsExactly("INVALIDATE 2 CANCELLED");
        region.close();
        assertThat(window.releaseRegion()).isTrue();
        assertThat(rig.device.objects()).as("without its native window").isEqualTo(before - 1);
        assertThat(rig.device.honours(token)).isFalse();
        assertThat(window.releaseRegion()).isTrue();
        rig.b.bind(3, window, rig.memory, 0, 64, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 3 SUCCESS");
        assertThat(window.remoteToken()).isNotEqualTo(token);
        assertThat(rig.device.objects()).isEqualTo(before);
    }

    /** For the device it is bound to the first region still: that has to go after the window. */
    @ParameterizedTest
    @ValueSource(strings = {"release", "bind", "close"})
    void aRegionGoesBehindTheWindowWhoseInvalidateWasCancelled(String by) {
        int before = rig.device.objects();
        MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
        MemoryWindow hasty = rig.domain.createMemoryWindow();
        rig.a.bind(1, hasty, region, 0, 64, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
        region.close(); // pends
        rig.device.running = false;
        rig.a.invalidate(2, hasty, OpFlags.NONE).orThrow();
        rig.a.bind(3, hasty, rig.memory, 0, 64, RW).orThrow();
        rig.a.flush();
        rig.device.running = true;
        switch (by) {
            case "release" -> {
                assertThat(rig.poll()).hasSize(2);
                assertThat(hasty.releaseRegion()).isTrue();
            }
            case "bind" -> {
                assertThat(rig.poll()).hasSize(2);
                rig.b.bind(4, hasty, rig.memory, 0, 64, RW).orThrow();
                assertThat(rig.poll()).containsExactly("BIND 4 SUCCESS");
            }
            default -> {
                hasty.close();
                rig.a.close();
                before--; // the queue pair
            }
        }
        region.awaitClosed(Duration.ofSeconds(10));
        hasty.close();
        hasty.awaitClosed(Duration.ofSeconds(10));
        assertThat(rig.device.objects()).isEqualTo(before);
    }

    @ParameterizedTest
    @ValueSource(strings = {"next bind", "look whether it can be released", "close"})
    void theRegionBeforeIsReleasedLaterWhereRequestsThatNameItAreOutstanding(String by) {
        int before = rig.device.objects();
        MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
        rig.a.bind(1, window, region, 0, 64, RW).orThrow();
        region.close();
        rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
        bind(RW).orThrow(); // to another region
        assertThat(rig.poll()).hasSize(3);
        assertThat(rig.device.objects()).isEqualTo(before + 1);
        switch (by) {
            case "next bind" -> {
                rig.a.invalidate(3, window, OpFlags.NONE).orThrow();
                bind(RW).orThrow();
            }
            case "close" -> {
                window.close();
                before--;
            }
            default -> assertThat(window.releaseRegion()).as("while it is bound").isFalse();
        }
        assertThat(rig.device.objects()).isEqualTo(before);
    }

    @Test
    void aWindowClosedWhileItsBindWaitsIsFreedLater() {
        MemoryWindow hasty = rig.domain.createMemoryWindow();
        rig.a.bind(1, hasty, rig.memory, 0, 8, RW.and(OpFlags.DEFER)).orThrow();
        hasty.close();
        rig.a.send(2, new BufferList(1)).orThrow();
        rig.b.receive(3, rig.bytes(8)).orThrow();
        assertThat(rig.poll()).contains("BIND 1 SUCCESS", "SEND 2 SUCCESS");
    }

    @Test
    void aDeviceWithoutWindowsSaysSo() {
        try (Rig plain =
                new Rig(QueuePairLimits.depths(1, 1), device -> device.windows = false, null)) {
            assertThatThrownBy(plain.domain::createMemoryWindow)
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.NOT_SUPPORTED))
                    .hasMessageContaining("no memory windows");
        }
    }

    @Test
    void aWindowBeyondMlx5sLimitIsRefused() {
        try (Rig mlx5 =
                new Rig(QueuePairLimits.depths(1, 1), device -> device.vendorId = 0x02C9, null)) {
            assertThat(mlx5.adapter.info().maxWindowBytes()).isEqualTo(1L << 31);
        }
    }
}
