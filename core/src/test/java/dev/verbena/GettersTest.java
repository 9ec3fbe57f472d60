package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.DeviceControl;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What an object says of itself: what it was made from, its limits, its state, its attachment. */
@Timeout(60)
class GettersTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(4, 4);

    @Test
    void objectsKnowWhatTheyWereMadeFromAndWith() {
        try (Rig rig = new Rig(LIMITS);
                SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(8, 2, s -> {});
                CompletionQueue other = rig.adapter.createCompletionQueue(10);
                QueuePair sharing = rig.domain.createQueuePair(rig.queue, other, shared, LIMITS)) {
            assertThat(rig.domain.adapter()).isSameAs(rig.adapter);
            assertThat(rig.queue.adapter()).isSameAs(rig.adapter);
            assertThat(shared.domain()).isSameAs(rig.domain);
            assertThat(shared.depth()).isEqualTo(8);
            assertThat(shared.maxBuffers()).isEqualTo(2);
            assertThat(rig.memory.domain()).isSameAs(rig.domain);
            assertThat(rig.memory.bytes()).isEqualTo(4096);
            assertThat(rig.memory.rights())
                    .containsExactly(Access.REMOTE_READ, Access.REMOTE_WRITE);
            assertThatThrownBy(() -> rig.memory.rights().clear())
                    .isInstanceOf(UnsupportedOperationException.class);
            assertThat(rig.a.limits()).isSameAs(LIMITS);
            assertThat(rig.a.domain()).isSameAs(rig.domain);
            assertThat(rig.a.sharedReceives()).isEmpty();
            assertThat(sharing.sharedReceives()).containsSame(shared);
            assertThat(sharing.initiatorCompletions()).isSameAs(rig.queue);
            assertThat(sharing.receiveCompletions()).isSameAs(other);
        }
    }

    @Test
    void nativeHandlesAreTheAddressesOfVerbsObjectsUntilTheClose() {
        Rig rig = new Rig(LIMITS);
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(8, 2, s -> {});
        CompletionChannel channel = rig.adapter.createCompletionChannel();
        DeviceControl device = rig.device;
        assertThat(rig.adapter.nativeHandle().address()).isEqualTo(device.context());
        assertThat(device.remoteKey(rig.memory.nativeHandle().address()))
                .isEqualTo(rig.memory.remoteToken());
        assertThat(device.queuePairNumber(rig.a.nativeHandle().address()))
                .isEqualTo(rig.a.address().queuePairNumber());
        assertThat(device.resizeCq(rig.queue.nativeHandle().address(), 20)).isZero();
        assertThat(device.channelDescriptor(channel.nativeHandle().address())).isPositive();
        assertThat(rig.domain.nativeHandle().address()).isEqualTo(rig.domain.address());
        assertThat(shared.nativeHandle().address()).isEqualTo(shared.handle().address());
        assertThat(rig.a.nativeHandle().byteSize()).isZero();
        shared.close();
        channel.close();
        rig.close();
        assertClosed(rig.adapter, rig.adapter::nativeHandle);
        assertClosed(rig.domain, rig.domain::nativeHandle);
        assertClosed(rig.memory, rig.memory::nativeHandle);
        assertClosed(rig.queue, rig.queue::nativeHandle);
        assertClosed(rig.a, rig.a::nativeHandle);
        assertClosed(shared, shared::nativeHandle);
        assertClosed(channel, channel::nativeHandle);
    }

    private static void assertClosed(NativeObject object, ThrowingCallable handle) {
        assertThatThrownBy(handle)
                .isInstanceOf(IllegalStateException.class)
                .hasMessage(object.describe() + " is closed");
    }

    @Test
    void aCompletionQueueKnowsItsDepthAlsoWhenItIsResized() {
        try (Rig rig = new Rig(LIMITS)) {
            CompletionQueue queue = rig.adapter.createCompletionQueue(10);
            assertThat(queue.depth()).isEqualTo(10);
            queue.resize(20);
            assertThat(queue.depth()).isEqualTo(20);
            assertThatThrownBy(() -> queue.resize(Integer.MAX_VALUE))
                    .isInstanceOf(VerbenaException.class);
            rig.device.resizeError = 12; // ENOMEM
            assertThatThrownBy(() -> queue.resize(30)).isInstanceOf(VerbenaException.class);
            assertThat(queue.depth()).isEqualTo(20);
            queue.close();
            assertThat(queue.depth()).isEqualTo(20);
        }
    }

    @Test
    void attachmentsComeWithCompletions() {
        try (Rig rig = Rig.connected(LIMITS)) {
            Object session = new Object();
            assertThat(rig.a.attachment()).isNull();
            rig.a.attach(session);
            assertThat(rig.a.attachment()).isSameAs(session);
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.b.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            Completions completions = new Completions(4);
            assertThat(rig.queue.poll(completions)).isEqualTo(2);
            for (int i = 0; i < 2; i++) {
                assertThat(completions.attachment(i))
                        .isSameAs(completions.context(i) == 1 ? session : null);
            }
            assertThatThrownBy(() -> completions.attachment(2))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            rig.a.attach("another"); // the last counts, also for what was polled
            assertThat(completions.attachment(completions.context(0) == 1 ? 0 : 1))
                    .isEqualTo("another");
            rig.a.attach(null);
            assertThat(rig.a.attachment()).isNull();
        }
    }

    @Test
    void aQueuePairIsInitializedThenConnectedThenFlushedThenClosed() {
        try (Rig rig = new Rig(LIMITS)) {
            assertThat(rig.a.state()).isEqualTo(QueuePairState.INITIALIZED);
            assertThat(rig.a.peer()).isEmpty();
            QueuePairAddress there = rig.b.address();
            rig.a.connect(there);
            assertThat(rig.a.state()).isEqualTo(QueuePairState.CONNECTED);
            assertThat(rig.a.peer().orElseThrow().queuePairAddress()).contains(there);
            rig.a.flush();
            assertThat(rig.a.state()).isEqualTo(QueuePairState.FLUSHED);
            assertThat(rig.a.peer()).isPresent();
            rig.a.close();
            assertThat(rig.a.state()).isEqualTo(QueuePairState.CLOSED);
            assertThat(rig.a.peer()).isPresent();
            assertThat(rig.b.state()).isEqualTo(QueuePairState.INITIALIZED);
            rig.b.flush(); // never connected
            assertThat(rig.b.state()).isEqualTo(QueuePairState.FLUSHED);
            assertThat(rig.b.peer()).isEmpty();
        }
    }

    @Test
    void aConnectThatFailsLeavesItInitialized() {
        try (Rig rig = new Rig(LIMITS)) {
            rig.device.reachError = 110; // ETIMEDOUT
            assertThatThrownBy(() -> rig.a.connect(rig.b.address()))
                    .isInstanceOf(VerbenaException.class);
            assertThat(rig.a.state()).isEqualTo(QueuePairState.INITIALIZED);
            assertThat(rig.a.peer()).isEmpty();
            rig.device.reachError = 0;
            rig.a.connect(rig.b.address());
            assertThat(rig.a.state()).isEqualTo(QueuePairState.CONNECTED);
        }
    }

    @Test
    void aFailedRequestIsSeenWhenItIsPolledAndStaysThroughAFlush() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.failAt = 0;
            rig.device.failStatus = 12; // RETRY_EXC_ERR
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.run();
            assertThat(rig.a.state()).isEqualTo(QueuePairState.CONNECTED); // nobody has polled
            assertThat(rig.poll()).containsExactly("WRITE 1 IO_TIMEOUT");
            assertThat(rig.a.state()).isEqualTo(QueuePairState.FAILED);
            rig.a.flush();
            assertThat(rig.a.state()).isEqualTo(QueuePairState.FAILED);
            rig.a.close();
            assertThat(rig.a.state()).isEqualTo(QueuePairState.CLOSED);
            assertThat(rig.b.state()).isEqualTo(QueuePairState.CONNECTED);
        }
    }

    /** Flushed requests fail, too, and that is not why it is over. */
    @Test
    void whatAFlushCancelsIsNoFailure() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.running = false;
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.flush();
            assertThat(rig.poll()).containsExactly("WRITE 1 CANCELLED");
            assertThat(rig.a.state()).isEqualTo(QueuePairState.FLUSHED);
        }
    }
}
