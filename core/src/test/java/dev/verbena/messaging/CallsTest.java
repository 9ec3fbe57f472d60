package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.SMALL;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Errno;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/** Requests and answers: see {@link Calls}. */
@Timeout(120)
class CallsTest {
    private static final Duration SECOND = Duration.ofSeconds(1);

    /** Two channels that call each other; nothing happens but in this thread. */
    private static final class Rig implements AutoCloseable {
        final OneThread two = OneThread.open();
        final Deque<Call> open = new ArrayDeque<>(); // that B has got, and not answered
        final MessageChannel a;
        final MessageChannel b;

        /** B keeps the calls. */
        Rig() {
            this(SMALL, null);
        }

        Rig(MessagingOptions options, CallHandler ofB) {
            a = new MessageChannel(two.poller, options, Calls.outgoing());
            CallHandler keep = call -> open.add(call.retain());
            b =
                    new MessageChannel(
                            two.pollerOfB, options, Calls.answeredBy(ofB == null ? keep : ofB));
            ChannelsByHand.connect(a, b);
        }

        CompletableFuture<String> call(String request) {
            return call(request, LONG);
        }

        CompletableFuture<String> call(String request, Duration timeout) {
            CompletableFuture<String> answer =
                    Calls.call(a, text(request), timeout, CallsTest::string);
            two.run();
            return answer;
        }

        void answer(String text) {
            open.remove().answer(text(text));
            two.run();
        }

        /** A message that is kept would leave a native object. */
        void assertThatBothAreOpen() {
            assertThat(open).isEmpty();
            assertThat(a.isOpen()).isTrue();
            assertThat(b.isOpen()).isTrue();
        }

        @Override
        public void close() {
            open.forEach(call -> call.fail("the test is over"));
            two.close();
        }
    }

    private static String string(Message answer) {
        return OneThread.text(answer);
    }

    private static String string(Call call) {
        return new String(call.data().toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
    }

    private static Status failure(CompletableFuture<?> future) {
        assertThat(future).isCompletedExceptionally();
        return ((VerbenaException) future.exceptionNow()).status();
    }

    @Test
    void eachCallGetsItsAnswer() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> one = rig.call("one");
            CompletableFuture<String> two = rig.call("");
            CompletableFuture<String> three = rig.call("three");
            assertThat(rig.open).extracting(CallsTest::string).containsExactly("one", "", "three");
            rig.open.add(rig.open.remove()); // answered in another order
            rig.answer("TWO");
            assertThat(two).isCompletedWithValue("TWO");
            rig.answer("");
            assertThat(three).isCompletedWithValue("");
            assertThat(one).isNotDone();
            rig.answer("ONE");
            assertThat(one).isCompletedWithValue("ONE");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void bothSidesCall() {
        try (OneThread two = OneThread.open()) {
            Calls upper = Calls.answeredBy(call -> call.answer(text(string(call).toUpperCase())));
            MessageChannel a = new MessageChannel(two.poller, SMALL, upper);
            MessageChannel b = new MessageChannel(two.pollerOfB, SMALL, upper);
            ChannelsByHand.connect(a, b);
            List<CompletableFuture<String>> all = new ArrayList<>();
            for (int i = 0; i < 100; i++) { // far more than there is room for
                all.add(Calls.call(a, text("a" + i), LONG, CallsTest::string));
                all.add(Calls.call(b, text("b" + i), LONG, CallsTest::string));
            }
            two.run();
            for (int i = 0; i < 100; i++) {
                assertThat(all.get(2 * i)).isCompletedWithValue("A" + i);
                assertThat(all.get(2 * i + 1)).isCompletedWithValue("B" + i);
            }
        }
    }

    @Test
    void anotherThreadAnswers() throws Exception {
        Calls server =
                Calls.answeredBy(
                        call -> {
                            call.retain();
                            Thread.startVirtualThread(() -> call.answer(call.data()));
                        });
        try (Two two = new Two(SMALL, Calls.outgoing(), server)) {
            List<CompletableFuture<String>> all = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                all.add(Calls.call(two.a, text("request " + i), LONG, CallsTest::string));
            }
            for (int i = 0; i < 500; i++) {
                assertThat(all.get(i).get(60, TimeUnit.SECONDS)).isEqualTo("request " + i);
            }
        }
    }

