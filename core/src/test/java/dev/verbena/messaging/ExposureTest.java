package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.INVALIDATE;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.READ;
import static dev.verbena.messaging.OneThread.WRITE;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.BufferList;
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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** Memory that is exposed to the peer of a channel, and given back by its messages. */
@Timeout(120)
class ExposureTest {
    @Test
    void thePeerWritesAndItsMessageTakesTheKeyBack() {
        try (OneThread two = OneThread.open()) {
            RemoteMemory remote = two.announce(two.expose(WRITE, LONG));
            int chains = two.device.chains.size();
            assertThat(
                            two.b
                                    .peerMemory()
                                    .tryWriteAndInvalidate(
                                            two.bytes("value"),
                                            remote,
                                            3,
                                            text("5 bytes"),
                                            0,
                                            7,
                                            two.logged(),
                                            "b"))
                    .isEqualTo(Status.SUCCESS);
            assertThat(two.device.chains.size()).as("doorbells").isEqualTo(chains + 1);
            assertThat(two.log).isEmpty();
            two.run();
            assertThat(two.log).containsExactlyInAnyOrder("SUCCESS 5 bytes", "b SUCCESS");
            assertThat(two.region.memory().getString(3)).isEqualTo("value");
            assertThat(two.posted(INVALIDATE)).isZero();
            // The key is gone, and nobody takes it back twice.
            assertThat(two.b.peerMemory().tryWrite(two.bytes("x"), remote, 0, null, null))
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(two.b.peerMemory().trySendAndInvalidate(text("x"), 0, 1, remote, null, null))
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(two.a.isOpen()).isTrue();
            two.region.close();
            two.region.awaitClosed(Duration.ZERO); // no window holds it
        }
    }

    @Test
    void thePeerWritesReadsAndGivesBackByAMessageOnly() {
        try (OneThread two = OneThread.open()) {
            PeerMemory memory = two.b.peerMemory();
            RemoteMemory remote =
                    two.announce(two.expose(WRITE.and(READ), LONG)); // ends with the message only
            assertThat(memory.tryWrite(two.bytes("written"), remote, 0, two.logged(), "write"))
                    .isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(two.region.memory().getString(0)).isEqualTo("written");
            two.region.memory().setString(0, "changed");
            two.other.memory().fill((byte) 0);
            BufferList into = new BufferList(1).add(two.other, 10, 7);
            assertThat(memory.tryRead(into, remote, 0, two.logged(), "read"))
                    .isEqualTo(Status.SUCCESS);
            assertThat(memory.trySendAndInvalidate(text("bye"), 0, 3, remote, two.logged(), "end"))
                    .isEqualTo(Status.SUCCESS);
            assertThat(two.device.sends.getLast().flags() & 1).as("read fence").isOne();
            two.run();
            assertThat(two.other.memory().getString(10)).isEqualTo("changed");
            assertThat(two.log)
                    .containsExactlyInAnyOrder(
                            "write SUCCESS", "read SUCCESS", "end SUCCESS", "SUCCESS bye");
            assertThat(two.log).containsSubsequence("write SUCCESS", "read SUCCESS", "end SUCCESS");
        }
    }

