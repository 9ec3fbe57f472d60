package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.SEND;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.BufferPool;
import dev.verbena.BufferPoolOptions;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.PooledBuffer;
import dev.verbena.RegisteredArena;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Messages above the eager limit, and messages from registered memory of either kind. */
@Timeout(60)
class LargeMessageTest extends ReceivedMessages {
    private static final int EAGER = 1000;
    private static final int WRITE = 0; // opcodes
    private static final int READ = 4;
    private static final MessagingOptions LARGE =
            OneThread.SMALL.withEagerLimit(EAGER).withMaxMessage(5_000_000);

    private void assertGot(int... lengths) {
        assertThat(got.stream().mapToInt(one -> one.length).toArray()).isEqualTo(lengths);
        for (byte[] one : got) {
            assertThat(Arrays.equals(one, bytes(one.length))).as("bytes").isTrue();
        }
    }

    @ParameterizedTest
    @ValueSource(
            ints = {1, EAGER - 1, EAGER, EAGER + 1, 4096, 65_537, 1 << 20, 3_000_000, 5_000_000})
    void aMessageOfAnyLengthArrives(int length) {
        try (OneThread two = open(LARGE)) {
            for (int i = 0; i < 3; i++) {
                CompletableFuture<Void> sent = two.a.sendAsync(message(length));
                two.run();
                assertThat(sent).isCompleted();
            }
            assertGot(length, length, length);
            assertThat(two.a.counters().bytesSent()).isEqualTo(3L * length);
            assertThat(two.b.counters().bytesReceived()).isEqualTo(3L * length);
            assertThat(two.a.credit()).isEqualTo(3); // one is not reported yet
        }
    }

    @Test
    void messagesOfAllLengthsArriveInOrder() {
        try (OneThread two = open(LARGE)) {
            List<CompletableFuture<Void>> sent = new ArrayList<>();
            int[] lengths = {10, 2000, 20, 30, 70_000, 3000, 40, 2_500_000, 50, 60, 1001, 1000};
            for (int length : lengths) {
                sent.add(two.a.sendAsync(message(length)));
            }
            two.run();
            assertGot(lengths);
            assertThat(sent).allMatch(CompletableFuture::isDone);
        }
    }

    /** What is in registered memory leaves from there, in as many buffers as it has. */
    @ParameterizedTest
    @ValueSource(ints = {3, 300, EAGER, EAGER + 1, 100_000})
    void registeredMemoryIsSentWithoutACopy(int length) {
        try (OneThread two = open(LARGE);
                MemoryRegion region = two.poller.domain().allocate(length, Access.LOCAL_WRITE)) {
            region.memory().copyFrom(message(length));
            int first = length / 3;
            BufferList list = new BufferList(3);
            list.add(region, 0, first).add(region, first, 1);
            list.add(region, first + 1, length - first - 1);
            assertThat(two.a.trySend(list, two.logged(), "sent")).isEqualTo(Status.SUCCESS);
            list.clear(); // it may be reused at once
            two.run();
            assertGot(length);
            assertThat(two.log).containsExactly("sent SUCCESS");
        }
    }

    @Test
    void pooledBuffersAndArenasAreRegisteredMemory() throws Exception {
        try (OneThread two = open(LARGE);
                BufferPool pool =
                        two.poller.domain().createBufferPool(BufferPoolOptions.of(2, 5000));
                RegisteredArena arena = two.poller.domain().createArena()) {
            PooledBuffer buffer = pool.take(OneThread.LONG);
            buffer.memory().copyFrom(message(5000));
            buffer.memory().asSlice(0, 500).copyFrom(message(500));
            CompletableFuture<Void> sent = two.a.sendAsync(buffer.buffers(0, 500));
            two.run();
            assertThat(sent).isCompleted();
            buffer.memory().copyFrom(message(5000));
            sent = two.a.sendAsync(buffer.buffers());
            two.run();
            assertThat(sent).isCompleted();
            buffer.giveBack();
            MemorySegment segment = arena.allocate(3000).copyFrom(message(3000));
            sent = two.a.sendAsync(new BufferList(1, arena).add(segment));
            two.run();
            assertThat(sent).isCompleted();
            assertGot(500, 5000, 3000);
        }
    }