    @Test
    void largeOnesAreCalledAndAnswered() {
        MessagingOptions large = SMALL.withMaxMessage(100_008).withLargeMemory(100_008);
        byte[] request = new byte[100_000];
        request[99_999] = 1;
        try (Rig rig = new Rig(large, call -> call.answer(call.data()))) {
            for (int i = 0; i < 5; i++) { // the memory for one is used again
                CompletableFuture<byte[]> answer =
                        Calls.call(
                                rig.a,
                                MemorySegment.ofArray(request),
                                LONG,
                                message -> {
                                    assertThat(message.length()).isEqualTo(100_000);
                                    return message.data().toArray(ValueLayout.JAVA_BYTE);
                                });
                rig.two.run();
                assertThat(answer).isCompleted();
                assertThat(answer.join()).isEqualTo(request);
            }
            rig.assertThatBothAreOpen();
        }
    }

    // ---- deadlines and cancellation

    /** However many are given up, the peer has at most so many to answer. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCallThatWasGivenUpKeepsItsPlaceUntilItsAnswer(boolean cancelled) {
        List<Call> open = new ArrayList<>();
        try (Rig rig = new Rig(SMALL, open::add)) {
            for (int i = 0; i < CallTable.MOST; i++) {
                CompletableFuture<String> call = rig.call("x", i == 0 ? LONG : SECOND);
                rig.two.run();
                assertThat(call).isNotDone();
                if (cancelled && i > 0) {
                    call.cancel(false);
                }
            }
            rig.two.pass(Duration.ofSeconds(2));
            assertThat(open).hasSize(CallTable.MOST);
            CompletableFuture<String> oneMore = rig.call("one more");
            assertThat(failure(oneMore)).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(oneMore.exceptionNow()).hasMessageContaining("511 of them were given up");
            open.removeFirst().answer(text("late"));
            rig.two.run();
            CompletableFuture<String> next = rig.call("next");
            rig.two.run();
            open.removeLast().answer(text("its answer"));
            rig.two.run();
            assertThat(next).isCompletedWithValue("its answer");
            open.forEach(call -> call.answer(text("all at once")));
            rig.two.run();
            rig.assertThatBothAreOpen();
            assertThat(rig.call("x")).isNotDone();
        }
    }

    /** A peer that is none of ours; its credit comes back at once. */
    @Test
    void aPeerThatDoesNotWaitForAnswersLosesItsChannel() {
        List<Call> calls = new ArrayList<>();
        try (OneThread two = OneThread.open()) {
            MessageChannel a = new MessageChannel(two.poller, SMALL, (channel, message) -> {});
            Calls adds = Calls.answeredBy(calls::add);
            MessageChannel b = new MessageChannel(two.pollerOfB, SMALL, adds);
            ChannelsByHand.connect(a, b);
            assertThat(callUntilRefused(two, a, CallTable.MOST)).isEqualTo(CallTable.MOST);
            assertThat(b.isOpen()).isTrue();
            ThrowingCallable answer = () -> calls.getFirst().answer(text("not sent"));
            assertThat(CompletableFuture.supplyAsync(() -> catchThrowable(answer)).join())
                    .isInstanceOf(WrongThreadException.class);
            assertThat(callUntilRefused(two, a, 1)).isOne();
            assertThat(b.isOpen()).isFalse();
            assertThat(b.closeReason()).hasMessageContaining("more than 512 times without waiting");
        }
    }

