package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** The memory that the channels of a poller have for large messages. */
@Timeout(60)
class LargeMemoryTest extends ReceivedMessages {
    private static final MessagingOptions OPTIONS = // one of the longest messages at a time
            OneThread.SMALL.withEagerLimit(1000).withMaxMessage(100_000).withLargeMemory(0);

    /** Takes blocks until there are no more. */
    private static List<LargeMemory.Block> takeAll(
            LargeMemory of, OneThread two, long has, long copies) {
        List<LargeMemory.Block> all = new ArrayList<>();
        LargeMemory.Block block = of.take(100_000, two.b, has, copies);
        while (block != null) {
            all.add(block);
            block = of.take(100_000, two.b, has, copies);
        }
        return all;
    }

    /** What takes the polling thread long is spread over ticks. */
    @Test
    void muchMemoryIsPreparedInSeveralTicks() {
        try (OneThread two = open(OPTIONS)) {
            LargeMemory memory = two.pollerOfB.memory().large();
            memory.raiseLimit(1L << 30);
            LargeMemory.Block big = memory.take(300 << 20, two.b, 0, 0);
            assertThat(big).isNotNull();
            assertThat(memory.take(5000, two.b, 0, 0)).isNull();
            memory.tick(1);
            LargeMemory.Block small = memory.take(5000, two.b, 0, 0);
            assertThat(small).isNotNull();
            memory.giveBack(small);
            LargeMemory.Block another = memory.take(300 << 20, two.b, 0, 0);
            assertThat(another).isNotNull().isNotSameAs(big);
            LargeMemory.Block again = memory.take(5000, two.b, 0, 0);
            assertThat(again).as("the same channel's needs nothing").isSameAs(small);
            memory.giveBack(again);
            assertThat(memory.take(5000, two.a, 0, 0)).as("is to be cleared").isNull();
            memory.tick(2);
            assertThat(memory.take(5000, two.a, 0, 0)).isSameAs(small);
            memory.giveBack(big);
            memory.tick(3);
            assertThat(memory.take(300 << 20, two.a, 0, 0)).isSameAs(big);
            LargeMemory.Block next = memory.take(5000, two.b, 0, 0);
            assertThat(next).as("to clear takes a quarter of the time").isNotNull();
            List.of(big, small, another, next).forEach(memory::giveBack);
        }
    }

    /** Of a message above the eager limit, or of one that is not inline. */
    @ParameterizedTest
    @ValueSource(ints = {900, 2000})
    void aMessageWithoutMemoryForItsCopyIsRefused(int length) throws InterruptedException {
        try (OneThread two = open(OPTIONS)) {
            two.device.controlError = Errno.ENOMEM;
            assertThat(two.a.trySend(message(length))).isEqualTo(Status.INSUFFICIENT_RESOURCES);
            two.device.controlError = Errno.ENOMEM;
            assertThat(two.a.sendAsync(message(length)))
                    .failsWithin(Duration.ZERO)
                    .withThrowableOfType(ExecutionException.class)
                    .withCauseInstanceOf(MessagingException.class)
                    .withMessageContaining("ulimit -l")
                    .withRootCauseInstanceOf(VerbenaException.class)
                    .withStackTraceContaining("ibv_reg_mr");
            two.device.controlError = Errno.ENOMEM;
            assertThatThrownBy(() -> two.a.send(message(length), Duration.ofSeconds(1)))
                    .isInstanceOf(MessagingException.class)
                    .hasRootCauseInstanceOf(VerbenaException.class)
                    .extracting(e -> ((MessagingException) e).status())
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            two.a.trySend(message(length)).orThrow();
            two.run();
            assertThat(got).containsExactly(bytes(length));
        }
    }

    /** Its announcement cannot be taken back. */
    @Test
    void aLargeMessageWhoseMemoryIsClosedEndsTheChannelAndSaysWhy() {
        keeps = true;
        try (OneThread two = open(OPTIONS)) {
            two.a.trySend(message(100_000)).orThrow();
            two.run();
            MemoryRegion region = two.poller.domain().allocate(2000, Access.LOCAL_WRITE);
            two.a.trySend(new BufferList(1).add(region, 0, 2000), null, null).orThrow();
            two.run();
            region.close();
            kept.forEach(Message::release);
            two.run();
            assertThat(two.a.closeReason())
                    .hasMessageContaining("a write of a large message was refused")
                    .extracting(MessagingException::status)
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }
    }

    /** A block for its copy would be a native object that is left. */
    @Test
    void aSendWhoseMemoryGoesWhileItWaitsKeepsNoBlock() {
        keeps = true;
        try (OneThread two = open(OPTIONS)) {
            while (two.a.trySend(message(10)).isSuccess()) {
                two.run();
            }
            CompletableFuture<Void> waits;
            try (Arena arena = Arena.ofShared()) {
                waits = two.a.sendAsync(arena.allocate(2000));
            }
            kept.forEach(Message::release);
            two.run();
            assertThat(waits.exceptionNow()).isInstanceOf(IllegalStateException.class);
            assertThat(two.a.isOpen()).isTrue();
        }
    }

