package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.SEND;
import static dev.verbena.messaging.OneThread.WRITE;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.BufferPool;
import dev.verbena.BufferPoolOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.PooledBuffer;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;

/** Exposures as futures, while all windows are in use. */
@Timeout(120)
class ExposeAsyncTest {
    private static final int MOST = 4; // exposures of OneThread.SMALL

    /** Uses all windows; the peer may take each back. */
    private static Deque<RemoteMemory> exposeAll(OneThread two) {
        Deque<RemoteMemory> all = new ArrayDeque<>();
        for (int i = 0; i < MOST; i++) {
            all.add(two.announce(two.expose(WRITE, LONG)));
        }
        return all;
    }

    private static void takeBack(OneThread two, RemoteMemory remote) {
        assertThat(two.b.peerMemory().trySendAndInvalidate(text("x"), 0, 1, remote, null, null))
                .isEqualTo(Status.SUCCESS);
        two.run();
    }

    private static CompletableFuture<Exposure> exposeAsync(OneThread two, Duration within) {
        return two.a.ownMemory().exposeAsync(two.region, 0, two.region.bytes(), WRITE, within);
    }

    private static Status failure(CompletableFuture<?> future) {
        assertThat(future).isCompletedExceptionally();
        return ((VerbenaException) future.exceptionNow()).status();
    }

    /** Although it may be open for long, as large messages wait to be written. */
    @Test
    void aChannelThatIsBeingClosedExposesNothing() {
        try (OneThread two = OneThread.open()) {
            two.a.reason.closing();
            assertThat(two.a.isOpen()).isTrue();
            assertThat(two.a.ownMemory().exposeAsync(two.region, 0, 8, WRITE, LONG))
                    .isCompletedExceptionally();
        }
    }

    @Test
    void futuresAreServedInOrder() {
        try (OneThread two = OneThread.open()) {
            Deque<RemoteMemory> all = exposeAll(two);
            CompletableFuture<Exposure> first = exposeAsync(two, LONG);
            CompletableFuture<Exposure> second = exposeAsync(two, LONG);
            takeBack(two, all.remove());
            assertThat(first).isCompleted();
            assertThat(second).isNotDone();
            takeBack(two, two.announce(first.join()));
            assertThat(second).isCompleted();
            assertThat(first.join().hasEnded()).isTrue();
            takeBack(two, two.announce(second.join()));
            first.join().close(); // releases the message
            second.join().close();
            two.announce(exposeAsync(two, LONG).join()); // a window is free
        }
    }

    /** Although no frame of the peer's has come. */
    @Test
    void whatWaitsForTheConnectionIsExposedOnceItStands() {
        try (OneThread two = OneThread.open()) {
            MessageChannel early = new MessageChannel(two.poller, OneThread.SMALL, null);
            MessageChannel peer = new MessageChannel(two.pollerOfB, OneThread.SMALL, null);
            early.agree(peer.options.handshake(two.adapter));
            early.pair.connect(peer.pair.address());
            peer.pair.connect(early.pair.address());
            CompletableFuture<Exposure> exposed =
                    early.ownMemory().exposeAsync(two.region, 0, 100, WRITE, LONG);
            two.run();
            assertThat(exposed).isNotDone();
            early.established();
            two.run();
            assertThat(exposed).isCompleted();
        }
    }

    /** The peer has taken it back just before it was asked to: its window waits for the answer. */
    @Test
    void theAnswerOfThePeerAloneFreesAWindow() {
        try (OneThread two = OneThread.open()) {
            Exposure asked = two.expose(WRITE, LONG);
            RemoteMemory remote = two.announce(asked);
            for (int i = 1; i < MOST; i++) {
                two.announce(two.expose(WRITE, LONG));
            }
            CompletableFuture<Exposure> waits = exposeAsync(two, LONG);
            asked.revoke();
            takeBack(two, remote);
            assertThat(two.log).containsExactly("SUCCESS x");
            assertThat(waits).isCompleted();
        }
    }

    /** The peer has not heard of the key, and says nothing. */
    @Test
    void anInvalidateHereFreesAWindow() {
        try (OneThread two = OneThread.open()) {
            for (int i = 1; i < MOST; i++) {
                two.announce(two.expose(WRITE, LONG));
            }
            Exposure unknown = two.expose(WRITE, LONG);
            CompletableFuture<Exposure> waits = exposeAsync(two, LONG);
            unknown.revoke();
            two.run();
            assertThat(two.log).containsExactly("CANCELLED");
            assertThat(waits).isCompleted();
        }
    }

    /** A bind has its slot in the send queue until a request behind it is acknowledged. */
    @Test
    void aFreeWindowWaitsForASlot() {
        try (OneThread two = OneThread.open()) {
            two.device.acknowledgedLate =
                    request -> request.opcode() == SEND || request.opcode() == OneThread.BIND;
            exposeAll(two).forEach(remote -> takeBack(two, remote));
            CompletableFuture<Exposure> exposed = exposeAsync(two, LONG);
            assertThat(exposed).isNotDone();
            for (int i = 0; i < 1000 && !exposed.isDone(); i++) {
                two.run();
            }
            assertThat(exposed).isCompleted();
        }
    }

