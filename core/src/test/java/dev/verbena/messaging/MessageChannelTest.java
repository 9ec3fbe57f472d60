package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Status;
import dev.verbena.Until;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Messages between two channels, and every way in which a channel ends. */
@Timeout(120)
class MessageChannelTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(1000).withOutstanding(4).withReceives(4);

    private static MemorySegment text(String text) {
        return MemorySegment.ofArray(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    private static String text(Message message) {
        byte[] bytes = message.data().toArray(ValueLayout.JAVA_BYTE);
        return new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @ValueSource(strings = {"events", "spin", "spin then wait"})
    void messagesOfAllLengthsArriveInOrder(String idle) throws Exception {
        IdleStrategy strategy =
                switch (idle) {
                    case "events" -> IdleStrategy.events();
                    case "spin" -> IdleStrategy.busySpin();
                    default -> IdleStrategy.spinThenWait(Duration.ofNanos(50_000));
                };
        BlockingQueue<byte[]> arrived = new LinkedBlockingQueue<>();
        try (Two two =
                new Two(
                        SMALL,
                        null,
                        (channel, message) ->
                                arrived.add(message.data().toArray(ValueLayout.JAVA_BYTE)),
                        strategy)) {
            for (int length = 0; length <= 1000; length += 7) {
                byte[] bytes = new byte[length];
                for (int i = 0; i < length; i++) {
                    bytes[i] = (byte) (length + i);
                }
                two.a.send(MemorySegment.ofArray(bytes), LONG);
                assertThat(arrived.poll(30, TimeUnit.SECONDS)).isEqualTo(bytes);
            }
            assertThat(two.a.isOpen()).isTrue();
            assertThatThrownBy(() -> two.a.send(MemorySegment.ofArray(new byte[1001]), LONG))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("1,001 bytes is longer than the 1,000");
        }
    }

    /** A peer that keeps its messages is not sent more, and what it releases is granted anew. */
    @Test
    void aPeerThatReleasesNothingIsNotOverrun() throws Exception {
        BlockingQueue<Message> kept = new LinkedBlockingQueue<>();
        try (Two two = new Two(SMALL, null, (channel, message) -> kept.add(message.retain()))) {
            for (int i = 0; i < 4; i++) {
                two.a.send(text("m" + i), LONG);
            }
            assertThat(two.a.trySend(text("one more"))).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThatThrownBy(() -> two.a.send(text("one more"), Duration.ofMillis(50)))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("no room for a message within 50 ms")
                    .extracting(e -> ((MessagingException) e).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            CompletableFuture<Void> waiting =
                    CompletableFuture.runAsync(
                            () -> {
                                try {
                                    two.a.send(text("late"), LONG);
                                } catch (InterruptedException e) {
                                    throw new IllegalStateException(e);
                                }
                            },
                            task -> Thread.ofVirtual().start(task));
            List<Message> window = Until.next(kept, 4);
            assertThat(waiting).isNotDone();
            assertThat(text(window.getFirst())).isEqualTo("m0");
            window.removeFirst().release();
            window.removeFirst().release(); // half of the window: it is reported
            waiting.get(30, TimeUnit.SECONDS);
            window.addAll(Until.next(kept, 1));
            window.forEach(Message::release);
        }
    }

    /** The polling thread sends what waits for room, and may not read a confined arena. */
    @Test
    void memoryOfAConfinedArenaMayWaitForRoom() throws Exception {
        BlockingQueue<Message> kept = new LinkedBlockingQueue<>();
        try (Two two = new Two(SMALL, null, (channel, message) -> kept.add(message.retain()));
                Arena shared = Arena.ofShared()) {
            for (int i = 0; i < 4; i++) {
                two.a.send(text("m" + i), LONG);
            }
            CompletableFuture<Void> closed;
            try (Arena another = Arena.ofShared()) {
                closed = two.a.sendAsync(another.allocateFrom("gone"));
            }
            CompletableFuture<Void> confined;
            try (Arena arena = Arena.ofConfined()) {
                confined = two.a.sendAsync(arena.allocate(4).copyFrom(text("mine")));
            }
            CompletableFuture<Void> last =
                    two.a.sendAsync(shared.allocate(4).copyFrom(text("last")));
            Until.next(kept, 4).forEach(Message::release);
            assertThatThrownBy(() -> closed.get(30, TimeUnit.SECONDS))
                    .hasCauseInstanceOf(IllegalStateException.class);
            confined.get(30, TimeUnit.SECONDS);
            last.get(30, TimeUnit.SECONDS);
            List<Message> later = Until.next(kept, 2);
            assertThat(later.stream().map(MessageChannelTest::text))
                    .containsExactly("mine", "last");
            later.forEach(Message::release);
            assertThat(two.a.isOpen()).isTrue();
        }
    }

    @Test
    void futuresAreDoneInOrderAndBounded() throws Exception {
        BlockingQueue<Message> kept = new LinkedBlockingQueue<>();
        try (Two two = new Two(SMALL, null, (channel, message) -> kept.add(message.retain()))) {
            List<CompletableFuture<Void>> futures = new ArrayList<>();
            for (int i = 0; i < 4 + 1024; i++) {
                futures.add(two.a.sendAsync(text("f" + i)));
            }
            CompletableFuture<Void> tooMany = two.a.sendAsync(text("too many"));
            assertThat(tooMany).isCompletedExceptionally();
            assertThat(two.a.trySend(text("no overtaking"))).isEqualTo(Status.NO_MORE_ENTRIES);
            for (int i = 0; i < futures.size(); i++) {
                Message message = Until.next(kept);
                assertThat(text(message)).isEqualTo("f" + i);
                message.release();
            }
            for (CompletableFuture<Void> future : futures) {
                future.get(30, TimeUnit.SECONDS);
            }
        }
    }

    @Test
    void withoutAHandlerThreadsReceive() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            assertThat(two.b.receive(Duration.ofMillis(30))).isNull();
            two.a.send(text("one"), LONG);
            two.a.send(text("two"), LONG);
            try (Message message = two.b.receive(LONG)) {
                assertThat(text(message)).isEqualTo("one");
                two.b.send(message.data(), LONG); // straight out of the message
            }
            try (Message message = two.a.receive(LONG)) {
                assertThat(text(message)).isEqualTo("one");
            }
            try (Message message = two.b.receive(LONG)) {
                assertThat(text(message)).isEqualTo("two");
            }
            two.a.close();
            two.b.close();
            assertThatThrownBy(() -> two.b.receive(LONG))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("this side closed it");
        }
    }

    @Test
    void eachCallbackIsCalledOnce() throws Exception {
        int count = 500;
        Queue<String> ended = new ConcurrentLinkedQueue<>();
        CountDownLatch all = new CountDownLatch(count);
        SendCallback callback =
                (channel, attachment, status) -> {
                    ended.add(attachment + " " + status.name());
                    all.countDown();
                };
        try (Two two = new Two(SMALL, null, (channel, message) -> {})) {
            List<String> expected = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                MemorySegment data = text("m");
                int number = i;
                Until.holds(
                        () ->
                                two.a.trySend(data, 0, 1, callback, number)
                                        != Status.NO_MORE_ENTRIES);
                expected.add(i + " SUCCESS");
            }
            assertThat(all.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(ended).containsExactlyElementsOf(expected);
        }
    }

    @Test
    void theReasonReachesEverybodyOnce() throws Exception {
        Queue<String> ended = new ConcurrentLinkedQueue<>();
        try (Two two = new Two(SMALL.withTimeout(Duration.ofSeconds(3)), null, null)) {
            two.stall();
            SendCallback callback =
                    (channel, attachment, status) -> ended.add(attachment + " " + status.name());
            for (int i = 0; i < 3; i++) {
                assertThat(two.a.trySend(text("x"), 0, 1, callback, i)).isEqualTo(Status.SUCCESS);
            }
            CompletableFuture<Void> posted = two.a.sendAsync(text("posted"));
            CompletableFuture<Void> pending = two.a.sendAsync(text("pending"));
            CompletableFuture<Throwable> receiving =
                    CompletableFuture.supplyAsync(
                            () -> {
                                try {
                                    return new AssertionError(two.a.receive(LONG));
                                } catch (Exception e) {
                                    return e;
                                }
                            });
            Status reason = two.a.closed().get(30, TimeUnit.SECONDS);
            assertThat(reason.isSuccess()).isFalse();
            assertThat(ended)
                    .containsExactly(
                            "0 " + reason.name(), "1 " + reason.name(), "2 " + reason.name());
            for (CompletableFuture<Void> future : List.of(posted, pending)) {
                assertThatThrownBy(() -> future.get(30, TimeUnit.SECONDS))
                        .hasCauseInstanceOf(MessagingException.class)
                        .hasMessageContaining("is closed: a message was not acknowledged");
            }
            assertThat(receiving.get(30, TimeUnit.SECONDS)).isInstanceOf(MessagingException.class);
            assertThat(two.a.trySend(text("x"))).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(two.a.closeReason().status()).isEqualTo(reason);
        }
    }

    /** The deadline of a sender that waits for room passes while the channel ends. */
    @Test
    void whatWasNeverPostedIsNotReportedAsSent() throws Exception {
        CountDownLatch ending = new CountDownLatch(1);
        CountDownLatch late = new CountDownLatch(1);
        SendCallback blocks =
                (channel, attachment, status) -> {
                    ending.countDown();
                    try {
                        assertThat(late.await(30, TimeUnit.SECONDS)).isTrue();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                };
        try (Two two = new Two(SMALL, null, null)) {
            two.stall();
            for (int i = 0; i < 4; i++) {
                assertThat(two.a.trySend(text("x"), 0, 1, blocks, null)).isEqualTo(Status.SUCCESS);
            }
            CompletableFuture<Throwable> sending = new CompletableFuture<>();
            Thread sender =
                    Thread.ofVirtual()
                            .start(
                                    () -> {
                                        try {
                                            two.a.send(text("x"), Duration.ofSeconds(2));
                                            sending.complete(new AssertionError("it was sent"));
                                        } catch (Throwable t) {
                                            sending.complete(t);
                                        } finally {
                                            late.countDown();
                                        }
                                    });
            Until.isIn(sender, Thread.State.TIMED_WAITING);
            two.a.fail(Status.INTERNAL_ERROR, "of a test", null);
            assertThat(ending.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(sending.get(30, TimeUnit.SECONDS))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("of a test");
        }
    }

    @Test
    void aMessageThatIsNotAcknowledgedInTimeEndsTheChannel() throws Exception {
        try (Two two = new Two(SMALL.withTimeout(Duration.ofMillis(300)), null, null)) {
            two.stall();
            CompletableFuture<Void> sent = two.a.sendAsync(text("x"));
            assertThat(two.a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.IO_TIMEOUT);
            assertThatThrownBy(() -> sent.get(30, TimeUnit.SECONDS))
                    .hasMessageContaining("not acknowledged within 300 ms");
        }
    }

    @Test
    void anIdlePeerThatIsGoneIsNoticed() throws Exception {
        try (Two two =
                new Two(
                        SMALL.withTimeout(Duration.ofSeconds(1))
                                .withKeepAlive(Duration.ofMillis(500)),
                        null,
                        null)) {
            Thread.sleep(3500); // several keep-alives, and reports of them: the channel stays open
            assertThat(two.a.isOpen()).isTrue();
            assertThat(two.b.isOpen()).isTrue();
            assertThat(two.a.credit()).isEqualTo(4);
            two.stall();
            assertThat(two.a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.IO_TIMEOUT);
        }
    }

    /** Its device acknowledges everything; but nobody polls. */
    @Test
    void aPeerThatHangsIsNoticed() throws Exception {
        MessagingOptions options =
                SMALL.withTimeout(Duration.ofMillis(1400)).withKeepAlive(Duration.ofMillis(600));
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller hanging = Poller.onThisThread(fabric.adapter, IdleStrategy.events())) {
            MessageChannel a = new MessageChannel(poller, options, null);
            MessageChannel b = new MessageChannel(hanging, options, null);
            ChannelsByHand.connect(a, b);
            long end = System.nanoTime() + Duration.ofMillis(4500).toNanos();
            while (System.nanoTime() < end) { // polled, it answers
                int ignored = hanging.await(Duration.ofMillis(20));
            }
            assertThat(a.isOpen()).isTrue();
            long start = System.nanoTime();
            a.send(text("x"), LONG); // arrives, as far as the device knows
            assertThat(a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(a.closeReason())
                    .hasMessageContaining("has not answered within 1.4 s whether it is there");
            assertThat(Duration.ofNanos(System.nanoTime() - start))
                    .as("the stated 2 s, ticks of 0.1 s, and some of a busy machine")
                    .isBetween(Duration.ofMillis(1400), Duration.ofSeconds(8));
            b.close();
        }
    }

    /** Its slot has another message by then, which is somebody else's. */
    @Test
    void aMessageThatIsReleasedTwiceReleasesNoOther() throws Exception {
        try (OneThread two = new OneThread(SMALL, null)) {
            two.a.trySend(text("first")).orThrow();
            two.run();
            Message first = two.b.receive(LONG);
            first.release();
            Message inItsSlot = null;
            while (inItsSlot == null) {
                two.a.trySend(text("next")).orThrow();
                two.run();
                Message next = two.b.receive(LONG);
                if (next.frame() == first.frame()) {
                    inItsSlot = next;
                } else {
                    next.close();
                }
            }
            int posted = two.device.receives.size();
            first.close();
            assertThat(two.device.receives).as("none is posted again").hasSize(posted);
            inItsSlot.close();
        }
    }

    /** The receive would be missing for ever. */
    @Test
    void anotherThreadThanThePollersReleasesNothing() throws Exception {
        try (OneThread two = new OneThread(SMALL, null)) {
            two.a.trySend(text("first")).orThrow();
            two.run();
            Message message = two.b.receive(LONG);
            CompletableFuture<Void> elsewhere = CompletableFuture.runAsync(message::release);
            assertThatThrownBy(elsewhere::join).hasCauseInstanceOf(WrongThreadException.class);
            CompletableFuture<Message> receive =
                    CompletableFuture.supplyAsync(
                            () -> {
                                try {
                                    return two.b.receive(LONG);
                                } catch (InterruptedException e) {
                                    throw new IllegalStateException(e);
                                }
                            });
            assertThatThrownBy(receive::join).hasCauseInstanceOf(WrongThreadException.class);
            int posted = two.device.receives.size();
            message.release();
            assertThat(two.device.receives).hasSize(posted + 1);
        }
    }

    /** It might write into what the polling thread composes for another channel. */
    @Test
    void anotherThreadThanThePollersComposesNothing() {
        try (OneThread two = new OneThread(SMALL, null)) {
            PostScratch shared = two.poller.memory().scratch(1);
            String before = bytes(shared);
            CompletableFuture<Void> elsewhere =
                    CompletableFuture.runAsync(
                            () -> {
                                var _ = two.a.trySend(text("not from here"));
                            });
            assertThatThrownBy(elsewhere::join).hasCauseInstanceOf(WrongThreadException.class);
            assertThat(bytes(shared)).isEqualTo(before);
        }
    }

    /** As that of any thread: its waits go on, but it is told before the next one. */
    @Test
    void anInterruptEndsTheWaitOfThePollersThread() throws Exception {
        try (OneThread two = new OneThread(SMALL, null)) {
            Thread.currentThread().interrupt();
            assertThatThrownBy(() -> two.b.receive(LONG)).isInstanceOf(InterruptedException.class);
            assertThat(Thread.currentThread().isInterrupted()).isFalse();
        }
    }

    @Test
    void anotherThreadThanThePollersMayCloseAChannel() {
        try (OneThread two = new OneThread(SMALL, null)) {
            CompletableFuture<Status> closed =
                    CompletableFuture.supplyAsync(two.a::closeAsync).join();
            assertThat(two.a.isOpen()).as("until its thread polls").isTrue();
            two.run();
            assertThat(closed).isCompletedWithValue(Status.CANCELLED);
        }
    }

    private static String bytes(PostScratch scratch) {
        MemorySegment memory = scratch.region.memory().asSlice(scratch.at, PostScratch.BYTES);
        return HexFormat.of().formatHex(memory.toArray(ValueLayout.JAVA_BYTE));
    }

    /** The thread that is to have a message is interrupted before it has taken it. */
    @Test
    void anInterruptLosesNoMessage() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            BlockingQueue<Object> ends = new LinkedBlockingQueue<>();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                Thread thread =
                        Thread.ofPlatform()
                                .start(
                                        () -> {
                                            try {
                                                ends.add(two.b.receive(LONG));
                                            } catch (InterruptedException e) {
                                                ends.add(e);
                                            }
                                        });
                threads.add(thread);
                Until.holds(() -> thread.getState() == Thread.State.TIMED_WAITING);
            }
            Message message = two.b.receives.message(0).message();
            two.b.lock.lock();
            try {
                message.arrived(two.b, 1);
                two.b.inbox.waits(message); // wakes the first
                threads.getFirst().interrupt();
            } finally {
                two.b.lock.unlock();
            }
            Object end = ends.poll(10, TimeUnit.SECONDS);
            if (end instanceof InterruptedException) {
                end = ends.poll(10, TimeUnit.SECONDS); // the other has to have it
            }
            assertThat(end).isSameAs(message);
            threads.getLast().interrupt();
            for (Thread thread : threads) {
                thread.join();
            }
            two.b.close();
            message.close();
        }
    }

    /** The message of a thread that waits for room is posted before its interrupt is noticed. */
    @Test
    void anInterruptThatComesTooLateIsKept() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            for (int i = 0; i < 4; i++) {
                two.a.sendAsync(text("uses up the credit")).get(10, TimeUnit.SECONDS);
            }
            Message first = two.b.receive(LONG);
            Message second = two.b.receive(LONG);
            BlockingQueue<Object> ends = new LinkedBlockingQueue<>();
            Thread sender =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            two.a.send(text("waits"), LONG);
                                            ends.add(Thread.currentThread().isInterrupted());
                                        } catch (InterruptedException e) {
                                            ends.add(e);
                                        }
                                    });
            Until.isIn(sender, Thread.State.TIMED_WAITING);
            CompletableFuture<Void> idle = new CompletableFuture<>();
            two.poller.execute(() -> idle.complete(null));
            idle.get(10, TimeUnit.SECONDS); // the poller has nothing left to do with A's sends
            two.a.lock.lock();
            try {
                first.close();
                second.close();
                Until.holds(() -> two.a.lock.hasQueuedThread(two.poller.thread)); // has the report
                sender.interrupt();
                Until.holds(() -> two.a.lock.hasQueuedThread(sender));
            } finally {
                two.a.lock.unlock();
            }
            assertThat(ends.poll(10, TimeUnit.SECONDS)).isEqualTo(true);
        }
    }

    /** A new completion queue is armed at once, not when a sleep has ended that began before. */
    @Test
    void aSleepingPollerLearnsOfANewQueue() {
        try (Two two = new Two(SMALL, null, null)) {
            long least = Long.MAX_VALUE;
            for (int i = 0; i < 20; i++) {
                long start = System.nanoTime();
                PollerQueue ignored = two.poller.reserve(4096); // as many as one has room for
                Until.holds(two.device::isLastQueueArmed);
                if (i > 0) { // the thread has just begun to sleep
                    least = Math.min(least, System.nanoTime() - start);
                }
            }
            assertThat(least).isLessThan(PollerClock.TICK_NANOSECONDS / 2);
        }
    }

    @Test
    void aHandlerThatThrowsEndsTheChannel() throws Exception {
        RuntimeException thrown = new IllegalStateException("of a test");
        try (Two two =
                new Two(
                        SMALL,
                        null,
                        (channel, message) -> {
                            throw thrown;
                        })) {
            two.a.send(text("x"), LONG);
            assertThat(two.b.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            assertThat(two.b.closeReason())
                    .hasMessageContaining("its handler threw")
                    .hasCause(thrown);
        }
    }

    @Test
    void aHandlerMustNotWait() throws Exception {
        CompletableFuture<Throwable> thrown = new CompletableFuture<>();
        try (Two two =
                new Two(
                        SMALL,
                        null,
                        (channel, message) -> {
                            try {
                                for (int i = 0; i < 100; i++) {
                                    channel.send(message.data(), LONG);
                                }
                            } catch (Exception e) {
                                thrown.complete(e);
                            }
                        })) {
            two.a.send(text("x"), LONG);
            assertThat(thrown.get(30, TimeUnit.SECONDS))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("must not poll or wait");
        }
    }

    /** Many threads wait for answers over few channels, and hold no carriers meanwhile. */
    @Test
    void tenThousandVirtualThreadsShareOnePoller() throws Exception {
        int threads = 10_000;
        List<CompletableFuture<Integer>> answers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            answers.add(new CompletableFuture<>());
        }
        MessageHandler client =
                (channel, message) -> {
                    int number = message.buffer().get(ValueLayout.JAVA_INT_UNALIGNED, 0);
                    answers.get(number).complete(number);
                };
        MessageHandler echo =
                (channel, message) -> {
                    message.retain(); // an answer may have to wait for room
                    var ignored =
                            channel.sendAsync(message.data())
                                    .whenComplete((nothing, thrown) -> message.release());
                };
        AtomicInteger right = new AtomicInteger();
        try (Two two = new Two(SMALL.withReceives(64).withOutstanding(64), client, echo)) {
            List<Thread> all = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                int number = i;
                all.add(
                        Thread.ofVirtual()
                                .start(
                                        () -> {
                                            byte[] bytes = new byte[4];
                                            ByteBuffer.wrap(bytes)
                                                    .order(java.nio.ByteOrder.nativeOrder())
                                                    .putInt(number);
                                            try {
                                                two.a.send(MemorySegment.ofArray(bytes), LONG);
                                                int answer =
                                                        answers.get(number)
                                                                .get(60, TimeUnit.SECONDS);
                                                if (answer == number) {
                                                    right.incrementAndGet();
                                                }
                                            } catch (Exception e) {
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

    @Test
    void aMessageThatIsKeptOutlivesItsChannelAndItsPoller() throws Exception {
        BlockingQueue<Message> kept = new LinkedBlockingQueue<>();
        try (Two two = new Two(SMALL, null, (channel, message) -> kept.add(message.retain()))) {
            two.a.send(text("kept"), LONG);
            Message message = kept.poll(30, TimeUnit.SECONDS);
            two.b.close();
            assertThat(text(message)).isEqualTo("kept");
            two.poller.close();
            assertThat(text(message)).isEqualTo("kept");
            MemorySegment buffer = message.buffer();
            message.release();
            message.release(); // does nothing
            assertThatThrownBy(() -> buffer.get(ValueLayout.JAVA_BYTE, 0))
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(message::buffer)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("was released");
        }
    }

    @Test
    void aForeignFrameEndsTheChannel() throws Exception {
        try (Two two = new Two(SMALL, null, null);
                Arena arena = Arena.ofShared()) {
            dev.verbena.BufferList bytes =
                    new dev.verbena.BufferList(1)
                            .addUnregistered(arena.allocateFrom("no frame at all"));
            two.a
                    .pair
                    .send(
                            1L << 40,
                            bytes,
                            dev.verbena.OpFlags.INLINE.and(dev.verbena.OpFlags.SILENT_SUCCESS))
                    .orThrow();
            assertThat(two.b.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            assertThat(two.b.closeReason()).hasMessageContaining("a frame that is not valid");
        }
    }
}