    @Test
    void aSendThatWaitedAndFindsNoMemorySaysSo() {
        keeps = true;
        try (OneThread two = open(OPTIONS)) {
            while (two.a.trySend(message(10)).isSuccess()) {
                two.run();
            }
            two.poller.execute(
                    () -> {
                        kept.forEach(Message::release);
                        two.device.controlError = Errno.ENOMEM;
                    });
            assertThatThrownBy(() -> two.a.send(message(2000), Duration.ofSeconds(30)))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("ulimit -l")
                    .hasRootCauseInstanceOf(VerbenaException.class)
                    .extracting(e -> ((MessagingException) e).status())
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(two.a.isOpen()).isTrue();
        }
    }

    /** Its memory is for others; its channel gets no more than before. */
    @Test
    void aMessageThatIsDetachedHoldsNoBlock() {
        keeps = true;
        try (OneThread two = open(OPTIONS)) {
            LargeMemory memory = two.pollerOfB.memory().large();
            List<CompletableFuture<Void>> sent = new ArrayList<>();
            for (int length : new int[] {99_999, 99_998, 99_997}) {
                sent.add(two.a.sendAsync(message(length)));
            }
            two.run();
            Message first = kept.getFirst();
            List<LargeMemory.Block> others = takeAll(memory, two, 0, 0);
            for (int again = 0; again < 2; again++) {
                first.detach();
                List<LargeMemory.Block> freed = takeAll(memory, two, 0, 0);
                assertThat(freed).hasSize(1 - again);
                others.addAll(freed);
            }
            others.forEach(memory::giveBack);
            two.pass(Duration.ofMillis(200));
            assertThat(first.data().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(bytes(99_999));
            assertThat(got).as("it counts still").hasSize(1);
            for (int again = 0; again < 2; again++) {
                first.release();
                two.run();
                assertThat(got).hasSize(2);
            }
            two.b.abandon();
            two.run();
            kept.getLast().detach();
            assertThat(kept.getLast().data().toArray(ValueLayout.JAVA_BYTE))
                    .isEqualTo(bytes(99_998));
            kept.getLast().release();
        }
    }

    /** Or peers whose messages nobody reads, or that write none, would stall those of others. */
    @Test
    void theLastQuarterIsForChannelsThatHaveNone() {
        keeps = true;
        try (OneThread two = open(OPTIONS.withLargeMemory(300_000))) {
            LargeMemory memory = two.pollerOfB.memory().large();
            List<LargeMemory.Block> others = takeAll(memory, two, 1, 0);
            for (int i = 0; i < 3; i++) {
                var _ = two.a.sendAsync(message(90_000 + i));
            }
            two.pass(Duration.ofMillis(200));
            assertThat(got).hasSize(1);
            kept.getFirst().release();
            two.run();
            assertThat(got).hasSize(2);
            others.forEach(memory::giveBack);
            two.pass(Duration.ofMillis(200));
            assertThat(got).hasSize(3);
            kept.forEach(Message::release);
        }
    }

    /** A pipeline that keeps one message gets the next, however many others keep or do not read. */
    @Test
    void channelsWithCopiesOnTheHeapLeaveMoreToTheOthers() {
        keeps = true;
        try (OneThread two = open(OPTIONS.withLargeMemory(300_000))) {
            LargeMemory memory = two.pollerOfB.memory().large();
            var _ = two.a.sendAsync(message(90_000));
            two.run();
            List<LargeMemory.Block> others = takeAll(memory, two, 1, 1);
            var _ = two.a.sendAsync(message(90_001));
            two.pass(Duration.ofMillis(200));
            assertThat(got).hasSize(2);
            kept.getFirst().detach();
            others.addAll(takeAll(memory, two, 1, 1));
            var _ = two.a.sendAsync(message(90_002));
            two.pass(Duration.ofMillis(200));
            assertThat(got).as("there is a copy").hasSize(2);
            kept.getFirst().release();
            two.pass(Duration.ofMillis(200));
            assertThat(got).hasSize(3);
            others.forEach(memory::giveBack);
            kept.forEach(Message::release);
        }
    }

    @Test
    void aBlockHasRoomAndNotMuchMore() {
        for (long bytes = 1; bytes <= 1 << 30; bytes += 1 + bytes / 7) {
            long size = LargeMemory.bytesOf(LargeMemory.sizeOf((int) bytes));
            assertThat(size).isBetween(bytes, Math.max(4096 + 1024, bytes + bytes / 4 + 1));
        }
        assertThat(LargeMemory.bytesOf(LargeMemory.sizeOf(1 << 30))).isEqualTo(1 << 30);
    }

    /** A peer that writes nothing must not learn what another one has sent. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aBlockThatAnotherChannelHasUsedIsCleared(boolean copiedLast) {
        try (OneThread two = open(OPTIONS)) {
            LargeMemory memory = two.poller.memory().large();
            LargeMemory.Block block = memory.take(100_000, two.a, 0, 0);
            block.region.memory().fill((byte) 42);
            memory.giveBack(block);
            assertThat(memory.take(99_999, two.a, 0, 0)).isSameAs(block);
            assertThat(block.region.memory().get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 42);
            memory.giveBack(block);
            assertThat(memory.takeForCopy(100_000, two.b)).isSameAs(block);
            assertThat(block.region.memory().get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 42);
            memory.giveBack(block);
            assertThat(memory.take(100_000, copiedLast ? two.b : two.a, 0, 0)).isSameAs(block);
            MemorySegment zeros = MemorySegment.ofArray(new byte[(int) block.region.bytes()]);
            assertThat(block.region.memory().mismatch(zeros)).isEqualTo(-1);
            memory.giveBack(block);
        }
    }

    /** However many peers announce messages. */
    @Test
    void theMemoryOfAPollerIsLimited() {
        try (OneThread two = open(OPTIONS)) {
            LargeMemory memory = two.pollerOfB.memory().large();
            memory.giveBack(Objects.requireNonNull(memory.take(100_000, two.b, 0, 0)));
            memory.giveBack(memory.takeForCopy(100_000, two.b)); // copies do not count
            List<LargeMemory.Block> others = new ArrayList<>();
            for (int i = 0; i < 64; i++) {
                others.add(memory.take(100_000, two.b, 0, 0));
            }
            assertThat(others).doesNotContainNull();
            assertThat(memory.take(1, two.b, 0, 0)).isNull();
            CompletableFuture<Void> sent = two.a.sendAsync(message(70_000));
            two.run();
            assertThat(sent).isNotDone();
            memory.giveBack(others.removeLast());
            two.pass(Duration.ofMillis(200));
            assertThat(sent).isCompleted();
            assertThat(got).containsExactly(bytes(70_000));
            others.forEach(memory::giveBack);
        }
    }

    /** Nor does a smaller limit of another channel. */
    @Test
    void memoryThatCouldNotBeRegisteredDoesNotCount() {
        try (OneThread two = open(OPTIONS);
                LargeMemory memory = new LargeMemory(two.poller.domain(), () -> 1)) {
            memory.raiseLimit(10 << 10);
            memory.raiseLimit(1);
            int before = two.device.objects();
            for (int i = 0; i < 200; i++) {
                two.device.controlError = Errno.ENOMEM;
                assertThatThrownBy(() -> memory.take(5 << 10, two.a, 0, 0))
                        .isInstanceOf(VerbenaException.class);
            }
            memory.giveBack(Objects.requireNonNull(memory.take(5 << 10, two.a, 0, 0)));
            memory.tick(1);
            assertThat(two.device.objects()).as("it is kept").isEqualTo(before + 1);
        }
    }

    /** Those that were given back long ago, and no others of their size. */
    @Test
    void blocksThatNobodyTakesAreFreed() {
        try (OneThread two = open(OPTIONS);
                LargeMemory memory = new LargeMemory(two.poller.domain(), () -> 1)) {
            memory.raiseLimit(100_000);
            LargeMemory.Block old = memory.take(5000, two.a, 0, 0);
            LargeMemory.Block younger = memory.take(5000, two.a, 0, 0);
            int both = two.device.objects();
            memory.giveBack(old);
            memory.tick(50);
            memory.giveBack(younger);
            memory.tick(51);
            assertThat(two.device.objects()).isEqualTo(both - 1);
            assertThat(memory.take(5000, two.a, 0, 0)).isSameAs(younger);
            LargeMemory.Block next = memory.take(5000, two.a, 0, 0);
            assertThat(next).isNotNull().isNotSameAs(old);
            memory.giveBack(younger);
            memory.giveBack(next);
        }
    }

    /** The peer would wait for it for ever. */
    @Test
    void aChannelThatFindsNoMemoryForAMessageEnds() {
        try (OneThread two = open(OPTIONS)) {
            two.a.trySend(message(2000)).orThrow();
            two.device.controlError = Errno.ENOMEM;
            two.run();
            assertThat(two.b.closeReason())
                    .hasMessageContaining("no registered memory for a message of 2,000 bytes")
                    .hasRootCauseInstanceOf(VerbenaException.class);
        }
    }

    /** At the next tick. */
    @Test
    void blocksAreNotKeptForChannelsThatAreGone() {
        int[] channels = {4};
        try (OneThread two = open(OPTIONS);
                LargeMemory memory = new LargeMemory(two.poller.domain(), () -> channels[0])) {
            memory.raiseLimit(10 << 10);
            List<LargeMemory.Block> blocks = new ArrayList<>();
            int before = two.device.objects();
            for (int i = 0; i < 8; i++) {
                blocks.add(memory.take(5 << 10, two.a, 0, 0));
            }
            blocks.forEach(memory::giveBack);
            memory.tick(1);
            assertThat(two.device.objects()).isEqualTo(before + 8);
            channels[0] = 0;
            memory.tick(2);
            assertThat(two.device.objects()).as("what one channel may take").isEqualTo(before + 4);
        }
    }
}
