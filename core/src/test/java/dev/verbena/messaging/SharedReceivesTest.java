package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.AdapterEvent;
import dev.verbena.FakeAdapters;
import dev.verbena.LoggedMessages;
import dev.verbena.MemoryRegion;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** The receives that the message channels of a poller share. */
@Timeout(60)
class SharedReceivesTest {
    private static final int CREDIT = 60;
    private static final int LEAST = CREDIT + Credits.RESERVE; // receives of the pool
    private static final MessagingOptions OPTIONS =
            OneThread.SMALL.withReceives(CREDIT).withOutstanding(CREDIT);

    private final List<Message> kept = new ArrayList<>();
    private final List<String> got = new ArrayList<>();
    private boolean keeps;

    private final MessageHandler handler =
            (channel, message) -> {
                got.add(text(message));
                if (keeps) {
                    kept.add(message.retain());
                }
            };

    /** A channel of each poller, connected to each other. */
    private MessageChannel connected(OneThread two) {
        MessageChannel a = new MessageChannel(two.poller, OPTIONS, null);
        MessageChannel b = new MessageChannel(two.pollerOfB, OPTIONS, handler);
        ChannelsByHand.connect(a, b);
        return a;
    }

    private static void sendAll(MessageChannel channel, String name) {
        for (int i = 0; i < CREDIT; i++) {
            var _ = channel.sendAsync(text(name + i));
        }
    }