    @Test
    void aBufferOfAPoolIsExposed() {
        try (OneThread two = OneThread.open();
                BufferPool pool =
                        two.poller
                                .domain()
                                .createBufferPool(
                                        BufferPoolOptions.of(2, 100), Access.LOCAL_WRITE)) {
            CompletableFuture<Exposure> exposed =
                    pool.takeAsync()
                            .thenCompose(
                                    buffer ->
                                            two.a
                                                    .ownMemory()
                                                    .exposeAsync(
                                                            buffer.region(),
                                                            buffer.offset(),
                                                            buffer.memory().byteSize(),
                                                            WRITE,
                                                            LONG));
            PooledBuffer other = pool.tryTake();
            assertThat(other).isNotNull();
            RemoteMemory remote = two.announce(exposed.join());
            assertThat(remote.bytes()).isEqualTo(100);
            assertThat(remote.address()).isNotEqualTo(other.memory().address());
            exposed.join().close();
            other.giveBack();
            pool.buffer(1 - other.index()).giveBack();
        }
    }

    /** Time that it waits is not the peer's. */
    @Test
    void itsTimeBeginsWhenItIsExposed() {
        try (OneThread two = OneThread.open()) {
            Deque<RemoteMemory> all = exposeAll(two);
            CompletableFuture<Exposure> waits = exposeAsync(two, Duration.ofSeconds(2));
            two.pass(Duration.ofSeconds(5));
            assertThat(waits).isNotDone();
            takeBack(two, all.remove());
            CompletableFuture<Message> returned = waits.join().returned();
            two.pass(Duration.ofSeconds(1));
            assertThat(returned).isNotDone();
            two.pass(Duration.ofSeconds(2));
            assertThat(failure(returned)).isEqualTo(Status.IO_TIMEOUT);
        }
    }

    @Test
    void aFutureThatIsCancelledOrTimesOutWaitsNoMore() {
        try (OneThread two = OneThread.open()) {
            Deque<RemoteMemory> all = exposeAll(two);
            CompletableFuture<Exposure> late = exposeAsync(two, LONG);
            CompletableFuture<Exposure> cancelled = exposeAsync(two, LONG);
            // By another thread, as by orTimeout's, whose last step join() does not wait for.
            CompletableFuture.runAsync(() -> late.completeExceptionally(new TimeoutException()))
                    .join();
            assertThat(cancelled.cancel(true)).isTrue();
            takeBack(two, all.remove());
            assertThat(two.a.exposures.bindsPosted()).isEqualTo(MOST);
            two.announce(two.expose(WRITE, LONG));
        }
    }

    /** Its memory is exposed already, but nobody would end that. */
    @Test
    void oneThatIsCancelledJustWhenItIsExposedIsRevoked() {
        try (OneThread two = OneThread.open()) {
            Deque<RemoteMemory> all = exposeAll(two);
            CompletableFuture<Exposure> waits = exposeAsync(two, LONG);
            assertThat(
                            two.b
                                    .peerMemory()
                                    .trySendAndInvalidate(
                                            text("x"), 0, 1, all.remove(), null, null))
                    .isEqualTo(Status.SUCCESS);
            while (two.a.exposures.bindsPosted() == MOST) {
                int ignored = two.poller.poll() + two.pollerOfB.poll();
            }
            assertThat(waits.cancel(true)).isTrue();
            two.run();
            two.announce(two.expose(WRITE, LONG)); // the window is free again
        }
    }

    @Test
    void theEndOfTheChannelFailsAllThatWait() {
        try (OneThread two = OneThread.open()) {
            exposeAll(two);
            List<CompletableFuture<Exposure>> futures = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                futures.add(exposeAsync(two, LONG));
            }
            two.a.fail(Status.DATA_ERROR, "the test says so", null);
            two.run();
            for (CompletableFuture<Exposure> future : futures) {
                assertThat(failure(future)).isEqualTo(Status.DATA_ERROR);
                assertThat(future.exceptionNow()).hasMessageContaining("the test says so");
            }
            assertThat(failure(exposeAsync(two, LONG))).isEqualTo(Status.DATA_ERROR);
        }
    }

    @Test
    void whenTooManyWaitItRefuses() {
        try (OneThread two = OneThread.open()) {
            exposeAll(two);
            for (int i = 0; i < 1024; i++) {
                assertThat(exposeAsync(two, LONG)).isNotDone();
            }
            CompletableFuture<Exposure> oneMore = exposeAsync(two, LONG);
            assertThat(failure(oneMore)).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(oneMore.exceptionNow()).hasMessageContaining("1,024 exposures");
        }
    }

    @Test
    void mistakesAreRefusedAtOnceOrWhenItIsItsTurn() {
        try (OneThread two = OneThread.open()) {
            assertThatIllegalArgumentException()
                    .isThrownBy(
                            () ->
                                    two.a
                                            .ownMemory()
                                            .exposeAsync(two.region, 0, 1, OpFlags.NONE, LONG));
            assertThatThrownBy(() -> two.a.ownMemory().exposeAsync(two.region, 999, 2, WRITE, LONG))
                    .isInstanceOf(VerbenaException.class);
            Deque<RemoteMemory> all = exposeAll(two);
            MemoryRegion closed = two.poller.domain().allocate(100, Access.LOCAL_WRITE);
            CompletableFuture<Exposure> wrong =
                    two.a.ownMemory().exposeAsync(closed, 0, 1, WRITE, LONG);
            CompletableFuture<Exposure> right = exposeAsync(two, LONG);
            closed.close();
            takeBack(two, all.remove());
            assertThat(wrong).isCompletedExceptionally();
            assertThat(wrong.exceptionNow()).isInstanceOf(IllegalStateException.class);
            two.announce(right.join());
            assertThat(two.a.isOpen()).isTrue();
        }
    }
}
