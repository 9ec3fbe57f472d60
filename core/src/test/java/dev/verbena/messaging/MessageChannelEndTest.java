package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.SMALL;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** How a channel ends: for which reason, and what still comes of what had come before. */
@Timeout(60)
class MessageChannelEndTest {
    private static final int LENGTH_ERROR = 1; // IBV_WC_LOC_LEN_ERR: BUFFER_OVERFLOW

    private static void failReceive(OneThread two, MessageChannel channel) {
        two.device.failReceive(channel.pair.address().queuePairNumber(), LENGTH_ERROR);
    }

    // ---- the reason

    /**
     * A request that fails ends the connection, whose callback may come first, and so may a receive
     * that the queue pair then refuses. Nor is it the reason that the program closes it meanwhile.
     */
    @ParameterizedTest
    @ValueSource(strings = {"callback", "refusal", "callback and close"})
    void theRequestThatFailedIsTheReason(String first) {
        AtomicReference<OneThread> both = new AtomicReference<>();
        AtomicInteger messages = new AtomicInteger();
        MessageHandler handler =
                (channel, message) -> {
                    if (messages.incrementAndGet() == 1) {
                        both.get().a.trySend(text("second")).orThrow();
                        both.get().device.run();
                        failReceive(both.get(), channel);
                        return; // the next poll takes both
                    }
                    if (first.startsWith("callback")) {
                        channel.disconnected(Status.CONNECTION_ABORTED);
                        assertThat(channel.isOpen()).isFalse();
                    }
                    if (first.endsWith("close")) {
                        channel.close();
                    }
                };
        try (OneThread two = new OneThread(SMALL, handler)) {
            both.set(two);
            two.a.trySend(text("first")).orThrow();
            two.run();
            assertThat(two.b.closed()).isCompletedWithValue(Status.BUFFER_OVERFLOW);
            assertThat(two.b.closeReason()).hasMessageContaining("failed: BUFFER_OVERFLOW");
        }
    }

    /** The peer's queue pair breaks with this side's, and it closes the connection. */
    @Test
    void itIsTheReasonAlsoWhereThePeerHasClosedTheConnectionSince() {
        try (OneThread two = OneThread.open()) {
            failReceive(two, two.b);
            two.b.disconnected(Status.CONNECTION_INVALID);
            two.run();
            assertThat(two.b.closed()).isCompletedWithValue(Status.BUFFER_OVERFLOW);
        }
    }

    /** Then nothing more is delivered, but the cause counts. */
    @Test
    void itIsTheReasonAlsoWhereAHandlerHasThrownSince() {
        AtomicReference<OneThread> both = new AtomicReference<>();
        MessageHandler throwing =
                (channel, message) -> {
                    failReceive(both.get(), channel); // the next poll would take it
                    channel.disconnected(Status.CONNECTION_ABORTED);
                    throw new IllegalStateException("of a test");
                };
        try (OneThread two = new OneThread(SMALL, throwing)) {
            both.set(two);
            two.a.trySend(text("x")).orThrow();
            two.run();
            assertThat(two.b.closed()).isCompletedWithValue(Status.BUFFER_OVERFLOW);
        }
    }

    @Test
    void whatHadComeIsNotDeliveredToAHandlerThatHasThrown() {
        List<String> got = new ArrayList<>();
        MessageHandler throwing =
                (channel, message) -> {
                    got.add(text(message));
                    throw new IllegalStateException("of a test");
                };
        try (OneThread two = new OneThread(SMALL, throwing)) {
            two.a.trySend(text("first")).orThrow();
            two.a.trySend(text("second")).orThrow();
            two.b.disconnected(Status.CONNECTION_INVALID); // then what had come is delivered
            two.run();
            assertThat(got).containsExactly("first");
        }
    }

    /** It is the poller's, and outlives the channel. */
    @Test
    void aMessageThatIsRefusedGivesItsBufferBack() {
        try (OneThread two = OneThread.open()) {
            int stride = Frame.stride(SMALL.eagerLimit(two.adapter));
            FrameBuffers buffers = two.poller.memory().frames(stride);
            int first = buffers.take();
            buffers.giveBack(first);
            two.device.answer = Errno.ENOMEM;
            two.device.refused = 0;
            assertThat(two.a.trySend(MemorySegment.ofArray(new byte[1000])))
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            two.run();
            assertThat(two.a.closed()).isDone();
            assertThat(buffers.take()).isEqualTo(first);
            buffers.giveBack(first);
        }
    }