    /** More than the pool has, while nobody polls: the rest waits in the senders. */
    @Test
    void aBurstArrivesAndThePoolGrowsAndShrinks() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            RawReceives pool = two.b.receives;
            assertThat(pool.count()).isEqualTo(LEAST);
            List<MessageChannel> channels = new ArrayList<>(List.of(two.a));
            for (int i = 0; i < 4; i++) {
                channels.add(connected(two));
            }
            assertThat(two.b.receives.count()).as("idle channels need none").isEqualTo(LEAST);
            for (MessageChannel channel : channels) {
                sendAll(channel, "");
            }
            two.run();
            assertThat(got).hasSize(5 * CREDIT);
            assertThat(pool.count()).isBetween(128, 5 * (CREDIT + Credits.RESERVE));
            int objects = two.device.objects();
            int before = pool.count();
            two.pass(Duration.ofSeconds(6));
            assertThat(pool.count()).as("no message has come").isEqualTo(before);
            for (int i = 0; i < 25; i++) {
                sendAll(two.a, "later");
                two.pass(Duration.ofSeconds(1));
            }
            assertThat(pool.count()).isEqualTo(LEAST);
            assertThat(two.device.objects()).isLessThan(objects);
            sendAll(two.a, "at last");
            two.run();
            assertThat(got).hasSize(31 * CREDIT);
        }
    }

    /** All that they may have: what comes when most receives are kept is copied to the heap. */
    @Test
    void channelsThatKeepTheirMessagesLeaveReceivesToOthers() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            RawReceives pool = two.b.receives;
            keeps = true;
            List<MessageChannel> channels = new ArrayList<>();
            for (int i = 0; i < 40; i++) {
                channels.add(connected(two));
            }
            for (MessageChannel channel : channels) {
                sendAll(channel, "kept");
                two.pass(Duration.ofMillis(300)); // the pool grows at ticks
            }
            assertThat(kept).hasSize(40 * CREDIT);
            assertThat(pool.outstanding()).isGreaterThan(pool.count() / 5);
            keeps = false;
            sendAll(two.a, "other");
            two.run();
            assertThat(got).hasSize(41 * CREDIT).endsWith("other" + (CREDIT - 1));
            for (int i = 0; i < kept.size(); i++) {
                assertThat(text(kept.get(i))).isEqualTo("kept" + i % CREDIT);
                assertThat(kept.get(i).data().isNative()).isTrue();
                kept.get(i).release();
            }
            two.run();
            assertThat(pool.outstanding()).isEqualTo(pool.count());
            channels.forEach(channel -> sendAll(channel, "again"));
            two.run();
            assertThat(got).hasSize(81 * CREDIT);
        }
    }

    /** The pool goes on with what it has, and every channel with it. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aPoolThatCannotGrowEndsNoChannel(boolean error) {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            List<MessageChannel> channels = new ArrayList<>(List.of(two.a));
            for (int i = 0; i < 4; i++) {
                channels.add(connected(two));
            }
            for (MessageChannel channel : channels) {
                sendAll(channel, "");
            }
            two.device.beforeStep = step -> noMemory(error);
            two.run();
            two.device.beforeStep = step -> {};
            assertThat(got).hasSize(5 * CREDIT);
            assertThat(channels).allMatch(MessageChannel::isOpen);
            assertThat(two.b.receives.count()).isEqualTo(LEAST);
            assertThat(two.b.receives.outstanding()).isEqualTo(LEAST);
        }
    }

    private static void noMemory(boolean error) {
        if (error) {
            throw new OutOfMemoryError("injected");
        }
        throw new VerbenaException("ibv_reg_mr", Errno.ENOMEM, "injected");
    }

    /** Its message is delivered, and its receive is the others'. */
    @Test
    void anErrorAfterAMessageLosesNoReceive() {
        try (OneThread two = new OneThread(OneThread.SMALL, handler)) {
            two.keeps = true;
            for (int i = 0; i < 4; i++) {
                two.b.trySend(text("" + i)).orThrow();
            }
            two.run();
            var waits = two.b.sendAsync(MemorySegment.ofArray(new byte[500]));
            two.device.beforeStep = step -> noMemory(true);
            two.kept.getFirst().release();
            two.a.trySend(text("with a report")).orThrow();
            two.run();
            two.device.beforeStep = step -> {};
            two.run();
            assertThat(two.b.closeReason()).hasCauseInstanceOf(OutOfMemoryError.class);
            assertThat(waits).isCompletedExceptionally();
            assertThat(got).containsExactly("with a report");
            assertThat(two.b.receives.outstanding()).isEqualTo(two.b.receives.count());
            two.kept.forEach(Message::release);
        }
    }

    /** Nor one before it is delivered: the region that the message takes back cannot be freed. */
    @Test
    void anErrorBeforeAMessageLosesNoReceive() {
        try (OneThread two = new OneThread(OneThread.SMALL, handler)) {
            MemoryRegion closed = two.poller.domain().allocate(64, Access.LOCAL_WRITE);
            Exposure exposure =
                    two.a
                            .ownMemory()
                            .tryExpose(
                                    closed,
                                    0,
                                    64,
                                    OneThread.WRITE,
                                    OneThread.LONG,
                                    (ended, status, message) -> {},
                                    null);
            RemoteMemory remote = two.announce(exposure);
            long region = closed.nativeHandle().address();
            closed.close(); // pends
            two.device.destroyErrors.put("ibv_dereg_mr", Errno.EBUSY);
            two.b.peerMemory().trySendAndInvalidate(text("x"), 0, 1, remote, null, null).orThrow();
            two.run();
            two.device.destroyErrors.clear();
            assertThat(two.a.isOpen()).isFalse();
            assertThat(two.a.receives.outstanding()).isEqualTo(two.a.receives.count());
            assertThat(two.device.deregisterMemory(region)).isZero();
        }
    }

    /** The rest of the poller is freed. */
    @Test
    void aPoolThatFailsToCloseKeepsNothingElse() {
        OneThread two = new OneThread(OPTIONS, handler);
        two.a.trySend(MemorySegment.ofArray(new byte[500])).orThrow();
        two.run();
        two.device.destroyErrors.put("ibv_destroy_srq", Errno.EBUSY);
        two.poller.close();
        two.pollerOfB.close();
        for (MemoryRegion last : List.of(two.region, two.other)) { // in their domains
            assertThatThrownBy(last::close).hasMessageContaining("ibv_dealloc_pd");
        }
        two.adapter.close();
        assertThat(two.device.objects()).as("the pools and their domains").isEqualTo(4);
        two.device.dispose();
    }

    /** No more than the credits of all channels add up to. */
    @Test
    void onePairOfChannelsNeedsNoMore() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            for (int i = 0; i < 5; i++) {
                sendAll(two.a, "");
                two.run();
            }
            assertThat(got).hasSize(5 * CREDIT);
            assertThat(two.b.receives.count()).isEqualTo(LEAST);
        }
    }

    /** Their credits do not count any more. */
    @Test
    void thePoolDoesNotGrowForChannelsThatHaveEnded() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            for (int i = 0; i < 4; i++) {
                var _ = connected(two);
            }
            two.pollerOfB
                    .connections()
                    .fail(one -> one != two.b, Status.CANCELLED, "of a test", null);
            two.run();
            keeps = true;
            sendAll(two.a, "");
            two.pass(Duration.ofMillis(200));
            assertThat(kept).hasSize(CREDIT);
            assertThat(two.b.receives.count()).isEqualTo(LEAST);
            kept.forEach(Message::release);
        }
    }

    /**
     * The pool's completion queue is another one than that of the channel's sends, in which there
     * may be a request that has failed; the poller may find that first.
     */
    @ParameterizedTest
    @CsvSource({"false, false", "true, false", "true, true"})
    void whatCameToThePoolBeforeTheEndIsDelivered(boolean fails, boolean first) {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            PollerQueue ofPool = two.b.receives.queue();
            while (two.pollerOfB.reserve(1) == ofPool) {
                continue; // until it has no room for the next channel
            }
            MessageChannel a = new MessageChannel(two.poller, OPTIONS, null);
            MessageChannel b = new MessageChannel(two.pollerOfB, OPTIONS, handler);
            ChannelsByHand.connect(a, b);
            a.trySend(text("first")).orThrow();
            a.trySend(text("second")).orThrow();
            int ignored = two.poller.poll(); // they have come, and are not polled
            if (fails) {
                two.device.failAt = 0;
                two.device.failStatus = 5; // IBV_WC_WR_FLUSH_ERR
                b.trySend(text("flushed")).orThrow();
            }
            b.disconnected(Status.CONNECTION_INVALID);
            if (first) {
                assertThat(two.pollerOfB.drain(b.queue)).isOne();
            }
            two.run();
            assertThat(b.isOpen()).isFalse();
            assertThat(b.receives.queue()).isSameAs(ofPool);
            assertThat(List.of(ofPool, b.queue)).as("ends with each").allMatch(b::reportsTo);
            assertThat(got).containsExactly("first", "second");
        }
    }

    /** The last receive of its newer half comes back on a program's thread, during a tick. */
    @Test
    void aPoolNeverShrinksBelowWhatItBeganWith() throws InterruptedException {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin());
                RawReceives pool = RawReceives.ofMessages(poller, 64, 1000, 64)) {
            pool.need(200);
            pool.busy();
            assertThat(pool.count()).isEqualTo(128);
            for (int i = 0; i <= 50; i++) {
                pool.tick();
            }
            Thread ticks = Thread.ofPlatform().unstarted(pool::tick);
            synchronized (pool) {
                ticks.start();
                while (ticks.getState() != Thread.State.BLOCKED) {
                    Thread.onSpinWait();
                }
                for (int slot = 64; slot < 128; slot++) {
                    pool.post(slot).orThrow();
                }
                assertThat(pool.count()).isEqualTo(64);
            }
            ticks.join();
            for (int slot = 0; slot < 64; slot++) {
                pool.post(slot).orThrow();
            }
            assertThat(pool.count()).isEqualTo(64);
        }
    }

    private static void tick(RawReceives pool, int times) {
        for (int i = 0; i < times; i++) {
            pool.tick();
        }
    }

    /** Returns how many it keeps when all after the first so many come back. */
    private static int countAfter(RawReceives pool, int first) {
        for (int slot = first; slot < pool.count(); slot++) {
            pool.post(slot).orThrow();
        }
        return pool.count();
    }

    @Test
    void aPoolShrinksByHalvesEachFiveSecondsWithoutDemand() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin());
                RawReceives pool = RawReceives.ofMessages(poller, 64, 2000, 64)) {
            pool.need(256);
            pool.busy();
            pool.busy();
            assertThat(pool.count()).isEqualTo(256);
            tick(pool, 50);
            pool.busy();
            tick(pool, 50);
            assertThat(countAfter(pool, 128)).isEqualTo(256);
            tick(pool, 1);
            assertThat(countAfter(pool, 128)).isEqualTo(128);
            tick(pool, 50);
            assertThat(countAfter(pool, 64)).isEqualTo(128);
            tick(pool, 1);
            assertThat(countAfter(pool, 64)).isEqualTo(64);
        }
    }

    /** Demand that comes back while half of the pool is about to go. */
    @Test
    void aPoolThatIsBusyAgainDoesNotShrink() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            MessageChannel other = connected(two);
            for (int i = 0; i < 2; i++) {
                sendAll(two.a, "");
                sendAll(other, "");
                two.run();
                assertThat(two.b.receives.count()).isGreaterThan(64);
                two.pass(Duration.ofSeconds(6));
                two.a.trySend(text("one that is not posted again")).orThrow();
                two.run();
            }
            sendAll(two.a, "");
            sendAll(other, "");
            two.run();
            assertThat(got).hasSize(6 * CREDIT + 2);
        }
    }

    /** A channel whose messages are kept holds its credit, and no more. */
    @Test
    void aChannelThatKeepsItsMessagesStarvesNoOther() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            MessageChannel other = connected(two);
            keeps = true;
            sendAll(two.a, "kept");
            two.run();
            assertThat(kept).hasSize(CREDIT);
            assertThat(two.a.trySend(text("one more")).isSuccess()).isFalse();
            keeps = false;
            for (int i = 0; i < 10; i++) {
                sendAll(other, "");
                two.run();
            }
            assertThat(got).hasSize(11 * CREDIT);
            kept.forEach(Message::release);
            two.run();
            sendAll(two.a, "again");
            two.run();
            assertThat(got).hasSize(12 * CREDIT);
        }
    }

    /** Its memory is for the others, and its credit is not. */
    @Test
    void aMessageThatIsDetachedHoldsNoReceive() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            RawReceives pool = two.b.receives;
            keeps = true;
            sendAll(two.a, "kept");
            two.run();
            assertThat(pool.outstanding()).isEqualTo(pool.count() - CREDIT);
            for (int again = 0; again < 2; again++) {
                kept.forEach(Message::detach);
                assertThat(pool.outstanding()).isEqualTo(pool.count());
            }
            two.run();
            assertThat(two.a.trySend(text("one more")).isSuccess()).isFalse();
            assertThat(text(kept.getLast())).isEqualTo("kept" + (CREDIT - 1));
            for (int again = 0; again < 2; again++) {
                kept.forEach(Message::release);
                two.run();
            }
            assertThatIllegalStateException().isThrownBy(kept.getFirst()::detach);
            kept.clear();
            sendAll(two.a, "again");
            two.run();
            assertThat(got).hasSize(2 * CREDIT);
            kept.getFirst().detach();
            two.b.abandon();
            two.run();
            kept.forEach(Message::detach);
            assertThat(text(kept.getFirst())).isEqualTo("again0");
            assertThat(text(kept.getLast())).isEqualTo("again" + (CREDIT - 1));
            kept.forEach(Message::release);
            assertThat(pool.outstanding()).isEqualTo(pool.count());
        }
    }

    /** Nor does it hold the memory of receives that were closed. */
    @Test
    void aMessageThatIsDetachedAfterItsPollerHoldsNothing() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            keeps = true;
            sendAll(two.a, "kept");
            two.run();
            two.poller.close();
            two.pollerOfB.close();
            kept.forEach(Message::detach);
            assertThat(text(kept.getLast())).isEqualTo("kept" + (CREDIT - 1));
        } // no native object is left
    }

    /** Then no poll finds a full batch. */
    @Test
    void thePoolGrowsWhenMessagesAreKept() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            MessageChannel other = connected(two);
            keeps = true;
            sendAll(two.a, "kept");
            two.run();
            sendAll(other, "");
            two.run();
            two.pass(Duration.ofSeconds(1));
            assertThat(got).hasSize(2 * CREDIT);
            kept.forEach(Message::release);
        }
    }

    /** However long its receives are. */
    @ParameterizedTest
    @CsvSource({"1000, 4, 64", "4064, 100, 105", "16000, 4, 64", "32000, 4, 32", "1000000, 4, 9"})
    void thePoolIsLimitedInBytes(int eager, int credit, int receives) {
        try (OneThread two = OneThread.open();
                MessageChannel channel =
                        new MessageChannel(
                                two.poller,
                                MessagingOptions.DEFAULTS
                                        .withMaxMessage(eager)
                                        .withEagerLimit(eager)
                                        .withReceives(credit),
                                null)) {
            assertThat(channel.receives.count()).isEqualTo(receives);
        }
    }

    /** On a device that cannot share receives, each channel has its own. */
    @Test
    void aDeviceWithoutSharedReceivesHasThoseOfEachChannel() {
        FakeDevice device = new FakeDevice();
        device.sharedQueues = false;
        device.carriesBytes = true;
        try (Adapter adapter = FakeAdapters.open(device)) {
            Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
            MessageChannel a = new MessageChannel(poller, OPTIONS, null);
            MessageChannel b = new MessageChannel(poller, OPTIONS, handler);
            ChannelsByHand.connect(a, b);
            assertThat(b.receives.isShared()).isFalse();
            assertThat(b.receives.count()).isEqualTo(CREDIT + Credits.RESERVE);
            keeps = true;
            for (int i = 0; i < 2; i++) {
                sendAll(a, "message ");
                poll(poller);
            }
            assertThat(got).hasSize(CREDIT);
            keeps = false;
            kept.subList(1, CREDIT).forEach(Message::release);
            poll(poller);
            assertThat(got).hasSize(2 * CREDIT);
            poller.close();
            assertThat(text(kept.getFirst())).isEqualTo("message 0");
            kept.forEach(Message::release);
        }
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    @Test
    void theWarningOfMemoryThatCannotBeFreedNamesItsConnection() {
        FakeDevice device = new FakeDevice();
        device.sharedQueues = false;
        try (Adapter adapter = FakeAdapters.open(device)) {
            Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
            MessageChannel channel = new MessageChannel(poller, OPTIONS, null);
            channel.fail(Status.INTERNAL_ERROR, "of a test", null);
            device.destroyErrors.put("ibv_dereg_mr", Errno.EBUSY);
            assertThat(LoggedMessages.of(() -> poll(poller)))
                    .containsExactly(
                            "Receives of %s could not close all of its parts"
                                    .formatted(channel.pair));
            device.destroyErrors.clear();
            assertThatThrownBy(poller::close).hasMessageContaining("ibv_dealloc_pd");
        }
        device.dispose();
    }

    /** The second registration of a channel whose receives are its own. */
    @Test
    void aChannelThatCannotBeMadeFreesItsReceives() {
        FakeDevice device = new FakeDevice();
        device.sharedQueues = false;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            AtomicInteger registrations = new AtomicInteger();
            device.beforeStep =
                    step -> {
                        if (step.equals("registerMemory") && registrations.incrementAndGet() == 2) {
                            noMemory(true);
                        }
                    };
            assertThatThrownBy(() -> new MessageChannel(poller, OPTIONS, null))
                    .isInstanceOf(OutOfMemoryError.class);
        }
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    /** A channel must get all that its peer may send, even if the pool cannot grow. */
    @Test
    void aChannelThatNeedsMoreThanThePoolAlwaysHasGetsAnother() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            MessagingOptions more = OPTIONS.withReceives(CREDIT + 1);
            two.a.receives.need(1000);
            two.a.receives.busy(); // but it will shrink again
            RawReceives pool = new MessageChannel(two.poller, more, null).receives;
            assertThat(pool).isNotSameAs(two.a.receives);
            assertThat(pool.count()).isEqualTo(CREDIT + 1 + Credits.RESERVE);
            assertThat(new MessageChannel(two.poller, OPTIONS, null).receives)
                    .isSameAs(two.a.receives);
        }
    }

    @Test
    void aPoolThatHasFailedIsNotUsedAgain() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            two.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_FAILED);
            Until.holds(() -> !two.b.isOpen()); // whose pool was made last
            assertThat(new MessageChannel(two.pollerOfB, OPTIONS, handler).receives)
                    .isNotSameAs(two.b.receives);
        }
    }

    private static void poll(Poller poller) {
        for (int quiet = 0; quiet < 3; ) {
            quiet = poller.poll() == 0 ? quiet + 1 : 0;
        }
    }

    /** Receives of a channel that has ended are the others'. */
    @Test
    void theReceivesOfAChannelThatHasEndedComeBack() {
        try (OneThread two = new OneThread(OPTIONS, handler)) {
            for (int i = 0; i < 5; i++) {
                MessageChannel other = connected(two);
                keeps = true;
                sendAll(other, "");
                two.run();
                other.abandon();
                two.run();
                keeps = false;
                kept.forEach(Message::release);
                kept.clear();
            }
            sendAll(two.a, "");
            two.run();
            assertThat(got).hasSize(6 * CREDIT);
        }
    }
}
