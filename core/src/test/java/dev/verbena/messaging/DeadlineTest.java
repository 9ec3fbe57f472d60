package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.WRITE;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;

/** No deadline comes early, and none is late by more than a few ticks, however seldom one polls. */
@Timeout(60)
class DeadlineTest {
    private static final Duration TIMEOUT = Duration.ofSeconds(2);
    private static final MessagingOptions OPTIONS = OneThread.SMALL.withTimeout(TIMEOUT);

    /** The clock of the pollers is the test's: times are exact. */
    private static void assertEndsWithin(OneThread two, MessageChannel channel, int pollMillis) {
        Duration every = Duration.ofMillis(pollMillis);
        two.pass(TIMEOUT.minus(every), every);
        assertThat(channel.isOpen()).as("open before the deadline").isTrue();
        two.pass(Duration.ofMillis(300).plus(every.multipliedBy(2)), every);
        assertThat(channel.isOpen()).as("open after the deadline").isFalse();
        assertThat(channel.closeReason().status()).isEqualTo(Status.IO_TIMEOUT);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 10, 50, 100, 250, 1000})
    void ofAMessage(int pollMillis) {
        try (OneThread two = new OneThread(OPTIONS, (channel, message) -> {})) {
            two.device.running = false;
            two.a.trySend(text("lost")).orThrow();
            assertEndsWithin(two, two.a, pollMillis);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"write", "read"})
    void ofAnAccess(String kind) {
        try (OneThread two = new OneThread(OPTIONS, (channel, message) -> {})) {
            RemoteMemory remote =
                    two.announce(two.expose(WRITE.and(OneThread.READ), OneThread.LONG));
            two.device.running = false;
            BufferList local = two.bytes("value");
            (kind.equals("write")
                            ? two.b.peerMemory().tryWrite(local, remote, 0, null, null)
                            : two.b.peerMemory().tryRead(local, remote, 0, null, null))
                    .orThrow();
            assertEndsWithin(two, two.b, 50);
            assertThat(two.b.closeReason()).hasMessageContaining("a " + kind + " ");
        }
    }

    /** Such as a report of credit. */
    @Test
    void ofAControlFrame() {
        try (OneThread two = new OneThread(OPTIONS, (channel, message) -> {})) {
            two.keeps = true;
            two.b.trySend(text("1")).orThrow();
            two.b.trySend(text("2")).orThrow();
            two.run();
            two.device.running = false;
            two.kept.forEach(Message::release); // half of the window: it is reported
            assertEndsWithin(two, two.a, 50);
        }
    }

    /** Each request has its own deadline: the second one is not given the time of the first. */
    @Test
    void ofTheSecondMessageIsItsOwn() {
        try (OneThread two = new OneThread(OPTIONS, (channel, message) -> {})) {
            two.device.running = false;
            two.a.trySend(text("1")).orThrow();
            two.pass(Duration.ofMillis(1500), Duration.ofMillis(50));
            two.a.trySend(text("2")).orThrow();
            two.device.runOne(); // the first is acknowledged
            two.pass(Duration.ofMillis(1900), Duration.ofMillis(50));
            assertThat(two.a.isOpen()).isTrue();
            two.pass(Duration.ofMillis(500), Duration.ofMillis(50));
            assertThat(two.a.isOpen()).isFalse();
        }
    }

    @ParameterizedTest
    @CsvSource({"50", "1000"})
    void ofAnExposure(int pollMillis) {
        Duration every = Duration.ofMillis(pollMillis);
        try (OneThread two = new OneThread(OneThread.SMALL, (channel, message) -> {})) {
            two.announce(two.expose(WRITE, TIMEOUT));
            two.pass(TIMEOUT.minus(every), every);
            assertThat(two.log).isEmpty();
            two.pass(Duration.ofMillis(300).plus(every.multipliedBy(2)), every);
            assertThat(two.log).containsExactly("IO_TIMEOUT");
            assertThat(two.a.isOpen()).isTrue();
        }
    }

    /** The peer has the channel's timeout to give back what it is asked for. */
    @Test
    void ofThePeersAnswer() {
        try (OneThread two = new OneThread(OPTIONS, (channel, message) -> {})) {
            Exposure exposure = two.expose(WRITE, OneThread.LONG);
            two.announce(exposure);
            two.hangs = true;
            exposure.revoke();
            assertEndsWithin(two, two.a, 50);
        }
    }

    /** A peer that hangs is noticed within the keep-alive's interval and the timeout. */
    @Test
    void ofAKeepAlive() {
        Duration interval = Duration.ofSeconds(1);
        try (OneThread two =
                new OneThread(OPTIONS.withKeepAlive(interval), (channel, message) -> {})) {
            two.run();
            two.hangs = true;
            two.pass(interval.plus(TIMEOUT).minusMillis(100), Duration.ofMillis(50));
            assertThat(two.a.isOpen()).isTrue();
            two.pass(Duration.ofMillis(600), Duration.ofMillis(50));
            assertThat(two.a.closeReason())
                    .hasMessageContaining("has not answered")
                    .extracting(MessagingException::status)
                    .isEqualTo(Status.IO_TIMEOUT);
        }
    }

    /** A peer that asks is there, and is not asked. */
    @Test
    void ofAKeepAliveIsMetByThatOfThePeer() {
        MessagingOptions seldom = OPTIONS.withKeepAlive(Duration.ofSeconds(2));
        MessagingOptions often = seldom.withKeepAlive(Duration.ofSeconds(1));
        try (OneThread two = OneThread.open();
                MessageChannel asks = new MessageChannel(two.poller, often, null);
                MessageChannel hears = new MessageChannel(two.pollerOfB, seldom, null)) {
            ChannelsByHand.connect(asks, hears);
            two.pass(Duration.ofSeconds(10));
            assertThat(two.frames(asks, Frame.KEEP_ALIVE)).isBetween(5L, 12L);
            assertThat(two.frames(hears, Frame.KEEP_ALIVE)).isZero();
        }
    }

    /** Otherwise all channels of a poller would ask in the same tick. */
    @Test
    void ofAKeepAliveIsAnotherForEachChannel() {
        MessagingOptions options = OPTIONS.withKeepAlive(Duration.ofSeconds(2));
        try (OneThread two = new OneThread(options, (channel, message) -> {});
                MessageChannel second = new MessageChannel(two.poller, options, null);
                MessageChannel peer = new MessageChannel(two.pollerOfB, options, null)) {
            ChannelsByHand.connect(second, peer);
            two.run();
            two.hangs = true;
            for (int i = 0; i < 100 && second.isOpen(); i++) {
                two.pass(Duration.ofMillis(50));
            }
            assertThat(second.isOpen()).isFalse();
            assertThat(two.a.isOpen()).isTrue();
            two.pass(Duration.ofMillis(200));
            assertThat(two.a.isOpen()).isFalse();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {10, 1000})
    void ofARequestOfARawConnection(int pollMillis) {
        Duration every = Duration.ofMillis(pollMillis);
        try (OneThread two = OneThread.open();
                RawConnection raw = raw(two);
                RawConnection peer = raw(two)) {
            raw.pair.connect(peer.pair.address());
            peer.pair.connect(raw.pair.address());
            two.device.running = false;
            raw.send(
                            new BufferList(1).add(two.region, 0, 8),
                            OpFlags.NONE,
                            (channel, attachment, status) -> two.log.add("raw " + status.name()),
                            null)
                    .orThrow();
            two.pass(TIMEOUT.minus(every), every);
            assertThat(two.log).isEmpty();
            two.pass(Duration.ofMillis(300).plus(every.multipliedBy(2)), every);
            assertThat(two.log).containsExactly("raw IO_TIMEOUT");
        }
    }

    private static RawConnection raw(OneThread two) {
        return RawConnection.create(
                two.poller,
                QueuePairLimits.depths(4, 4),
                64,
                TIMEOUT,
                new RawHandler() {
                    @Override
                    public void received(RawConnection channel, RawMessage message) {}

                    @Override
                    public void ended(RawConnection channel, MessagingException reason) {}
                });
    }

    /** After a debugger's breakpoint, say: the acknowledgement came in time, but was not polled. */
    @Test
    void aPauseOfTheProgramEndsNothingThatCompletedInTime() {
        int many = 300; // more than one poll takes
        MessagingOptions options = OPTIONS.withOutstanding(many).withReceives(many);
        try (OneThread two = new OneThread(options, (channel, message) -> {})) {
            two.device.running = false;
            for (int i = 0; i < many; i++) {
                two.a.trySend(text("in time")).orThrow();
            }
            two.pass(Duration.ofMillis(200)); // the deadlines begin
            two.device.resume();
            two.device.run();
            two.pass(Duration.ofHours(1), Duration.ofHours(1));
            assertThat(two.a.isOpen()).isTrue();
            assertThat(two.b.isOpen()).isTrue();
        }
    }

    /** It looks at deadlines after what has come, but not after all that comes meanwhile. */
    @Test
    void aSlowBusyProgramStillRunsItsTasks() {
        Duration hour = Duration.ofHours(1);
        MessagingOptions patient = OneThread.SMALL.withTimeout(hour).withKeepAlive(hour);
        try (OneThread two = new OneThread(patient, (channel, message) -> {})) {
            RemoteMemory remote = two.announce(two.expose(WRITE, hour));
            BufferList local = two.bytes("value");
            AtomicInteger writes = new AtomicInteger();
            SendCallback next =
                    new SendCallback() {
                        @Override
                        public void ended(MessageChannel channel, Object nothing, Status status) {
                            two.leap(Duration.ofMillis(250)); // each tick is late
                            if (writes.incrementAndGet() < 10_000 && channel.isOpen()) {
                                channel.peerMemory()
                                        .tryWrite(local, remote, 0, this, null)
                                        .orThrow();
                            }
                        }
                    };
            next.ended(two.b, null, Status.SUCCESS);
            assertThat(two.pollerOfB.poll()).isPositive();
            assertThat(writes).hasValueLessThan(PollerQueue.BATCH);
        }
    }

    /** What was posted after a long pause has all of its time. */
    @Test
    void aMessageAfterAPauseHasItsTime() {
        try (OneThread two = new OneThread(OPTIONS, (channel, message) -> {})) {
            two.run();
            two.leap(Duration.ofHours(1));
            two.device.running = false;
            two.a.trySend(text("lost")).orThrow();
            two.pass(TIMEOUT, Duration.ofMillis(50));
            assertThat(two.a.isOpen()).isTrue();
            two.pass(Duration.ofMillis(400), Duration.ofMillis(50));
            assertThat(two.a.isOpen()).isFalse();
        }
    }
}