    /** What a decoder keeps and then does not return would never be given back. */
    @Test
    void aDecoderThatFailsKeepsNothing() {
        try (Rig rig = new Rig()) {
            for (int i = 0; i < 3 * SMALL.receives; i++) {
                CompletableFuture<Message> failed =
                        Calls.call(
                                rig.a,
                                text("x"),
                                LONG,
                                answer -> {
                                    answer.retain();
                                    throw new IllegalStateException("no answer of mine");
                                });
                rig.two.run();
                rig.answer("kept");
                assertThat(failed).isCompletedExceptionally();
            }
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aCallEndsWhenItsTimeIsOver() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> late = rig.call("x", SECOND);
            CompletableFuture<String> other = rig.call("y", Duration.ofSeconds(3));
            rig.two.pass(Duration.ofMillis(900));
            assertThat(late).isNotDone();
            rig.two.pass(Duration.ofMillis(400));
            assertThat(failure(late)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(late.exceptionNow()).hasMessageContaining("not answered within 1 s");
            assertThat(other).isNotDone();
            rig.answer("too late");
            rig.answer("in time");
            assertThat(other).isCompletedWithValue("in time");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void theLateAnswerToACancelledCallIsDiscarded() {
        try (Rig rig = new Rig()) {
            for (int i = 0; i < 20; i++) {
                CompletableFuture<String> cancelled = rig.call("x");
                assertThat(cancelled.cancel(true)).isTrue();
                rig.answer("late");
            }
            CompletableFuture<String> next = rig.call("x");
            rig.answer("in time");
            assertThat(next).isCompletedWithValue("in time");
            rig.assertThatBothAreOpen();
        }
    }

    /** The peer takes nothing for a while: no request is sent whose caller has given up. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCallThatEndsBeforeItsRequestWasSentIsWithdrawn(boolean cancels) {
        try (Rig rig = new Rig()) {
            rig.two.hangs = true;
            for (int round = 0; round < 3; round++) {
                List<CompletableFuture<String>> all = new ArrayList<>();
                for (int i = 0; i < CallTable.MOST - SMALL.receives; i++) {
                    all.add(rig.call("given up", SECOND));
                }
                if (cancels) { // by another thread
                    CompletableFuture.runAsync(() -> all.forEach(one -> one.cancel(true))).join();
                    rig.two.run();
                } else {
                    rig.two.pass(Duration.ofMillis(1300));
                }
                assertThat(all).allMatch(CompletableFuture::isCompletedExceptionally);
            }
            CompletableFuture<String> answer =
                    Calls.call(rig.b, text("x"), LONG, CallsTest::string);
            rig.two.run();
            assertThat(rig.a.isOpen()).as("has room for its answer").isTrue();
            CompletableFuture<String> fresh = rig.call("fresh");
            rig.two.hangs = false;
            rig.two.run();
            List<String> got = new ArrayList<>();
            while (!rig.open.isEmpty()) {
                got.add(string(rig.open.element()));
                rig.answer("too late, except for the last one");
            }
            assertThat(got).hasSize(SMALL.receives + 1).endsWith("fresh");
            assertThat(fresh).isCompleted();
            assertThat(answer).isCompletedExceptionally(); // A answers no calls
            rig.assertThatBothAreOpen();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anAnswerMayBeKept(boolean onTheHeap) {
        try (Rig rig = new Rig(SMALL, call -> call.answer(call.data()))) {
            CompletableFuture<Message> answer =
                    Calls.call(
                            rig.a,
                            text("keep"),
                            LONG,
                            onTheHeap ? Message::detach : Message::retain);
            rig.two.run();
            assertThat(string(answer.join())).isEqualTo("keep");
            assertThat(answer.join().buffer().get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 'k');
            answer.join().release();
            // One that is cancelled while its answer is made is released.
            List<CompletableFuture<Message>> own = new ArrayList<>();
            own.add(
                    Calls.call(
                            rig.a,
                            text("x"),
                            LONG,
                            message -> {
                                own.getFirst().cancel(true);
                                return message.retain();
                            }));
            rig.two.run();
            assertThat(own.getFirst()).isCancelled();
            rig.assertThatBothAreOpen();
        }
    }

    // ---- errors

    @Test
    void whatTheHandlerThrowsIsTheAnswer() {
        CallHandler handler =
                call -> {
                    throw string(call).isEmpty()
                            ? new UnsupportedOperationException()
                            : new Exception(string(call));
                };
        try (Rig rig = new Rig(SMALL, handler)) {
            assertThatThrownBy(() -> rig.call("no value for 7").join())
                    .isInstanceOf(CompletionException.class)
                    .cause()
                    .isInstanceOf(CallFailedException.class)
                    .hasMessage("no value for 7");
            assertThatThrownBy(() -> rig.call("").join())
                    .hasMessageContaining("UnsupportedOperationException");
            assertThatThrownBy(
                            () -> Calls.call(rig.b, text("x"), LONG, CallsTest::string).resultNow())
                    .isInstanceOf(IllegalStateException.class);
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aSideThatAnswersNoCallsSaysSo() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> answer =
                    Calls.call(rig.b, text("x"), LONG, CallsTest::string);
            rig.two.run();
            assertThat(answer.exceptionNow()).hasMessage("The peer answers no calls");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aReasonIsCutToWhatFits() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> answer = rig.call("x");
            rig.open.remove().fail("y".repeat(5000));
            rig.two.run();
            assertThat(answer.exceptionNow()).hasMessage("y".repeat(992)); // of 1,000 bytes
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aCallIsAnsweredOnce() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> answer = rig.call("x");
            Call call = rig.open.remove();
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> call.answer(MemorySegment.ofArray(new byte[993])))
                    .withMessageContaining("longer than the 992");
            call.answer(text("first"));
            assertThatIllegalStateException().isThrownBy(() -> call.answer(text("second")));
            assertThatIllegalStateException().isThrownBy(() -> call.fail("second"));
            assertThatIllegalStateException().isThrownBy(call::data);
            rig.two.run();
            assertThat(answer).isCompletedWithValue("first");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aRequestIsNotReadAfterItsAnswerEvenInItsHandler() {
        CallHandler handler =
                call -> {
                    call.answer(text("x"));
                    assertThatIllegalStateException().isThrownBy(call::data);
                    assertThatIllegalStateException().isThrownBy(call::retain);
                };
        try (Rig rig = new Rig(SMALL, handler)) {
            assertThat(rig.call("x")).isCompletedWithValue("x");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aRequestIsReadUntilItsHandlerReturns() {
        List<Call> calls = new ArrayList<>();
        try (Rig rig = new Rig(SMALL, calls::add)) {
            CompletableFuture<String> answer = rig.call("x");
            Call call = calls.getFirst();
            assertThatIllegalStateException()
                    .isThrownBy(call::data)
                    .withMessageContaining("retain()");
            assertThatIllegalStateException().isThrownBy(call::retain);
            assertThat(call.channel()).isSameAs(rig.b);
            call.answer(text("later"));
            rig.two.run();
            assertThat(answer).isCompletedWithValue("later");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aHandlerThatThrowsAfterItsAnswerLosesItsChannel() {
        CallHandler handler =
                call -> {
                    call.answer(text("x"));
                    throw new Exception("after it");
                };
        try (Rig rig = new Rig(SMALL, handler)) {
            CompletableFuture<String> answer = rig.call("x");
            assertThat(rig.b.closeReason())
                    .cause()
                    .hasMessageContaining("after its answer")
                    .hasRootCauseMessage("after it");
            assertThat(answer).isDone();
        }
    }

    @Test
    void whatTheProgramMakesOfTheAnswerMayFail() {
        try (Rig rig = new Rig(SMALL, call -> call.answer(call.data()))) {
            CompletableFuture<String> answer =
                    Calls.call(
                            rig.a,
                            text("x"),
                            LONG,
                            message -> {
                                throw new IllegalStateException("of the program");
                            });
            rig.two.run();
            assertThat(answer.exceptionNow()).hasMessage("of the program");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void mistakesAreRefused() {
        try (Rig rig = new Rig()) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> rig.call("x".repeat(993)))
                    .withMessageContaining("longer than the 992");
            assertThatIllegalStateException()
                    .isThrownBy(() -> Calls.call(rig.two.a, text("x"), LONG, CallsTest::string))
                    .withMessageContaining("its handler is no Calls");
            rig.assertThatBothAreOpen();
        }
    }

    // ---- the end, and room

    @Test
    void theEndOfTheChannelFailsAllCalls() {
        try (Rig rig = new Rig()) {
            List<CompletableFuture<String>> all = new ArrayList<>();
            for (int i = 0; i < 20; i++) { // some wait for room
                all.add(rig.call("x"));
            }
            rig.a.fail(Status.DATA_ERROR, "the test says so", null);
            rig.two.run();
            all.add(rig.call("too late"));
            for (CompletableFuture<String> call : all) {
                assertThat(failure(call)).isEqualTo(Status.DATA_ERROR);
                assertThat(call.exceptionNow()).hasMessageContaining("the test says so");
            }
            rig.b.fail(Status.DATA_ERROR, "here, too", null);
            rig.two.run();
            rig.open.remove().answer(text("too late")); // nobody is there to get it
        }
    }

    @Test
    void whatHasNoRoomComesLaterAndTooManyAreRefused() {
        try (Rig rig = new Rig()) {
            List<CompletableFuture<String>> all = new ArrayList<>();
            for (int i = 0; i < CallTable.MOST; i++) {
                all.add(rig.call("request " + i));
            }
            CompletableFuture<String> oneMore = rig.call("one more");
            assertThat(failure(oneMore)).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(oneMore.exceptionNow()).hasMessageContaining("512 calls on");
            assertThat(rig.open).hasSize(4); // it keeps them
            for (int i = 0; i < CallTable.MOST; i++) {
                rig.answer("answer " + i);
                assertThat(all.get(i)).isCompletedWithValue("answer " + i);
            }
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void numbersWrapAroundAndSkipThoseInUse() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> zero = rig.call("0");
            rig.a.calls.next = -2;
            List<CompletableFuture<String>> all = new ArrayList<>();
            for (int i = 0; i < 3; i++) { // -2, -1, and 1
                all.add(rig.call("x"));
            }
            assertThat(rig.a.calls.next).isEqualTo(2);
            rig.answer("zero");
            assertThat(zero).isCompletedWithValue("zero");
            for (CompletableFuture<String> call : all) {
                rig.answer("other");
                assertThat(call).isCompletedWithValue("other");
            }
            rig.a.calls.next = Integer.MAX_VALUE;
            zero = rig.call("max");
            rig.call("min");
            rig.answer("max");
            assertThat(zero).isCompletedWithValue("max");
        }
    }

    // ---- a peer that is hostile, or has a bug

    private static MemorySegment message(long header, int bytes) {
        MemorySegment message = MemorySegment.ofArray(new byte[Math.max(8, bytes)]);
        message.set(ValueLayout.JAVA_LONG_UNALIGNED, 0, header);
        return message.asSlice(0, bytes);
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 0x0100, 0x0104, 0x0001, 0x0201, 0x10101, 0xFF00_0102L, -1})
    void garbageEndsTheChannel(long header) {
        try (Rig rig = new Rig()) {
            assertThat(rig.b.trySend(message(header, 20))).isEqualTo(Status.SUCCESS);
            rig.two.run();
            assertThat(rig.a.closeReason()).hasMessageContaining("neither a request nor an answer");
        }
    }

    @Test
    void aMessageWithoutAHeaderEndsTheChannel() {
        try (Rig rig = new Rig()) {
            assertThat(rig.b.trySend(message(CallTable.REQUEST, 7))).isEqualTo(Status.SUCCESS);
            rig.two.run();
            assertThat(rig.a.closeReason()).hasMessageContaining("neither a request nor an answer");
        }
    }

    @Test
    void answersThatNobodyWaitsForAreIgnored() {
        try (Rig rig = new Rig()) {
            CompletableFuture<String> answer = rig.call("x"); // number 0
            for (int i = 0; i < 10; i++) {
                long number = i % 2 == 0 ? 0 : 4711;
                long kind = i % 3 == 0 ? CallTable.ANSWER : CallTable.FAILURE;
                assertThat(rig.b.trySend(message(number << 32 | kind, 8)))
                        .isEqualTo(Status.SUCCESS);
                rig.two.run();
            }
            assertThat(answer).isCompletedWithValue("");
            rig.answer("once more");
            rig.assertThatBothAreOpen();
        }
    }

    @Test
    void aReasonThatIsTooLongIsCut() {
        try (Rig rig = new Rig(SMALL.withMaxMessage(5000).withEagerLimit(5000), null)) {
            CompletableFuture<String> answer = rig.call("x"); // number 0
            assertThat(rig.b.trySend(message(CallTable.FAILURE, 5000))).isEqualTo(Status.SUCCESS);
            rig.two.run();
            assertThat(answer.exceptionNow().getMessage()).hasSize(CallTable.MOST_REASON);
        }
    }

    /** Calls B, as a peer would that releases nothing, until it has no credit. */
    private static int callUntilRefused(OneThread two, MessageChannel a, int most) {
        for (int i = 0; i < most; i++) {
            if (!a.trySend(message((long) i << 32 | CallTable.REQUEST, 8)).isSuccess()) {
                return i;
            }
            two.run();
        }
        return most;
    }

    /** Its requests are answered at once, or all of them later; retained or not. */
    @ParameterizedTest
    @CsvSource({"false, false", "false, true", "true, true"})
    void aPeerThatTakesNoAnswersGetsNoCredit(boolean retains, boolean later) {
        List<Message> kept = new ArrayList<>();
        List<Call> calls = new ArrayList<>();
        boolean[] waits = {later};
        CallHandler handler =
                call -> {
                    calls.add(retains ? call.retain() : call);
                    if (!waits[0]) {
                        call.answer(text("answer"));
                    }
                };
        try (OneThread two = OneThread.open()) {
            MessageChannel a =
                    new MessageChannel(
                            two.poller, SMALL, (channel, message) -> kept.add(message.retain()));
            MessageChannel b = new MessageChannel(two.pollerOfB, SMALL, Calls.answeredBy(handler));
            ChannelsByHand.connect(a, b);
            if (later) {
                int unanswered = callUntilRefused(two, a, 100);
                assertThat(unanswered).isEqualTo(retains ? SMALL.receives : 100);
                waits[0] = false;
                calls.forEach(call -> call.answer(text("late")));
                two.run();
            }
            assertThat(callUntilRefused(two, a, 1000)).isLessThanOrEqualTo(2 * SMALL.receives);
            assertThat(kept).hasSize(SMALL.receives);
            assertThat(b.isOpen()).isTrue();
            assertThat(b.receives.outstanding())
                    .as("other channels have all receives")
                    .isEqualTo(b.receives.count());
            int returned = b.credits.returnedMessages();
            kept.subList(0, SMALL.receives / 2).forEach(Message::release); // which A reports
            two.run();
            assertThat(kept).hasSizeGreaterThan(SMALL.receives);
            assertThat(b.credits.returnedMessages() - returned)
                    .as("one for each answer that was sent")
                    .isEqualTo(kept.size() - SMALL.receives);
            for (int i = 0; i < kept.size(); i++) { // which grows
                kept.get(i).release();
                two.run();
            }
            assertThat(kept).hasSameSizeAs(calls);
            assertThat(a.credit()).isGreaterThan(SMALL.receives / 2);
        }
    }

    @Test
    void anAnswerWithoutMemoryFailsTheCallAndNotTheChannel() {
        answerWithoutMemory(
                call -> call.answer(MemorySegment.ofArray(new byte[5000])),
                (call, answering) -> {
                    assertThat(call)
                            .failsWithin(Duration.ZERO)
                            .withThrowableOfType(ExecutionException.class)
                            .withCauseInstanceOf(CallFailedException.class)
                            .withMessageContaining("no registered memory for its answer");
                    assertThat(answering.isOpen()).isTrue();
                });
    }

    /** There may be none for a second one, either. */
    @Test
    void anErrorWithoutMemoryEndsTheChannel() {
        answerWithoutMemory(
                call -> call.fail("x".repeat(CallTable.MOST_REASON)),
                (call, answering) ->
                        assertThat(answering.closeReason())
                                .hasMessageContaining("an answer could not be sent")
                                .extracting(VerbenaException::status)
                                .isEqualTo(Status.INSUFFICIENT_RESOURCES));
    }

    /** Answers a call where no memory can be registered; then looks at it, and at the channel. */
    private static void answerWithoutMemory(
            CallHandler answer, BiConsumer<CompletableFuture<String>, MessageChannel> look) {
        MessagingOptions large = SMALL.withEagerLimit(1000).withMaxMessage(10_000);
        try (OneThread two = OneThread.open()) {
            MessageChannel a = new MessageChannel(two.poller, large, Calls.outgoing());
            CallHandler handler =
                    call -> {
                        two.device.controlError = Errno.ENOMEM;
                        answer.called(call);
                    };
            MessageChannel b = new MessageChannel(two.pollerOfB, large, Calls.answeredBy(handler));
            ChannelsByHand.connect(a, b);
            CompletableFuture<String> call = Calls.call(a, text("x"), LONG, CallsTest::string);
            two.run();
            look.accept(call, b);
        }
    }

    /** Otherwise two sides whose answers wait could wait for each other's credit. */
    @Test
    void aSideThatCallsTooGivesCreditUntilTooManyAnswersWait() {
        List<Message> kept = new ArrayList<>();
        try (OneThread two = OneThread.open()) {
            MessageChannel a =
                    new MessageChannel(
                            two.poller, SMALL, (channel, message) -> kept.add(message.retain()));
            MessageChannel b =
                    new MessageChannel(
                            two.pollerOfB,
                            SMALL,
                            Calls.answeredBy(call -> call.answer(call.data())));
            ChannelsByHand.connect(a, b);
            var _ = Calls.call(b, text("x"), LONG, CallsTest::string);
            assertThat(callUntilRefused(two, a, 1027)).isEqualTo(1027);
            assertThat(b.isOpen()).isTrue();
            assertThat(callUntilRefused(two, a, 1)).isOne();
            assertThat(b.closeReason()).hasMessageContaining("does not take its answers");
            kept.forEach(Message::release);
        }
    }

    /** They keep their requests, answer all of them late, and both have given up by then. */
    @Test
    void sidesThatCallEachOtherDoNotWaitForEachOther() {
        List<Call> open = new ArrayList<>();
        Calls keeps = Calls.answeredBy(call -> open.add(call.retain()));
        try (OneThread two = OneThread.open()) {
            MessageChannel a = new MessageChannel(two.poller, SMALL, keeps);
            MessageChannel b = new MessageChannel(two.pollerOfB, SMALL, keeps);
            ChannelsByHand.connect(a, b);
            List<CompletableFuture<String>> all = new ArrayList<>();
            for (int i = 0; i < SMALL.receives; i++) {
                all.add(Calls.call(a, text("x"), SECOND, CallsTest::string));
                all.add(Calls.call(b, text("x"), SECOND, CallsTest::string));
            }
            two.pass(Duration.ofSeconds(2));
            assertThat(all).allMatch(CompletableFuture::isCompletedExceptionally);
            assertThat(open).hasSameSizeAs(all);
            open.forEach(call -> call.answer(text("late")));
            two.run();
            CompletableFuture<String> next = Calls.call(a, text("y"), LONG, CallsTest::string);
            two.run();
            open.getLast().answer(text("Y"));
            two.run();
            assertThat(next).isCompletedWithValue("Y");
        }
    }

    // ---- with servers and clients

    @Test
    void aClientCallsAgainWhenItsChannelHasEnded() throws Exception {
        List<Call> kept = new ArrayList<>();
        CallHandler handler =
                call -> {
                    if (string(call).equals("keep")) {
                        kept.add(call);
                        call.channel().close();
                    } else {
                        call.answer(call.data());
                    }
                };
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                port(7700),
                                SMALL,
                                4,
                                Calls.answeredBy(handler),
                                channel -> {});
                MessageClient client =
                        MessageClient.start(
                                poller,
                                server.localAddress(),
                                SMALL,
                                ReconnectOptions.DEFAULTS,
                                Calls.outgoing(),
                                channel -> {})) {
            for (int i = 0; i < 2; i++) {
                assertThat(call(client, "echo").get(60, TimeUnit.SECONDS)).isEqualTo("echo");
                assertThatThrownBy(() -> call(client, "keep").get(60, TimeUnit.SECONDS))
                        .cause()
                        .isInstanceOf(MessagingException.class)
                        .hasMessageContaining("the peer closed it");
                kept.removeFirst().answer(text("too late"));
            }
        }
    }

    private static CompletableFuture<String> call(MessageClient client, String request) {
        return client.channel()
                .thenCompose(
                        channel -> Calls.call(channel, text(request), LONG, CallsTest::string));
    }

    // ---- any order

    /** Whatever is answered, cancelled or late in whatever order: each call ends as it must. */
    @Property(tries = 100)
    void everyCallEndsAsItMust(
            @ForAll @Size(max = 60) List<@IntRange(min = 0, max = 5) Integer> steps) {
        try (Rig rig = new Rig()) {
            List<CompletableFuture<String>> calls = new ArrayList<>();
            for (int step : steps) {
                switch (step) {
                    case 0, 1 -> calls.add(rig.call("" + calls.size(), SECOND));
                    case 2, 3 -> {
                        if (!rig.open.isEmpty()) {
                            Call call = step == 2 ? rig.open.removeFirst() : rig.open.removeLast();
                            int number = Integer.parseInt(string(call));
                            call.answer(text("answer " + number));
                            rig.two.run();
                            assertThat(calls.get(number)).isDone();
                        }
                    }
                    case 4 ->
                            calls.stream()
                                    .filter(c -> !c.isDone())
                                    .findFirst()
                                    .ifPresent(c -> c.cancel(true));
                    default -> rig.two.pass(Duration.ofMillis(400));
                }
            }
            rig.two.pass(Duration.ofSeconds(2));
            for (int i = 0; i < calls.size(); i++) {
                CompletableFuture<String> call = calls.get(i);
                assertThat(call).isDone();
                if (!call.isCompletedExceptionally()) {
                    assertThat(call.join()).isEqualTo("answer " + i);
                } else if (!call.isCancelled()) {
                    assertThat(failure(call)).isEqualTo(Status.IO_TIMEOUT);
                }
            }
            while (!rig.open.isEmpty()) {
                rig.answer("too late");
            }
            rig.assertThatBothAreOpen();
        }
    }
}