    /** They are freed some seconds after the last use, not after the first. */
    @Test
    void buffersOfFramesAreKeptWhileTheyAreUsed() {
        try (OneThread two = OneThread.open();
                FrameBuffers buffers = new FrameBuffers(two.poller.domain(), 64, 1)) {
            int objects = 0;
            for (int i = 0; i < 100; i++) {
                int[] both = {buffers.take(), buffers.take()};
                objects = two.device.objects();
                buffers.giveBack(both[1]);
                buffers.giveBack(both[0]);
                buffers.tick();
                assertThat(two.device.objects()).isEqualTo(objects);
            }
            for (int i = 0; i < 50; i++) {
                buffers.tick();
            }
            assertThat(two.device.objects()).isEqualTo(objects - 1);
        }
    }

    /** Who waited for it may put another channel there. */
    @Test
    void whenItIsReportedItsPlacesAreFree() {
        try (OneThread two = OneThread.open()) {
            while (two.a.queue.reserve(1)) {
                continue; // until the queue has no room
            }
            List<Object> found = new ArrayList<>();
            var _ =
                    two.a
                            .closed()
                            .thenRun(
                                    () -> {
                                        found.add(two.poller.connections().size());
                                        found.add(two.a.queue.reserve(1));
                                    });
            two.a.abandon();
            two.run();
            assertThat(found).containsExactly(0, true);
        }
    }

    /** What is cancelled with the connection is no cause. */
    @Test
    void withoutAFailedRequestItIsTheEndOfTheConnection() {
        try (OneThread two = OneThread.open()) {
            two.a.pair.flush();
            two.a.disconnected(Status.CONNECTION_ABORTED);
            two.run();
            assertThat(two.a.closed()).isCompletedWithValue(Status.CONNECTION_ABORTED);
            assertThat(two.a.closeReason()).hasMessageContaining("the connection was lost");
        }
    }

    /** What the end itself cancels comes later, and is not its cause. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void oncePublishedItStays(boolean closedAtOnce) {
        try (OneThread two = OneThread.open()) {
            two.a.disconnected(Status.CONNECTION_ABORTED);
            if (closedAtOnce) {
                two.a.close();
            }
            two.run();
            assertThat(two.a.closed()).isCompletedWithValue(Status.CONNECTION_ABORTED);
            two.a.close();
            two.run();
            assertThat(two.a.closeReason().status()).isEqualTo(Status.CONNECTION_ABORTED);
        }
    }

    @Test
    void aDeviceThatIsGoneAndCancelsNothingEndsItAllTheSame() {
        try (OneThread two = OneThread.open()) {
            two.device.running = false;
            List<Status> ended = new ArrayList<>();
            two.a
                    .trySend(text("x"), 0, 1, (of, nothing, status) -> ended.add(status), null)
                    .orThrow();
            two.device.errorStepError = Errno.EIO;
            two.a.fail(Status.DEVICE_REMOVED, "the device is gone", null);
            two.run();
            assertThat(ended).containsExactly(Status.DEVICE_REMOVED);
            assertThat(two.a.closed()).isCompletedWithValue(Status.DEVICE_REMOVED);
        }
    }

    /** Only a foreign program does that: it would be taken for the end of a request. */
    @Test
    void immediateDataOfThePeerEndsIt() {
        try (OneThread two = OneThread.open()) {
            List<Status> ended = new ArrayList<>();
            two.device.running = false;
            two.b
                    .trySend(text("x"), 0, 1, (of, nothing, status) -> ended.add(status), null)
                    .orThrow();
            two.a
                    .pair
                    .writeWithImmediate(0, new BufferList(1), 0, 0, 5, OpFlags.SILENT_SUCCESS)
                    .orThrow();
            two.device.runOne();
            two.device.resume();
            two.run();
            assertThat(two.b.closed()).isCompletedWithValue(Status.INTERNAL_ERROR);
            assertThat(two.b.closeReason()).hasMessageContaining("sent immediate data");
            assertThat(ended).hasSize(1);
        }
    }

    @Test
    void aMessageWithImmediateDataEndsIt() {
        try (OneThread two = OneThread.open()) {
            two.a.pair.sendWithImmediate(0, new BufferList(1), 5, OpFlags.SILENT_SUCCESS).orThrow();
            two.run();
            assertThat(two.b.closeReason()).hasMessageContaining("sent immediate data");
        }
    }