    /** On a device without memory windows, all messages are sent at once. */
    @Test
    void aDeviceWithoutWindowsHasNoLargeMessages() {
        FakeDevice device = new FakeDevice();
        device.windows = false;
        device.carriesBytes = true;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            MessagingOptions options = LARGE.withMaxMessage(70_000);
            MessageChannel a = new MessageChannel(poller, options, null);
            MessageChannel b =
                    new MessageChannel(
                            poller,
                            options,
                            (channel, message) ->
                                    got.add(message.data().toArray(ValueLayout.JAVA_BYTE)));
            ChannelsByHand.connect(a, b);
            a.trySend(message(70_000)).orThrow();
            a.trySend(message(10)).orThrow();
            while (got.size() < 2) {
                int ignored = poller.poll();
            }
            assertGot(70_000, 10);
            assertThat(a.offersMemory).isFalse();
        }
        device.dispose();
    }

    /**
     * A device may report the end of a frame after the peer's answer to it: the announcement comes
     * while as many control frames are outstanding as may be, and no other frame follows.
     */
    @Test
    void memoryIsOfferedOnceControlFramesHaveEnded() {
        try (OneThread two = open(LARGE.withReceives(2))) { // each message is reported
            two.device.acknowledgedLate =
                    one -> one.opcode() == SEND && one.message()[0] == Frame.CREDIT;
            for (int i = 0; i < Credits.CONTROLS; i++) {
                two.a.trySend(message(10)).orThrow();
                two.run();
            }
            CompletableFuture<Void> sent = two.a.sendAsync(message(2000));
            two.run();
            assertThat(sent).isNotDone();
            int tick = two.pollerOfB.clock.tick();
            for (int i = 0; i < 400; i++) {
                two.run(); // the device reports the ends when polls have found nothing for long
            }
            assertThat(two.pollerOfB.clock.tick()).as("a tick would offer, too").isEqualTo(tick);
            assertThat(sent).isCompleted();
            assertGot(10, 10, 10, 10, 2000);
        }
    }

    /** An announcement carries the answer to a question for a key, which a read still uses. */
    @Test
    void anAnnouncementThatGivesBackAKeyIsFencedWhileReadsAreOutstanding() {
        try (OneThread two = open(LARGE)) {
            two.keeps = true;
            Exposure exposure = two.expose(OneThread.READ, OneThread.LONG);
            var remote = two.announce(exposure);
            for (int i = 0; i < 4; i++) {
                two.b.trySend(text("kept")).orThrow();
            }
            two.run();
            readForLong(two, remote);
            var _ = two.b.sendAsync(message(2000)); // waits
            two.kept.getFirst().release(); // reported with the question
            exposure.revoke();
            two.run();
            assertThat(fenced(two)).containsExactly(Frame.LARGE);
            two.kept.forEach(Message::release);
        }
    }

    /** So does the last frame of a large message, where no control frame may be sent. */
    @Test
    void aLastFrameThatGivesBackAKeyIsFencedWhileReadsAreOutstanding() {
        MessagingOptions options = LARGE.withReceives(2).withMaxMessage(100_000);
        try (OneThread two = open(options.withLargeMemory(120_000))) {
            Exposure exposure = two.expose(OneThread.READ, OneThread.LONG);
            var remote = two.announce(exposure);
            two.keeps = true;
            two.b.trySend(message(80_000)).orThrow();
            two.run();
            two.b.trySend(message(80_000)).orThrow(); // waits for the memory of the first
            two.run();
            readForLong(two, remote);
            for (int i = 0; i < Credits.CONTROLS; i++) {
                two.a.trySend(message(10)).orThrow(); // of which each is reported
                two.run();
            }
            exposure.revoke();
            two.kept.getFirst().release();
            two.run();
            assertThat(fenced(two)).containsExactly(Frame.WRITTEN);
            two.kept.forEach(Message::release);
        }
    }

    /** B's read is acknowledged late, as are the frames behind it, which would acknowledge it. */
    private static void readForLong(OneThread two, RemoteMemory from) {
        two.device.acknowledgedLate =
                one ->
                        one.opcode() == READ
                                || (one.opcode() == SEND
                                        && (one.message()[0] == Frame.CREDIT
                                                || one.message()[0] == Frame.LARGE));
        BufferList into = new BufferList(1).add(two.other, 0, 7);
        two.b.peerMemory().tryRead(into, from, 0, null, null).orThrow();
    }

    /** The kinds of the frames that were sent with a read fence. */
    private static List<Byte> fenced(OneThread two) {
        return two.device.sends.stream()
                .filter(one -> (one.flags() & 1) != 0)
                .map(one -> one.message()[0])
                .toList();
    }

    /** With notes on keys behind it. */
    @Test
    void aMessageFromRegisteredMemoryCarriesNotes() {
        try (OneThread two = open(LARGE)) {
            two.region.memory().asSlice(0, 300).copyFrom(message(300));
            Exposure exposure = two.expose(OneThread.WRITE, OneThread.LONG);
            two.a.trySend(new BufferList(1).add(two.region, 0, 300), null, null).orThrow();
            two.run();
            two.b
                    .peerMemory()
                    .trySendAndInvalidate(text("back"), 0, 4, exposure.remoteMemory(), null, null)
                    .orThrow();
            two.run();
            assertGot(300);
            assertThat(two.log).containsExactly("SUCCESS back");
        }
    }

    @Test
    void memoryThatCannotBeSentIsRefusedWithoutEffect() {
        try (OneThread two = open(LARGE)) {
            BufferList foreign = new BufferList(1).add(two.other, 0, 100);
            assertThat(two.a.trySend(foreign, null, null)).isEqualTo(Status.INVALID_PARAMETER_MIX);
            BufferList seven = new BufferList(7);
            for (int i = 0; i < 7; i++) {
                seven.add(two.region, i, 1);
            }
            assertThat(two.a.trySend(seven, null, null)).isEqualTo(Status.INVALID_PARAMETER);
            MemorySegment plain = java.lang.foreign.Arena.ofAuto().allocate(10);
            BufferList unregistered = new BufferList(1).addUnregistered(plain);
            assertThat(two.a.trySend(unregistered, null, null)).isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(two.a.sendAsync(unregistered))
                    .failsWithin(Duration.ZERO)
                    .withThrowableThat()
                    .havingCause()
                    .withMessageContaining("not registered");
            assertThatThrownBy(() -> two.a.trySend(message(5_000_001)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("longer than the 5,000,000");
            two.run();
            assertThat(two.a.isOpen()).isTrue();
            two.a.trySend(message(2000)).orThrow();
            two.run();
            assertGot(2000);
        }
    }

    /** An answer has to fit a receive: it invalidates already. */
    @Test
    void aMessageThatTakesMemoryBackIsNotLarge() {
        try (OneThread two = open(LARGE)) {
            var remote = two.announce(two.expose(OneThread.WRITE, OneThread.LONG));
            assertThatThrownBy(
                            () ->
                                    two.b
                                            .peerMemory()
                                            .trySendAndInvalidate(
                                                    message(EAGER + 1),
                                                    0,
                                                    EAGER + 1,
                                                    remote,
                                                    null,
                                                    null))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("withEagerLimit");
        }
    }

    private void releaseKept() {
        keeps = false;
        kept.forEach(Message::release); // a second time does nothing
    }

    /** All places are those of messages that take several requests each. */
    @Test
    void manyMessagesOfSeveralPartsArrive() {
        try (OneThread two = open(LARGE)) {
            List<CompletableFuture<Void>> sent = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                sent.add(two.a.sendAsync(message(2_000_000 + i)));
            }
            two.run();
            assertThat(got).hasSize(6);
            assertThat(sent).allMatch(CompletableFuture::isDone);
        }
    }

    /** The queue pair has room for no more. */
    @Test
    void partsAreNoMoreThanTheRequestsThatMayBeOutstanding() {
        try (OneThread two = open(LARGE)) {
            two.device.acknowledgedLate = request -> request.opcode() == WRITE;
            CompletableFuture<Void> sent = two.a.sendAsync(message(5_000_000));
            two.run();
            assertThat(two.posted(WRITE)).isEqualTo(4);
            for (int i = 0; i < 1000 && !sent.isDone(); i++) {
                two.run();
            }
            assertThat(sent).isCompleted();
            assertThat(two.posted(WRITE)).isEqualTo(5);
        }
    }

    /** An offer may come before its announcement is acknowledged. */
    @Test
    void neitherAreAnnouncementsAndPartsTogether() {
        try (OneThread two = open(LARGE)) {
            two.device.acknowledgedLate = request -> request.opcode() == SEND;
            for (int i = 0; i < 2; i++) {
                two.a.trySend(message(2000)).orThrow();
                two.run();
            }
            for (int i = 0; i < 4 && two.a.trySend(message(2000)).isSuccess(); i++) {
                two.run();
            }
            assertThat(two.a.counters().outstanding()).isEqualTo(4);
        }
    }

    /** Those that the peer offers no memory for count as requests do. */
    @Test
    void noMoreAreAnnouncedThanMayBeOutstanding() {
        keeps = true;
        MessagingOptions options =
                LARGE.withMaxMessage(2000).withReceives(16).withLargeMemory(0); // one at a time
        try (OneThread two = open(options);
                MemoryRegion region = two.poller.domain().allocate(2000, Access.LOCAL_WRITE)) {
            for (int i = 0; i < 10; i++) {
                var _ = two.a.sendAsync(new BufferList(1).add(region, 0, 1001 + i));
            }
            two.run();
            assertThat(got).hasSize(1);
            assertThat(two.frames(two.a, Frame.LARGE)).isEqualTo(1 + options.outstanding);
            while (got.size() < 10) {
                kept.removeFirst().release();
                two.run();
            }
            releaseKept();
            assertThat(got).extracting(one -> one.length).isSorted().doesNotHaveDuplicates();
        }
    }

    @Test
    void memoryThatIsOfferedTakesNoExposure() {
        try (OneThread two = open(LARGE)) {
            two.a.trySend(message(2000)).orThrow();
            while (two.frames(two.b, Frame.OFFER) == 0) {
                int ignored = two.pollerOfB.poll();
            }
            for (int i = 0; i < LARGE.exposures; i++) {
                Exposure exposure =
                        two.b
                                .ownMemory()
                                .tryExpose(
                                        two.other,
                                        0,
                                        8,
                                        OneThread.WRITE,
                                        OneThread.LONG,
                                        (ended, status, message) -> {},
                                        null);
                assertThat(exposure).isNotNull();
            }
        }
    }

    /** The poller's memory is freed with it, so none is missing. */
    @Test
    void aMessageThatIsRefusedGivesItsCopyBack() {
        try (OneThread two = open(LARGE)) {
            two.device.answer = Errno.ENOMEM;
            two.device.refused = 0;
            assertThat(two.a.trySend(message(2000))).isEqualTo(Status.INSUFFICIENT_RESOURCES);
            two.run();
            assertThat(two.a.closed()).isDone();
        }
    }

    /** A side whose receives are as long as its messages offers no memory, and takes none. */
    @Test
    void sidesWithUnequalLimitsUseTheLower() {
        try (OneThread two = open(LARGE);
                MessageChannel a = new MessageChannel(two.poller, LARGE, null);
                MessageChannel b =
                        new MessageChannel(
                                two.pollerOfB,
                                LARGE.withEagerLimit(70_000).withMaxMessage(70_000),
                                null)) {
            ChannelsByHand.connect(a, b);
            assertThat(a.maxMessage()).isEqualTo(EAGER);
            assertThat(b.maxMessage()).isEqualTo(EAGER);
        }
    }

    // ---- limits

    /** The credit is the same as for other messages. */
    @Test
    void theReceiverIsNotOutrun() {
        keeps = true;
        try (OneThread two = open(LARGE)) {
            List<CompletableFuture<Void>> sent = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                sent.add(two.a.sendAsync(message(2000 + i)));
            }
            two.run();
            assertGot(2000, 2001, 2002, 2003);
            kept.removeFirst().release();
            kept.removeFirst().release();
            two.run();
            assertThat(got).hasSize(6);
            releaseKept();
            two.run();
            assertThat(got).hasSize(10);
            assertThat(sent).allMatch(CompletableFuture::isDone);
        }
    }

    /** No more memory than the limit, whatever the credit is. */
    @Test
    void memoryForWhatComesIsLimited() {
        keeps = true;
        try (OneThread two = open(LARGE.withMaxMessage(100_000).withLargeMemory(250_000))) {
            for (int i = 0; i < 4; i++) {
                var _ = two.a.sendAsync(message(100_000));
                two.run();
            }
            assertThat(got).hasSize(2);
            two.pass(Duration.ofSeconds(60)); // it is no matter of deadlines
            assertThat(two.a.isOpen()).isTrue();
            kept.removeFirst().release();
            two.run();
            assertThat(got).hasSize(3);
            kept.removeFirst().release();
            two.run();
            assertGot(100_000, 100_000, 100_000, 100_000);
            releaseKept();
        }
    }

    @Test
    void copiesAreLimited() {
        keeps = true;
        try (OneThread two = open(LARGE.withMaxMessage(100_000).withLargeMemory(250_000))) {
            for (int i = 0; i < 2; i++) {
                assertThat(two.a.trySend(message(100_000))).isEqualTo(Status.SUCCESS);
            }
            assertThat(two.a.trySend(message(100_000))).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(two.a.trySend(message(500)))
                    .as("it would overtake")
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            CompletableFuture<Void> third = two.a.sendAsync(message(100_000));
            CompletableFuture<Void> fourth = two.a.sendAsync(message(500));
            two.run();
            assertThat(got).hasSize(2);
            assertThat(third).isNotDone();
            releaseKept();
            two.run();
            assertThat(third).isCompleted();
            assertThat(fourth).isCompleted();
            assertGot(100_000, 100_000, 100_000, 500);
            releaseKept();
        }
    }

    /** Memory is used again, and freed when nobody has used it for some seconds. */
    @Test
    void memoryIsKeptForAMoment() {
        try (OneThread two = open(LARGE)) {
            for (int i = 0; i < 20; i++) {
                two.a.trySend(message(100_000)).orThrow();
                two.run();
            }
            int regions = two.device.objects();
            two.a.trySend(message(100_000)).orThrow();
            two.run();
            assertThat(two.device.objects()).isEqualTo(regions);
            two.pass(Duration.ofSeconds(7), Duration.ofMillis(100));
            assertThat(two.device.objects()).isLessThan(regions);
            two.a.trySend(message(100_000)).orThrow();
            two.run();
            assertThat(got).hasSize(22);
        }
    }

    /** However many sizes a peer sends: what is kept counts, too. */
    @Test
    void blocksThatAreKeptCount() throws ReflectiveOperationException {
        MessagingOptions options = LARGE.withLargeMemory(0);
        try (OneThread two = open(options)) {
            for (int length = 5_000_000; length > EAGER; length -= length / 5) {
                two.a.trySend(message(length)).orThrow();
                two.run();
                assertThat(registered(two.pollerOfB))
                        .isLessThanOrEqualTo(2 * options.largeMemory());
                assertThat(registered(two.poller)).isLessThanOrEqualTo(2 * options.largeMemory());
            }
            assertThat(registered(two.pollerOfB)).as("others are kept").isGreaterThan(5_000_000);
        }
    }

    /** The blocks of a poller, in bytes, when no message is on its way. */
    private static long registered(Poller poller) throws ReflectiveOperationException {
        Field field = LargeMemory.class.getDeclaredField("free");
        long bytes = 0;
        field.setAccessible(true);
        for (LargeMemory.Block block : (LargeMemory.Block[]) field.get(poller.memory().large())) {
            bytes += block == null ? 0 : block.region.bytes(); // one of each size
        }
        return bytes;
    }

    /** A block of 5 KiB for 2 bytes counts as 5 KiB: two fit the limit. */
    @ParameterizedTest
    @ValueSource(ints = {10, 14})
    void blocksCountNotBytes(int kibibytes) {
        keeps = true;
        MessagingOptions options =
                LARGE.withEagerLimit(1).withMaxMessage(2).withLargeMemory(kibibytes << 10);
        try (OneThread two = open(options)) {
            for (int i = 0; i < 4; i++) {
                var _ = two.a.sendAsync(message(2));
            }
            two.run();
            assertThat(got).hasSize(2);
            releaseKept();
            two.run();
            assertThat(got).hasSize(4);
            releaseKept();
        }
    }

    // ---- the end

    /** A close waits for what was accepted. */
    @Test
    void aCloseWaitsForLargeMessages() {
        keeps = true;
        try (OneThread two = open(LARGE.withMaxMessage(100_000).withLargeMemory(0))) {
            MemoryRegion region = two.poller.domain().allocate(100_000, Access.LOCAL_WRITE);
            region.memory().copyFrom(message(100_000));
            for (int i = 0; i < 2; i++) {
                two.a.trySend(BufferList.of(region), two.logged(), "message " + i).orThrow();
            }
            two.run();
            assertThat(got).hasSize(1);
            two.a.beginClose();
            two.run();
            assertThat(two.a.trySend(message(1))).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(two.a.isOpen()).as("it waits").isTrue();
            kept.removeFirst().release();
            two.run();
            assertThat(got).hasSize(2);
            assertThat(two.log).containsExactly("message 0 SUCCESS", "message 1 SUCCESS");
            assertThat(two.a.isOpen()).isFalse();
            region.close();
            releaseKept();
        }
    }

    /** The program keeps one of two messages, and there is no memory for the other. */
    private OneThread closingWhileAMessageWaits() {
        keeps = true;
        OneThread two = open(LARGE.withMaxMessage(100_000).withLargeMemory(0));
        for (int i = 0; i < 2; i++) {
            var _ = two.a.sendAsync(message(100_000));
            two.run();
        }
        two.a.beginClose();
        return two;
    }

    /** But not for ever. */
    @Test
    void aCloseWaitsForHalfOfTheTimeout() {
        try (OneThread two = closingWhileAMessageWaits()) {
            two.pass(Duration.ofSeconds(4));
            assertThat(two.b.awaits()).as("looks for memory at each tick").isTrue();
            assertThat(two.a.isOpen()).isTrue();
            two.pass(Duration.ofSeconds(2));
            assertThat(two.a.isOpen()).isFalse();
            assertThat(got).hasSize(1);
            two.b.disconnected(Status.CONNECTION_INVALID);
            two.run();
            assertThat(two.b.closed()) // not in good order: a message is missing
                    .isCompletedWithValue(Status.CONNECTION_ABORTED);
            releaseKept();
        }
    }

    @Test
    void aSecondCloseWaitsNoLonger() {
        try (OneThread two = closingWhileAMessageWaits()) {
            two.a.beginClose();
            assertThat(two.a.sendsFrames()).as("the first one waits").isTrue();
            for (int i = 0; i < 1000 && two.a.sendsFrames(); i++) {
                two.leap(Duration.ofMillis(100));
                int ignored = two.poller.poll();
            }
            assertThat(two.a.isOpen()).as("is about to disconnect").isTrue();
            two.a.beginClose();
            assertThat(two.a.sendsFrames()).isFalse();
            two.run();
            assertThat(two.a.isOpen()).isFalse();
            releaseKept();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theEndIsReportedToAll(boolean ofReceiver) {
        keeps = true;
        try (OneThread two = open(LARGE.withMaxMessage(100_000).withLargeMemory(0))) {
            CompletableFuture<Void> first = two.a.sendAsync(message(100_000));
            two.run();
            MemoryRegion region = two.poller.domain().allocate(100_000, Access.LOCAL_WRITE);
            two.a.trySend(BufferList.of(region), two.logged(), "second").orThrow();
            CompletableFuture<Void> third = two.a.sendAsync(message(70_000));
            CompletableFuture<Void> behind = two.a.sendAsync(message(7));
            two.run();
            assertThat(first).isCompleted();
            assertThat(third).isNotDone();
            (ofReceiver ? two.b : two.a).fail(Status.INTERNAL_ERROR, "of a test", null);
            two.run();
            two.a.fail(Status.INTERNAL_ERROR, "of a test", null);
            two.run();
            assertThat(two.log).containsExactly("second INTERNAL_ERROR");
            assertThat(third).isCompletedExceptionally();
            assertThat(behind).isDone();
            assertThat(got).hasSize(1);
            assertThat(two.a.closed()).isDone();
            region.close();
            byte[] still = kept.getFirst().data().toArray(ValueLayout.JAVA_BYTE);
            assertThat(Arrays.equals(still, bytes(100_000))).as("what was kept").isTrue();
            kept.getFirst().release();
        }
    }

    /** Most programs receive no more then; the memory is not theirs. */
    @Test
    void whatWaitsAtTheEndTakesNoRegisteredMemory() throws Exception {
        try (OneThread two = new OneThread(LARGE, null)) {
            int objects = two.device.objects();
            for (int length : new int[] {100_000, 500, 3_000_000}) {
                var _ = two.a.sendAsync(message(length));
            }
            two.run();
            two.a.abandon();
            two.b.abandon();
            two.pass(Duration.ofSeconds(7));
            assertThat(two.b.closed()).isDone();
            assertThat(two.device.objects()).as("channels and blocks").isLessThan(objects);
            for (int length : new int[] {100_000, 500, 3_000_000}) {
                Message waited = two.b.receive(Duration.ZERO);
                assertThat(waited).isNotNull();
                assertThat(waited.data().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(bytes(length));
                waited.release();
                waited.release();
            }
            assertThatThrownBy(() -> two.b.receive(Duration.ZERO))
                    .isInstanceOf(MessagingException.class);
        }
    }

    /** The memory of a message that was kept outlives even the poller. */
    @Test
    void whatIsKeptOutlivesThePoller() {
        keeps = true;
        try (OneThread two = open(LARGE)) {
            two.a.trySend(message(100_000)).orThrow();
            two.run();
            two.poller.close();
            two.pollerOfB.close();
            byte[] still = kept.getFirst().data().toArray(ValueLayout.JAVA_BYTE);
            assertThat(Arrays.equals(still, bytes(100_000))).isTrue();
            kept.getFirst().release();
        }
    }

    // ---- peers that lie

    private static void sendFrame(OneThread two, byte kind, int length, long address, int token) {
        two.writeFrame(kind, length, 0);
        if (kind == Frame.OFFER) {
            Frame.writeOffer(two.other.memory(), Frame.HEADER_BYTES, address, token);
        }
        two.sendFrame(kind == Frame.OFFER ? Frame.OFFER_BYTES : 0);
    }

    @Test
    void whoAnnouncesMoreThanItHasCreditForLosesItsChannel() {
        try (OneThread two = open(LARGE.withMaxMessage(100_000).withLargeMemory(0))) {
            for (int i = 0; i < 4; i++) {
                sendFrame(two, Frame.LARGE, 100_000, 0, 0);
                assertThat(two.a.isOpen()).isTrue();
            }
            sendFrame(two, Frame.LARGE, 100_000, 0, 0);
            assertThat(two.a.closeReason()).hasMessageContaining("without a credit");
        }
    }

    /** It would take the receives of others, whose messages are kept. */
    @Test
    void whoSendsMoreThanItHasCreditForLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            two.keeps = true;
            for (int i = 0; i < 4; i++) {
                sendFrame(two, Frame.MESSAGE, 0, 0, 0);
                assertThat(two.a.isOpen()).isTrue();
            }
            int posted = two.a.receives.count() - 4;
            sendFrame(two, Frame.MESSAGE, 0, 0, 0);
            assertThat(two.a.closeReason()).hasMessageContaining("without a credit");
            assertThat(two.a.receives.outstanding()).as("its receive is back").isEqualTo(posted);
            two.kept.forEach(Message::release);
        }
    }

    /** A release is no credit until it was reported: this peer reads no reports. */
    @Test
    void whoFloodsLosesItsChannelThoughItsMessagesAreReleased() {
        try (OneThread two = open(LARGE)) {
            int sent = 0;
            for (; two.a.isOpen() && sent < 100; sent++) {
                sendFrame(two, Frame.MESSAGE, 0, 0, 0);
            }
            assertThat(two.a.closeReason()).hasMessageContaining("without a credit");
            int reported = 3 * 2; // in the control frames that it may send
            assertThat(sent - 1).as("were taken").isEqualTo(reported + LARGE.receives);
        }
    }

    /** They would take the receives of others, however soon these are posted again. */
    @ParameterizedTest
    @CsvSource({Frame.CREDIT + ", 12", Frame.KEEP_ALIVE + ", 9", Frame.CLOSE + ", 1"})
    void whoFloodsWithControlFramesLosesItsChannel(byte kind, int taken) {
        try (OneThread two = open(LARGE)) {
            int sent = 0;
            for (; two.a.isOpen() && sent < 100; sent++) {
                sendFrame(two, kind, 0, 0, 0);
            }
            assertThat(two.a.closeReason())
                    .hasMessageContaining(
                            kind == Frame.CLOSE
                                    ? "after it had closed"
                                    : "control frame without a credit");
            assertThat(sent - 1).as("were taken").isEqualTo(taken); // some of them were reported
        }
    }

    /** It would keep memory from others. */
    @Test
    void whoDoesNotWriteToAnOfferLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            sendFrame(two, Frame.LARGE, 2 << 20, 0, 0);
            two.pass(Duration.ofSeconds(3));
            for (int i = 0; i < 6; i++) { // it answers keep-alives
                sendFrame(two, Frame.CREDIT, 0, 0, 0);
                two.pass(Duration.ofSeconds(3));
            }
            assertThat(two.a.isOpen()).as("after 21 s").isTrue();
            two.pass(Duration.ofSeconds(2)); // twice the timeout, and a second for each MiB
            assertThat(two.a.closeReason())
                    .hasMessageContaining("the peer did not write to memory that it was offered");
        }
    }

    /** It could still write the message that is delivered. */
    @Test
    void whoGivesBackTheMemoryOfALaterMessageLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            sendFrame(two, Frame.LARGE, 2000, 0, 0);
            sendFrame(two, Frame.LARGE, 3000, 0, 0);
            byte[] offer = two.device.sends.getLast().message();
            assertThat(offer[0]).isEqualTo(Frame.OFFER);
            two.writeFrame(Frame.WRITTEN, 0, 0);
            BufferList frame = new BufferList(1).add(two.other, 0, Frame.HEADER_BYTES);
            int later = Frame.offerToken(MemorySegment.ofArray(offer));
            two.b.pair.sendAndInvalidate(0, frame, later, OpFlags.SILENT_SUCCESS).orThrow();
            two.run();
            assertThat(two.a.closeReason()).hasMessageContaining("invalidated the token");
            assertThat(two.log).isEmpty();
        }
    }

    @Test
    void whoAnnouncesWhatFitsAReceiveLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            sendFrame(two, Frame.LARGE, EAGER, 0, 0);
            assertThat(two.a.closeReason()).hasMessageContaining("fits a receive");
        }
    }

    @Test
    void whoAnnouncesMoreThanTheLongestMessageLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            sendFrame(two, Frame.LARGE, 5_000_001, 0, 0);
            assertThat(two.a.closeReason()).hasMessageContaining("longer than the 5,000,000");
        }
    }

    @Test
    void whoOffersMemoryForNoMessageLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            sendFrame(two, Frame.OFFER, Frame.OFFER_BYTES, 4711, 42);
            assertThat(two.a.closeReason()).hasMessageContaining("for no message");
        }
    }

    @Test
    void whoKeepsTheMemoryLosesItsChannel() {
        try (OneThread two = open(LARGE)) {
            sendFrame(two, Frame.LARGE, 2000, 0, 0);
            sendFrame(two, Frame.WRITTEN, 0, 0, 0);
            assertThat(two.a.closeReason()).hasMessageContaining("kept the memory");
        }
    }

    /** A channel without large messages takes none. */
    @Test
    void whoAnnouncesToAChannelWithoutLargeMessagesLosesItsChannel() {
        try (OneThread two = OneThread.open()) {
            sendFrame(two, Frame.LARGE, 1000, 0, 0);
            assertThat(two.a.closeReason()).hasMessageContaining("without a credit");
        }
    }
}
