package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.AdapterEvent;
import dev.verbena.BufferList;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The reason of a channel whose peer did what it may not, whichever consequence is noticed first.
 * Nothing happens but in this thread.
 */
@Timeout(60)
class EndByPeerTest {
    private static final String BY_PEER = "the device refused a request of the peer";
    private static final int REVOKED = 77; // a token

    private final FakeDevice device = rxe();
    private final Adapter adapter = FakeAdapters.open(device);
    private final Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
    private final MemoryRegion memory = poller.domain().allocate(64, Access.LOCAL_WRITE);
    private RawConnection peer;
    private RawConnection channel;

    private static FakeDevice rxe() {
        FakeDevice device = new FakeDevice();
        device.vendorId = FakeDevice.RXE;
        return device;
    }

    private void connect() {
        device.carriesBytes = true;
        peer = channel();
        channel = channel();
        peer.pair.connect(channel.pair.address());
        channel.pair.connect(peer.pair.address());
    }

    private RawConnection channel() {
        QueuePairLimits limits = QueuePairLimits.depths(4, 4);
        RawHandler handler =
                new RawHandler() {
                    @Override
                    public void received(RawConnection channel, RawMessage message) {}

                    @Override
                    public void ended(RawConnection channel, MessagingException reason) {}
                };
        return RawConnection.create(poller, limits, 64, null, handler);
    }

    @AfterEach
    void close() {
        poller.close();
        memory.close();
        adapter.close();
        assertThat(device.objects()).as("native objects left").isZero();
        device.dispose();
    }

    private BufferList bytes() {
        return new BufferList(1).add(memory, 0, 8);
    }

    private int number() {
        return channel.pair.address().queuePairNumber();
    }

    private void peerWrites(int token) {
        peer.write(bytes(), memory.memory().address(), token, OpFlags.NONE, null, null).orThrow();
        device.run();
    }

    private void endsBecauseOf(String why, Status status) {
        while (!channel.closed().isDone()) {
            int ignored = poller.poll();
            assertThat(Thread.currentThread().isInterrupted()).as("timed out").isFalse();
        }
        assertThat(channel.closeReason()).hasMessageContaining(why);
        assertThat(channel.closeReason().status()).isEqualTo(status);
    }

    @ParameterizedTest
    @ValueSource(strings = {"a flushed receive", "the peer's disconnect", "loss"})
    void aForbiddenAccessIsTheReason(String first) {
        connect();
        peerWrites(REVOKED);
        switch (first) {
            case "the peer's disconnect" -> channel.disconnected(Status.CONNECTION_INVALID);
            case "loss" -> channel.disconnected(Status.CONNECTION_ABORTED);
            default -> {}
        }
        endsBecauseOf(BY_PEER, Status.CONNECTION_ABORTED);
        assertThat(peer.closeReason())
                .hasMessageContainingAll(
                        "is closed: WRITE with context",
                        "failed: ACCESS_VIOLATION",
                        "In order of likelihood",
                        "IBV_WC_REM_ACCESS_ERR");
    }

    @Test
    void itIsTheReasonAlsoWhereAPostWasRefusedFirst() {
        try (OneThread two = OneThread.open()) {
            two.device.failQueuePair(two.b.pair.address().queuePairNumber());
            two.b.reason.refused("a send", Status.CONNECTION_INVALID);
            two.run();
            assertThat(two.b.closeReason()).hasMessageContaining(BY_PEER);
        }
    }

    /** What the device does to a connection that this side closes is not the peer's fault. */
    @Test
    void itIsNoReasonWhileThisSideCloses() {
        connect();
        channel.reason.closing();
        peerWrites(REVOKED);
        channel.reason.refused("a send", Status.CONNECTION_INVALID);
        assertThat(channel.isOpen()).isTrue();
        channel.disconnected(Status.CONNECTION_ABORTED);
        endsBecauseOf("the connection was lost", Status.CONNECTION_ABORTED);
    }

    @Test
    void aQueuePairThatBreaksIsNotThePeersFault() {
        connect();
        device.failQueuePair(number());
        device.raiseOfQueuePair(AdapterEvent.Type.QUEUE_PAIR_FAILED, number());
        Until.holds(() -> !channel.pair.connected());
        endsBecauseOf("failed: CANCELLED", Status.CONNECTION_ABORTED);
    }

    @Test
    void aRequestOfThisSideThatFailedIsTheReason() {
        connect();
        channel.write(bytes(), 0, REVOKED, OpFlags.NONE, null, null).orThrow();
        device.run();
        channel.disconnected(Status.CONNECTION_INVALID);
        endsBecauseOf("failed: ACCESS_VIOLATION", Status.ACCESS_VIOLATION);
    }

    @Test
    void aPeerThatJustDisconnectsHasClosedIt() {
        connect();
        channel.disconnected(Status.CONNECTION_INVALID);
        endsBecauseOf("the peer closed it", Status.CONNECTION_INVALID);
    }

    /** As the peer's reply does where a region's token was handed out. */
    @Test
    void aTokenThatCannotBeInvalidatedIsNamed() {
        connect();
        device.failReceive(number(), 9); // IBV_WC_REM_INV_REQ_ERR
        endsBecauseOf("that of a region cannot be invalidated", Status.ACCESS_VIOLATION);
    }
}