    /** Until it is, the device may still read or write what the request names. */
    @Test
    void callbacksComeWhenTheQueuePairIsDestroyed() {
        try (OneThread two = OneThread.open()) {
            List<String> log = new ArrayList<>();
            two.device.running = false;
            two.b
                    .trySend(
                            text("x"),
                            0,
                            1,
                            (of, nothing, status) -> {
                                of.pair.awaitClosed(Duration.ZERO);
                                log.add(status.name());
                            },
                            null)
                    .orThrow();
            two.b.fail(Status.CANCELLED, "test", null);
            two.device.resume();
            two.run();
            assertThat(log).containsExactly("CANCELLED");
        }
    }

    /** A handler that answers what it got could not. */
    @Test
    void aMessageThatIsLongerThanAgreedEndsIt() {
        try (OneThread two = OneThread.open();
                MessageChannel sender = new MessageChannel(two.poller, SMALL, null);
                MessageChannel receiver = new MessageChannel(two.pollerOfB, SMALL, null)) {
            sender.agree(receiver.options.handshake(receiver.poller.adapter()));
            sender.established();
            receiver.agree(new Handshake(10, 4, 0, 0, 10, false)); // what it believes of the sender
            receiver.established();
            sender.pair.connect(receiver.pair.address());
            receiver.pair.connect(sender.pair.address());
            sender.trySend(text("0123456789")).orThrow();
            two.run();
            assertThat(receiver.isOpen()).isTrue();
            sender.trySend(text("0123456789x")).orThrow();
            two.run();
            assertThat(receiver.closeReason())
                    .hasMessageContaining("a message of 11 bytes, which is longer than the 10");
        }
    }

    // ---- what had come before

    /** The end of the connection, an event, overtakes messages that were not polled. */
    @Test
    void whatHadComeIsReceived() throws Exception {
        try (OneThread two = new OneThread(SMALL, null)) {
            for (int i = 0; i < 4; i++) {
                two.a.trySend(text("message " + i)).orThrow();
            }
            two.device.run();
            two.b.disconnected(Status.CONNECTION_INVALID);
            for (int i = 0; i < 4; i++) {
                try (Message message = two.b.receive(LONG)) {
                    assertThat(OneThread.text(message)).isEqualTo("message " + i);
                }
            }
            assertThatThrownBy(() -> two.b.receive(LONG))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("the peer disconnected and had not closed it");
            assertThat(two.b.closed()).isCompletedWithValue(Status.CONNECTION_ABORTED);
        }
    }

    /** Its last frame says so, and needs no credit: messages and control frames have used it up. */
    @Test
    void aPeerThatClosesSaysSo() throws Exception {
        try (OneThread two = new OneThread(SMALL, null)) {
            while (two.a.trySend(text("message")).isSuccess()) {
                continue;
            }
            for (int i = 0; i < Credits.CONTROLS; i++) {
                two.a.outbox.control(Frame.KEEP_ALIVE);
            }
            two.a.outbox.close(); // as a close does that another one has not waited for
            var _ = two.a.closeAsync();
            assertThat(two.frames(two.a, Frame.CLOSE)).isOne();
            two.device.run();
            two.b.disconnected(Status.CONNECTION_INVALID);
            two.run();
            assertThat(two.b.closed()).isCompletedWithValue(Status.CONNECTION_INVALID);
            assertThat(two.b.closeReason()).hasMessageContaining("the peer closed it");
        }
    }

    /** However it ends that it does not close: nobody knows what is missing. */
    @Test
    void aPeerThatAbortsDoesNotClose() throws Exception {
        try (OneThread two = new OneThread(SMALL, null)) {
            two.a.abort("it was told to");
            two.run();
            assertThat(two.a.closed()).isCompletedWithValue(Status.CANCELLED);
            assertThat(two.a.closeReason()).hasMessageContaining("it was told to");
            two.b.disconnected(Status.CONNECTION_INVALID);
            two.run();
            assertThat(two.b.closed()).isCompletedWithValue(Status.CONNECTION_ABORTED);
        }
    }

