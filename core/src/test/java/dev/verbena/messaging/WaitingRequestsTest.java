package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.messaging.WaitingRequests.Request;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;

/** Requests that wait for room, without a channel. */
class WaitingRequestsTest {
    private final FakeFabric fabric = new FakeFabric();
    private final Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin());
    private final WaitingRequests waiting = new WaitingRequests(poller);

    @AfterEach
    void close() {
        poller.close();
        fabric.close();
    }

    private static Request request(boolean ofThread) {
        return new Request(
                RequestKind.SEND,
                MemorySegment.ofArray(new byte[3]),
                null,
                null,
                new CompletableFuture<>(),
                ofThread);
    }

    @Test
    void futuresAreLimitedAndThreadsAreNot() {
        for (int i = 0; i < 1024; i++) {
            assertThat(waiting.add(request(false))).isTrue();
        }
        assertThat(waiting.add(request(false))).isFalse();
        Request ofThread = request(true);
        assertThat(waiting.add(ofThread)).isTrue();
        assertThat(waiting.withdraw(ofThread.future())).isTrue();
        assertThat(waiting.withdraw(ofThread.future())).as("again").isFalse();
        waiting.removeFirst();
        assertThat(waiting.add(request(false))).as("there is room again").isTrue();
        assertThat(waiting.add(request(false))).isFalse();
        Request last = request(false);
        waiting.removeFirst();
        assertThat(waiting.add(last)).isTrue();
        assertThat(waiting.withdraw(last.future())).isTrue();
        assertThat(waiting.add(request(false))).as("there is room again").isTrue();
        assertThat(waiting.add(request(false))).isFalse();
    }

    /** What waits goes first: there is no room before it was posted. */
    @Test
    void whoWasRefusedIsNotToldOfRoomWhileOthersWait() {
        waiting.onRoom(new Tasks.Task(() -> {}, false));
        waiting.refused(3, true);
        assertThat(waiting.anyRefused()).isTrue();
        assertThat(waiting.add(request(false))).isTrue();
        assertThat(waiting.anyRefused()).isFalse();
        waiting.removeFirst();
        assertThat(waiting.anyRefused()).isTrue();
        waiting.notifyOfRoom();
        assertThat(waiting.anyRefused()).as("was told").isFalse();
    }

    @Test
    void theyAreKeptInOrder() {
        Request first = request(true);
        Request second = request(false);
        assertThat(waiting.isEmpty()).isTrue();
        assertThat(waiting.first()).isNull();
        assertThat(waiting.add(first)).isTrue();
        assertThat(waiting.add(second)).isTrue();
        assertThat(waiting.first()).isSameAs(first).extracting(Request::bytes).isEqualTo(3L);
        assertThat(waiting.withdraw(first.future())).isTrue();
        assertThat(waiting.first()).isSameAs(second);
        waiting.removeFirst();
        assertThat(waiting.isEmpty()).isTrue();
    }
}