    /** Otherwise the key may be invalid before a read that was posted has got its bytes. */
    @Test
    void anAnswerThatGivesBackAKeyIsFencedWhileReadsAreOutstanding() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(READ, LONG);
            RemoteMemory remote = two.announce(exposure);
            two.device.acknowledgedLate = request -> request.opcode() == 4; // reads
            BufferList into = new BufferList(1).add(two.other, 0, 7);
            assertThat(two.b.peerMemory().tryRead(into, remote, 0, two.logged(), "read"))
                    .isEqualTo(Status.SUCCESS);
            exposure.revoke();
            two.run();
            assertThat(two.device.sends.stream().filter(one -> (one.flags() & 1) != 0))
                    .as("read fence")
                    .hasSize(1);
            two.device.acknowledgedLate = request -> false;
            two.run();
            assertThat(two.log).containsExactlyInAnyOrder("read SUCCESS", "CANCELLED");
        }
    }

    /** A write needs no credit, unlike the message before it. */
    @Test
    void whatWaitsBehindAMessageGoesOnWhenThatWaitsNoMore() {
        try (OneThread two = OneThread.open()) {
            RemoteMemory remote = two.announce(two.expose(WRITE, LONG));
            two.keeps = true;
            for (int i = 0; i < 4; i++) {
                two.b.trySend(text("kept")).orThrow();
            }
            two.run();
            CompletableFuture<Void> posted = new CompletableFuture<>();
            try (var _ = two.b.lock.hold()) {
                assertThat(
                                two.b.outbox.enqueue(
                                        new WaitingRequests.Request(
                                                RequestKind.SEND,
                                                text("x"),
                                                null,
                                                null,
                                                posted,
                                                true)))
                        .isTrue();
            }
            CompletableFuture<Void> write =
                    two.b.peerMemory().writeAsync(two.bytes("value"), remote);
            two.run();
            assertThat(write).isNotDone();
            try (var _ = two.b.lock.hold()) {
                assertThat(two.b.outbox.withdraw(posted)).isTrue();
            }
            two.run();
            assertThat(write).isCompleted();
            assertThat(two.region.memory().getString(0)).isEqualTo("value");
            two.kept.forEach(Message::release);
        }
    }

    @Test
    void aBindThatIsRefusedLeavesItsWindowToTheNext() {
        try (OneThread two = OneThread.open()) {
            for (int i = 0; i < 3; i++) {
                assertThatThrownBy(
                                () -> two.tryExpose(1001, WRITE, (e, status, message) -> {}, null))
                        .isInstanceOf(VerbenaException.class);
            }
            two.expose(WRITE, LONG);
            assertThat(two.device.windowCount()).isOne();
        }
    }

    @Test
    void futuresAreDoneWithTheMessage() throws Exception {
        try (OneThread two = OneThread.open();
                Exposure exposure = two.a.ownMemory().expose(two.region, WRITE, LONG)) {
            RemoteMemory remote = two.announce(exposure);
            long messages = two.b.counters().sent();
            CompletableFuture<Void> sent =
                    two.b
                            .peerMemory()
                            .writeAndInvalidateAsync(two.bytes("value"), remote, text("answer"));
            assertThat(two.b.counters().sent())
                    .as("the write is no message")
                    .isEqualTo(messages + 1);
            assertThat(exposure.hasEnded()).isFalse();
            try (Message answer = exposure.await()) {
                assertThat(text(answer)).isEqualTo("answer");
                assertThat(two.region.memory().getString(0)).isEqualTo("value");
            }
            two.run();
            assertThat(sent).isCompleted();
            assertThat(exposure.hasEnded()).isTrue();
            assertThat(two.log).isEmpty(); // the handler does not get the answer
            assertThat(two.a.credit()).isEqualTo(4);
        }
    }

    /** Only as many answers as there are receives can be kept; closing gives them back. */
    @Test
    void anAnswerThatNobodyAskedForIsReleased() throws Exception {
        try (OneThread two = OneThread.open()) {
            for (int i = 0; i < 20; i++) {
                try (Exposure exposure = two.a.ownMemory().expose(two.region, WRITE, LONG)) {
                    RemoteMemory remote = two.announce(exposure);
                    assertThat(
                                    two.b
                                            .peerMemory()
                                            .trySendAndInvalidate(
                                                    text("x"), 0, 1, remote, null, null))
                            .isEqualTo(Status.SUCCESS);
                    two.run();
                }
            }
        }
    }

    @Test
    void aStrangersTokenEndsTheChannel() {
        try (OneThread two = OneThread.open()) {
            two.announce(two.expose(WRITE, LONG));
            int token = 0x1234_5678;
            BufferList frame = new BufferList(1).add(two.other, 0, 16);
            Frame.write(two.other.memory(), 0, Frame.MESSAGE, two.b.credits, 0, 0);
            two.b.pair.sendAndInvalidate(0, frame, token, OpFlags.SILENT_SUCCESS).orThrow();
            two.run();
            assertThat(two.log).containsExactly("INTERNAL_ERROR");
            assertThat(two.a.closeReason())
                    .hasMessageContaining(
                            "invalidated the token 0x1234xxxx, which is not exposed to it");
        }
    }

    /**
     * A key of this side's that the peer had given back before, or of a frame without a message.
     */
    @ParameterizedTest
    @ValueSource(bytes = {Frame.CREDIT, Frame.KEEP_ALIVE})
    void aControlFrameTakesNothingBack(byte kind) {
        try (OneThread two = OneThread.open()) {
            RemoteMemory remote = two.announce(two.expose(WRITE, LONG));
            BufferList frame = new BufferList(1).add(two.other, 0, 16);
            Frame.write(two.other.memory(), 0, kind, two.b.credits, 0, 0);
            two.b
                    .pair
                    .sendAndInvalidate(0, frame, remote.token(), OpFlags.SILENT_SUCCESS)
                    .orThrow();
            two.run();
            assertThat(two.log).containsExactly("INTERNAL_ERROR");
        }
    }

    @Test
    void notesThatCannotBeTrueEndTheChannel() {
        int[][] wrong = {{3, 7}, {4, 7}, {0, 7}, {1, 7}}; // kind and token
        for (int[] note : wrong) {
            try (OneThread two = OneThread.open()) {
                BufferList frame = new BufferList(1).add(two.other, 0, 32);
                Frame.write(two.other.memory(), 0, Frame.CREDIT, two.b.credits, 0, 2);
                Frame.writeNote(two.other.memory(), 16, 0, (byte) note[0], note[1]);
                Frame.writeNote(two.other.memory(), 16, 1, (byte) 1, 7); // twice, in the last case
                two.b.pair.send(0, frame, OpFlags.SILENT_SUCCESS).orThrow();
                two.run();
                assertThat(two.a.closeReason()).as("note %d", note[0]).isNotNull();
                assertThat(two.a.closeReason()).hasMessageContaining("that was not exposed");
            }
        }
    }

    /** More keys than a frame has room for: the message waits until the peer knows them all. */
    @Test
    void aMessageArrivesAfterTheKeysThatItMayHold() {
        try (OneThread two =
                new OneThread(OneThread.SMALL.withExposures(16), (channel, message) -> {})) {
            List<Exposure> all = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                all.add(two.expose(WRITE, LONG));
            }
            assertThat(two.a.trySend(text("the peer does not know them")))
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            while (two.a.trySend(text("all of them")) == Status.NO_MORE_ENTRIES) {
                two.run();
            }
            two.run();
            for (Exposure one : all) {
                assertThat(
                                two.b
                                        .peerMemory()
                                        .sendAndInvalidateAsync(text("x"), one.remoteMemory())
                                        .isCompletedExceptionally())
                        .isFalse();
            }
            two.run();
            assertThat(two.log).hasSize(16).allMatch("SUCCESS x"::equals);
            assertThat(two.a.isOpen()).isTrue();
        }
    }

    @Test
    void windowsAreUsedAgainAndKeysAreNot() {
        try (OneThread two = OneThread.open()) {
            Set<Integer> tokens = new HashSet<>();
            for (int i = 0; i < 600; i++) {
                Exposure exposure = two.expose(WRITE, LONG);
                assertThat(tokens.add(exposure.token)).as("a new token").isTrue();
                RemoteMemory remote = two.announce(exposure);
                if (i % 3 == 0) {
                    exposure.revoke();
                } else {
                    assertThat(
                                    two.b
                                            .peerMemory()
                                            .trySendAndInvalidate(
                                                    text("x"), 0, 1, remote, null, null))
                            .isEqualTo(Status.SUCCESS);
                }
                two.run();
            }
            assertThat(two.log).hasSize(600);
            assertThat(two.device.windowCount()).isLessThanOrEqualTo(2);
        }
    }

    @Test
    void thereAreAsManyExposuresAsTheOptionsSay() throws Exception {
        try (OneThread two = OneThread.open()) {
            Exposure first = two.expose(WRITE, LONG);
            for (int i = 1; i < 4; i++) {
                two.announce(two.expose(WRITE, LONG));
            }
            assertThat(two.tryExpose(1, WRITE, (e, status, m) -> {}, null)).isNull();
            assertThatThrownBy(
                            () ->
                                    two.a
                                            .ownMemory()
                                            .expose(two.region, WRITE, Duration.ofMillis(50)))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining(
                            "has 4 exposures, its limit, and none was taken back within")
                    .extracting(e -> ((MessagingException) e).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            first.revoke();
            two.run();
            try (Exposure next = two.a.ownMemory().expose(two.region, WRITE, LONG)) {
                assertThat(next.hasEnded()).isFalse();
            } // the peer has not heard of it
        }
    }

    @Test
    void mistakesAreRefusedAndNothingElseHappens() throws Exception {
        try (OneThread two = OneThread.open();
                OneThread none = new OneThread(OneThread.SMALL.withExposures(0), null)) {
            assertThatThrownBy(() -> two.a.ownMemory().expose(two.region, OpFlags.NONE, LONG))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE or both");
            assertThatThrownBy(() -> two.a.ownMemory().expose(two.region, OpFlags.DEFER, LONG))
                    .isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> two.a.ownMemory().expose(two.region, WRITE, Duration.ZERO))
                    .isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> two.a.ownMemory().expose(two.region, 999, 2, WRITE, LONG))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("INVALID_PARAMETER");
            assertThatThrownBy(() -> none.a.ownMemory().expose(none.region, WRITE, LONG))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("withExposures");
            RemoteMemory remote = two.announce(two.expose(WRITE, LONG));
            PeerMemory memory = two.b.peerMemory();
            assertThat(memory.tryWrite(two.bytes("xx"), remote, 999, two.logged(), "x"))
                    .isEqualTo(Status.INVALID_PARAMETER);
            assertThat(
                            memory.tryWriteAndInvalidate(
                                    two.bytes("xx"), remote, 999, text("x"), 0, 1, null, null))
                    .isEqualTo(Status.INVALID_PARAMETER);
            CompletableFuture<Void> outside =
                    memory.writeAsync(two.bytes("xx"), remote.slice(999, 1));
            assertThatThrownBy(outside::get).hasMessageContaining("INVALID_PARAMETER");
            assertThat(
                            memory.tryWriteAndInvalidate(
                                    two.bytes("xx"), remote, 0, text("right"), 0, 5, null, null))
                    .isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(two.log).containsExactly("SUCCESS right");
        }
    }

    @Test
    void aBufferOfAPoolIsExposed() throws Exception {
        try (OneThread two = OneThread.open();
                BufferPool pool =
                        two.poller
                                .domain()
                                .createBufferPool(
                                        BufferPoolOptions.of(4, 100), Access.LOCAL_WRITE);
                PooledBuffer first = pool.take(LONG);
                PooledBuffer buffer = pool.take(LONG);
                Exposure exposure =
                        two.a
                                .ownMemory()
                                .expose(
                                        buffer.region(),
                                        buffer.offset(),
                                        buffer.memory().byteSize(),
                                        WRITE,
                                        LONG)) {
            assertThat(exposure.remoteMemory().address())
                    .isNotEqualTo(first.remoteMemory().address());
            assertThat(exposure.remoteMemory().bytes()).isEqualTo(buffer.memory().byteSize());
            RemoteMemory remote = two.announce(exposure);
            var sent = two.b.peerMemory().writeAndInvalidateAsync(two.bytes("v"), remote, text(""));
            exposure.await().release();
            assertThat(sent).isNotCompletedExceptionally();
            assertThat(buffer.memory().getString(0)).isEqualTo("v");
        }
    }

    @Test
    void aBufferOfAPoolIsExposedWithACallback() throws Exception {
        try (OneThread two = OneThread.open();
                BufferPool pool =
                        two.poller
                                .domain()
                                .createBufferPool(
                                        BufferPoolOptions.of(2, 100), Access.LOCAL_WRITE);
                PooledBuffer first = pool.take(LONG)) {
            PooledBuffer buffer = pool.take(LONG);
            assertThat(buffer.offset()).isNotEqualTo(first.offset());
            Exposure exposure =
                    two.a
                            .ownMemory()
                            .tryExpose(
                                    buffer.region(),
                                    buffer.offset(),
                                    buffer.memory().byteSize(),
                                    WRITE,
                                    LONG,
                                    (ended, status, message) -> {
                                        two.log.add(status.name() + " " + OneThread.text(message));
                                        ((PooledBuffer) ended.attachment()).giveBack();
                                    },
                                    buffer);
            RemoteMemory remote = two.announce(exposure);
            assertThat(remote)
                    .isEqualTo(new RemoteMemory(buffer.memory().address(), remote.token(), 100));
            assertThat(
                            two.b
                                    .peerMemory()
                                    .trySendAndInvalidate(text("done"), 0, 4, remote, null, null))
                    .isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(two.log).containsExactly("SUCCESS done");
            assertThat(pool.counters().free()).isEqualTo(1);
        }
    }

    /** The channel's sends complete in another queue, which is polled after that of messages. */
    @Test
    void aKeyThatIsTakenBackBeforeItsBindIsKnownToHaveEndedHoldsNoRegion() {
        try (OneThread two = OneThread.open()) {
            PollerQueue ofMessages = two.a.receives.queue();
            while (two.poller.reserve(1) == ofMessages) {
                continue; // until it has no room for the next channel
            }
            MessageHandler none = (channel, message) -> {};
            MessageChannel a = new MessageChannel(two.poller, OneThread.SMALL, none);
            MessageChannel b = new MessageChannel(two.pollerOfB, OneThread.SMALL, none);
            ChannelsByHand.connect(a, b);
            Exposure exposure =
                    a.ownMemory()
                            .tryExpose(
                                    two.region,
                                    0,
                                    8,
                                    WRITE,
                                    LONG,
                                    (ended, status, message) -> two.log.add(status.name()),
                                    null);
            RemoteMemory remote = exposure.remoteMemory();
            a.trySend(text("exposed")).orThrow();
            int ignored = two.pollerOfB.poll();
            b.peerMemory().trySendAndInvalidate(text("done"), 0, 4, remote, null, null).orThrow();
            two.run();
            assertThat(two.log).containsExactly("SUCCESS");
            two.region.close();
            two.region.awaitClosed(Duration.ZERO);
        }
    }

    /** The close of a region that is exposed frees its memory only after the end. */
    @Test
    void aRegionThatIsClosedWhileItIsExposedStaysUntilTheEnd() throws Exception {
        try (OneThread two = OneThread.open()) {
            MemoryRegion mine = two.poller.domain().allocate(100, Access.LOCAL_WRITE);
            Exposure exposure = two.a.ownMemory().expose(mine, WRITE, LONG);
            two.announce(exposure);
            mine.close();
            assertThatThrownBy(() -> mine.awaitClosed(Duration.ZERO))
                    .isInstanceOf(VerbenaException.class);
            exposure.revoke();
            two.run();
            exposure.close();
            mine.awaitClosed(Duration.ZERO);
        }
    }

    @Test
    void aHandlerMustNotWaitForAnExposure() throws Exception {
        List<Throwable> thrown = new ArrayList<>();
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.a.ownMemory().expose(two.region, WRITE, LONG);
            SendCallback callback =
                    (channel, attachment, status) -> {
                        try (Message answer = exposure.await()) {
                            thrown.add(new AssertionError(answer));
                        } catch (Exception e) {
                            thrown.add(e);
                        }
                        exposure.close(); // does not wait
                        try {
                            for (int i = 0; i < 5; i++) {
                                channel.ownMemory().expose(two.region, WRITE, LONG).revoke();
                            }
                        } catch (Exception e) {
                            thrown.add(e);
                        }
                    };
            assertThat(two.a.trySend(text("x"), 0, 1, callback, null)).isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(thrown)
                    .hasSize(2)
                    .allSatisfy(
                            one ->
                                    assertThat(one)
                                            .isInstanceOf(IllegalStateException.class)
                                            .hasMessageContaining("must not poll or wait"));
            assertThat(exposure.hasEnded()).isTrue();
        }
    }

    /** More threads than windows: each waits for one, and gets the answer to its own request. */
    @Test
    void threadsShareWindowsAndGetTheirOwnAnswers() throws Exception {
        int threads = 100;
        AtomicInteger right = new AtomicInteger();
        MessageHandler fill =
                (channel, message) -> {
                    RemoteMemory remote = RemoteMemory.readFrom(message.data(), 0);
                    byte[] number = message.data().asSlice(20).toArray(ValueLayout.JAVA_BYTE);
                    BufferList none = new BufferList(1); // writes nothing
                    var _ =
                            channel.peerMemory()
                                    .writeAndInvalidateAsync(
                                            none, remote, MemorySegment.ofArray(number));
                };
        try (Two two = new Two(OneThread.SMALL, null, fill);
                MemoryRegion region = two.poller.domain().allocate(1000, Access.LOCAL_WRITE)) {
            List<Thread> all = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                byte number = (byte) i;
                all.add(
                        Thread.ofVirtual()
                                .start(
                                        () -> {
                                            byte[] request = new byte[21];
                                            request[20] = number;
                                            MemorySegment message = MemorySegment.ofArray(request);
                                            try (Exposure exposure =
                                                    two.a.ownMemory().expose(region, WRITE, LONG)) {
                                                exposure.writeTo(message, 0);
                                                two.a.send(message, LONG);
                                                try (Message answer = exposure.await()) {
                                                    if (answer.buffer()
                                                                    .get(ValueLayout.JAVA_BYTE, 0)
                                                            == number) {
                                                        right.incrementAndGet();
                                                    }
                                                }
                                            } catch (InterruptedException e) {
                                                throw new IllegalStateException(e);
                                            }
                                        }));
            }
            for (Thread thread : all) {
                thread.join();
            }
            assertThat(right).hasValue(threads);
        }
    }

    /** A frame, byte by byte, as the package's description has it. */
    @Test
    void aFrameHasItsNotesBehindTheMessage() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            RemoteMemory remote = exposure.remoteMemory();
            assertThat(two.a.trySend(text("abc"))).isEqualTo(Status.SUCCESS);
            int token = remote.token();
            byte[] expected = {
                1,
                1,
                1,
                0, // a message, version 1, one note
                0,
                0,
                0,
                0, // messages released
                3,
                0,
                0,
                0, // its length
                0,
                0,
                0,
                0, // control frames taken
                'a',
                'b',
                'c',
                1,
                0,
                0,
                0, // exposed
                (byte) token,
                (byte) (token >> 8),
                (byte) (token >> 16),
                (byte) (token >> 24)
            };
            assertThat(two.device.sends.getLast().inline()).isEqualTo(expected);
            two.run();
            exposure.revoke();
            byte[] asked = two.device.sends.getLast().inline();
            assertThat(asked).hasSize(24);
            assertThat(asked[0]).as("credit").isEqualTo((byte) 2);
            assertThat(asked[16]).as("asked back").isEqualTo((byte) 2);
            two.run();
            byte[] answer = two.device.sends.get(two.device.sends.size() - 2).inline();
            assertThat(answer[16]).as("given back").isEqualTo((byte) 3);
            assertThat(two.log).containsExactly("CANCELLED");
        }
    }
}