    @Test
    void aThreadThatWaitsReceivesWhatHadCome() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            CompletableFuture<String> received = new CompletableFuture<>();
            Thread waiting =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try (Message message = two.b.receive(LONG)) {
                                            received.complete(OneThread.text(message));
                                        } catch (Throwable t) {
                                            received.completeExceptionally(t);
                                        }
                                    });
            CountDownLatch polls = new CountDownLatch(1);
            stopPolling(two.poller, polls);
            Until.holds(() -> waiting.getState() == Thread.State.TIMED_WAITING);
            two.a.trySend(text("last words")).orThrow();
            Pump.step(two.device);
            two.b.disconnected(Status.CONNECTION_INVALID);
            polls.countDown();
            assertThat(received.get(30, TimeUnit.SECONDS)).isEqualTo("last words");
            waiting.join();
        }
    }

    @Test
    void allThreadsThatWaitHearOfTheEnd() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            List<CompletableFuture<Throwable>> ends = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                CompletableFuture<Throwable> end = new CompletableFuture<>();
                Thread waiting =
                        Thread.ofPlatform()
                                .start(
                                        () ->
                                                end.complete(
                                                        catchThrowable(() -> two.b.receive(LONG))));
                Until.isIn(waiting, Thread.State.TIMED_WAITING);
                ends.add(end);
            }
            two.b.abandon();
            for (CompletableFuture<Throwable> end : ends) {
                assertThat(end.get(10, TimeUnit.SECONDS)).isInstanceOf(MessagingException.class);
            }
        }
    }

    /** The poller's thread does nothing from now on, until the latch is open. */
    static void stopPolling(Poller poller, CountDownLatch until) {
        CountDownLatch stopped = new CountDownLatch(1);
        poller.execute(
                () -> {
                    stopped.countDown();
                    awaitUninterruptibly(until);
                });
        awaitUninterruptibly(stopped);
    }

    private static void awaitUninterruptibly(CountDownLatch latch) {
        try {
            assertThat(latch.await(30, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    // ---- a close

    @Test
    void whatWasAcknowledgedIsReportedAsSent() {
        try (OneThread two = OneThread.open()) {
            two.a.trySend(text("x"), 0, 1, two.logged(), "sent").orThrow();
            two.device.run(); // not polled yet
            two.a.close();
            assertThat(two.log).containsExactly("sent SUCCESS");
            assertThat(two.a.closed()).isCompletedWithValue(Status.CANCELLED);
        }
    }

    private enum Meanwhile {
        NOTHING,
        A_SEND,
        A_SEND_THAT_WAITS,
        A_REVOKE,
        A_FRAME_OF_THE_CHANNEL
    }

    /** It waits for what was sent; what is refused meanwhile does not cut it short. */
    @ParameterizedTest
    @EnumSource
    void aCloseWaitsForWhatWasSent(Meanwhile meanwhile) throws Exception {
        CompletableFuture<Integer> arrived = new CompletableFuture<>();
        MessagingOptions options = SMALL.withExposures(1);
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(
                                poller,
                                port(7473),
                                options,
                                1,
                                (channel, message) -> arrived.complete(message.length()),
                                channel -> {})) {
            MessageChannel channel = MessageChannel.connect(poller, port(7473), options, null);
            MemoryRegion region = poller.domain().allocate(64, Access.LOCAL_WRITE);
            fabric.stall(true);
            CompletableFuture<Void> sent = channel.sendAsync(MemorySegment.ofArray(new byte[7]));
            CompletableFuture<Void> refused = null;
            if (meanwhile == Meanwhile.A_SEND_THAT_WAITS) {
                for (int i = 1; i < SMALL.outstanding; i++) {
                    channel.trySend(text("x")).orThrow();
                }
                refused = channel.sendAsync(text("x"));
            }
            Exposure exposure =
                    meanwhile == Meanwhile.A_REVOKE
                            ? channel.ownMemory().expose(region, OpFlags.ALLOW_REMOTE_READ, LONG)
                            : null;
            channel.beginClose();
            switch (meanwhile) {
                case NOTHING -> {}
                case A_SEND, A_SEND_THAT_WAITS -> // with room, and without
                        assertThat(channel.trySend(text("x"))).isEqualTo(Status.CONNECTION_INVALID);
                case A_REVOKE -> exposure.revoke(); // the peer has not heard of it: invalidates
                case A_FRAME_OF_THE_CHANNEL -> {
                    channel.lock.lock();
                    try {
                        assertThat(channel.outbox.control(Frame.KEEP_ALIVE)).isFalse();
                    } finally {
                        channel.lock.unlock();
                    }
                }
            }
            assertThat(channel.isOpen()).isTrue();
            assertThat(sent).isNotDone();
            fabric.stall(false);
            sent.get(30, TimeUnit.SECONDS);
            assertThat(arrived.get(30, TimeUnit.SECONDS)).isEqualTo(7);
            assertThat(channel.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(channel.closeReason()).hasMessageContaining("this side closed it");
            region.close();
            if (refused != null) {
                assertThatThrownBy(refused::join).hasMessageContaining("this side closed it");
            }
        }
    }
}
