package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;

import dev.verbena.OperationType;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;

/** How many requests are outstanding, how each ends, and how many more may be posted. */
@Timeout(60)
class RequestLedgerTest {
    private static final int STATUS = 21;
    private static final int FLUSHED = 5;

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private final WindowTable windows = new WindowTable();
    private final Endpoint endpoint = new Endpoint(windows);

    private RequestLedger ledger(int depth, int interval) {
        return Ledgers.withRoom(endpoint, WorkId.queue(3, 1, false), depth, interval);
    }

    private RequestLedger empty(int depth, int interval) {
        return Ledgers.empty(endpoint, WorkId.queue(3, 1, false), depth, interval);
    }

    private static int write(RequestLedger ledger, long context) {
        return ledger.add(context, OperationType.WRITE, false, true);
    }

    private static int silent(RequestLedger ledger, long context) {
        return ledger.add(context, OperationType.WRITE, true, false);
    }

    private static boolean ends(RequestLedger ledger, int sequence, boolean success) {
        ledger.readAdded();
        assertThat(ledger.nextSynthesizedBefore(sequence)).isFalse();
        return ledger.end(sequence, success);
    }

    /** Those of a ledger that are due, as "context status". */
    private static List<String> due(RequestLedger ledger) {
        List<String> due = new ArrayList<>();
        while (ledger.nextSynthesized()) {
            due.add(synthesized(ledger));
        }
        return due;
    }

    private static String synthesized(RequestLedger ledger) {
        return ledger.context(ledger.synthesizedSequence()) + " " + ledger.synthesizedStatus();
    }

    /**
     * What a provider reports of a queue that nothing was posted to, and that has no memory yet.
     */
    @Test
    void anEmptyOneKnowsOfNoRequest() {
        RequestLedger ledger = empty(8, 4);
        for (int sequence : new int[] {ledger.last(), ledger.last() + 1, 0, -1}) {
            assertThat(ends(ledger, sequence, true)).isFalse();
            assertThat(ends(ledger, sequence, false)).isFalse();
            assertThat(ledger.context(sequence)).isZero();
            assertThat(ledger.silent(sequence)).isFalse();
        }
        ledger.synthesizeRest(STATUS);
        assertThat(due(ledger)).isEmpty();
    }

    /** And two of this library's own, beyond what the caller may post. */
    @ParameterizedTest
    @CsvSource({"1,1", "2,1", "3,1", "4,2", "5,2", "6,3", "7,3", "8,4", "30,15", "31,15", "64,32"})
    void itHoldsAllThatMayBeOutstanding(int depth, int interval) {
        RequestLedger ledger = ledger(depth, interval);
        int first = ledger.last() + 1;
        int most = 0;
        while (!ledger.full()) {
            silent(ledger, 100 + most++);
        }
        assertThat(most).isEqualTo(depth + interval - 1);
        ledger.addInternal();
        int last = ledger.addInternal();
        assertThat(last).isEqualTo(ledger.last());
        for (int i = 0; i < most; i++) {
            assertThat(ledger.context(first + i)).isEqualTo(100 + i);
            assertThat(ledger.typeOf(first + i)).isEqualTo(OperationType.WRITE);
            assertThat(ledger.silent(first + i)).isTrue();
        }
        assertThat(ledger.outstanding()).isEqualTo(most + 2);
        assertThat(ends(ledger, last, true)).isFalse();
        assertThat(ledger.outstanding()).isZero();
        int others = 0;
        while (!ledger.full()) {
            write(ledger, others++);
        }
        assertThat(others).isEqualTo(depth);
    }

    /** Whatever has ended meanwhile: the numbers of requests go on. */
    @Test
    void requestsStayWhatTheyAreWhileItGrows() {
        for (int ended = 0; ended < 20; ended++) {
            RequestLedger ledger = empty(100, 50);
            for (int i = 0; i < ended; i++) {
                assertThat(ledger.full()).isFalse();
                assertThat(ends(ledger, write(ledger, -1), true)).isTrue();
                ledger.delivered();
            }
            int first = ledger.last() + 1;
            for (int i = 0; i < 100; i++) {
                assertThat(ledger.full()).isFalse();
                if (i % 3 == 0) {
                    silent(ledger, i);
                } else {
                    write(ledger, i);
                }
            }
            for (int i = 0; i < 100; i++) {
                assertThat(ledger.context(first + i)).isEqualTo(i);
                assertThat(ledger.silent(first + i)).isEqualTo(i % 3 == 0);
            }
            assertThat(ledger.outstanding()).isEqualTo(100);
        }
    }

    @Test
    void whatHasEndedBeforeItGrewDoesNotEndAgain() {
        RequestLedger ledger = empty(100, 1);
        assertThat(ledger.full()).isFalse();
        int refused = write(ledger, 1);
        ledger.synthesize(refused, refused, STATUS, FLUSHED);
        assertThat(due(ledger)).containsExactly("1 " + STATUS);
        ledger.delivered();
        assertThat(ledger.hasRoom(100)).isTrue();
        for (int late = refused - 200; late <= refused; late++) {
            assertThat(ends(ledger, late, true)).isFalse();
        }
    }

    @Test
    void itTakesMemoryWhenMoreAreOutstandingThanEverBefore() {
        RequestLedger ledger = empty(100, 1);
        assertThat(allocatedBy(ledger, 1, 1)).isBetween(100L, 1500L);
        long first = 0;
        long again = 0;
        for (int most = 2; most <= 100; most++) {
            first += allocatedBy(ledger, most, 1);
            again += allocatedBy(ledger, most, 50);
        }
        assertThat(first).isBetween(100 * 48L, 20_000L);
        assertThat(again).as("bytes").isLessThan(2_000);
    }

    /** How many bytes it takes that so many requests are outstanding and then kept, repeatedly. */
    private static long allocatedBy(RequestLedger ledger, int most, int rounds) {
        KeptCompletion[] kept = new KeptCompletion[most];
        long before = THREADS.getCurrentThreadAllocatedBytes();
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < most && !ledger.full(); i++) {
                write(ledger, i);
            }
            ledger.readAdded();
            for (int i = 0; i < most; i++) {
                ledger.end(ledger.last() - most + 1 + i, true);
                kept[i] = ledger.keep();
            }
            for (KeptCompletion each : kept) {
                each.delivered();
            }
        }
        return THREADS.getCurrentThreadAllocatedBytes() - before;
    }

    /** Until its completion is delivered, which needs memory while it waits. */
    @Test
    void aSilentOneThatFailedHasItsSlotAsOthersHave() {
        RequestLedger ledger = empty(8, 4);
        List<KeptCompletion> kept = new ArrayList<>();
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 8; i++) {
                assertThat(ledger.full()).isFalse();
                int sequence = silent(ledger, i);
                if (i % 2 == 0) {
                    assertThat(ends(ledger, sequence, false)).isTrue();
                } else {
                    ledger.synthesize(sequence, sequence, STATUS, FLUSHED);
                    assertThat(due(ledger)).hasSize(1);
                }
                kept.add(ledger.keep());
            }
            assertThat(ledger.outstanding()).isZero();
            assertThat(ledger.full()).isTrue();
            kept.forEach(KeptCompletion::delivered);
            kept.clear();
        }
    }

    /** All of a batch, or none. */
    @Test
    void itHasRoomForExactlyWhatMayBeAdded() {
        RequestLedger ledger = ledger(8, 4);
        for (int round = 0; round < 3; round++) { // what it knew before is too little
            assertThat(ledger.hasRoom(9)).isFalse();
            assertThat(ledger.hasRoom(8)).isTrue();
            for (int i = 0; i < 8; i++) {
                write(ledger, i);
            }
            assertThat(ledger.hasRoom(1)).isFalse();
            for (int i = 0; i < 8; i++) {
                assertThat(ends(ledger, ledger.last() - 7 + i, true)).isTrue();
                ledger.delivered();
            }
        }
        silent(ledger, 1);
        assertThat(ledger.hasRoom(8 + 4 - 1 - 1)).isTrue();
        assertThat(ledger.hasRoom(8 + 4 - 1)).isFalse();
    }

    @Test
    void anInternalOneThatIsTakenBackCountsNoMore() {
        RequestLedger ledger = ledger(8, 4);
        write(ledger, 1);
        ledger.addInternal();
        assertThat(ledger.posted()).isEqualTo(1);
        ledger.takeBack();
        assertThat(ledger.posted()).isEqualTo(1);
        assertThat(ledger.outstandingPosted()).isEqualTo(1);
    }

    /** Against a plain count, however requests are mixed. */
    @ParameterizedTest
    @CsvSource({"1,1", "2,1", "5,2", "8,4", "20,10"})
    void itIsFullWhenNdkCountsSo(int depth, int interval) {
        Random random = new Random(depth);
        RequestLedger ledger = empty(depth, interval);
        Deque<Integer> silent = new ArrayDeque<>(); // outstanding, as far as was polled
        Deque<Integer> others = new ArrayDeque<>();
        int ended = 0; // and not delivered
        for (int i = 0; i < 50_000; i++) {
            int used = silent.size() + others.size() + ended;
            boolean full = used >= depth + (silent.isEmpty() ? 0 : interval - 1);
            assertThat(ledger.full()).isEqualTo(full);
            assertThat(ledger.outstanding()).isEqualTo(silent.size() + others.size());
            switch (random.nextInt(8)) {
                case 0, 1, 2 -> {
                    if (!full) {
                        others.add(write(ledger, i));
                    }
                }
                case 3, 4 -> {
                    if (!full) {
                        silent.add(silent(ledger, i));
                    }
                }
                case 5 -> {
                    if (ended > 0) {
                        ended--;
                        ledger.delivered();
                    }
                }
                case 6 -> {
                    int last = ledger.last();
                    if (others.peekLast() != null && others.getLast() == last) {
                        others.removeLast();
                        ledger.takeBack();
                    } else if (silent.peekLast() != null && silent.getLast() == last) {
                        silent.removeLast();
                        ledger.takeBack();
                    }
                }
                default -> {
                    if (!others.isEmpty()) {
                        int sequence = others.removeFirst();
                        assertThat(ends(ledger, sequence, random.nextBoolean())).isTrue();
                        ended++;
                        silent.removeIf(before -> sequence - before > 0);
                    }
                }
            }
        }
    }

    /** The ledger's own number has 32 bits: a count beyond them has to hear of it in time. */
    @Test
    void itsCountsHearOfItsNumberLongBeforeThatWrapsAround() {
        RequestLedger ledger = ledger(8, 4);
        for (int i = 0; i < (1 << 24) + 40; i++) {
            ledger.full();
            int sequence = write(ledger, i);
            ledger.readAdded();
            ledger.end(sequence, true);
            ledger.delivered();
        }
        // Of a count that has not heard of it this would be a negative number.
        assertThat(endpoint.sendCounts().posted(Integer.MIN_VALUE)).isEqualTo(1L << 31);
    }

    @Test
    void whatIsNotThereOrWasReportedHasNoEnd() {
        RequestLedger ledger = ledger(8, 4);
        int first = write(ledger, 1);
        assertThat(ledger.end(first, true)).as("not yet read").isFalse();
        assertThat(ledger.hasEnded(first)).isFalse();
        assertThat(ends(ledger, first + 1, true)).as("not added").isFalse();
        assertThat(ends(ledger, first, false)).isTrue();
        assertThat(ledger.hasEnded(first)).isTrue();
        int second = write(ledger, 2);
        ledger.synthesize(second, second, STATUS, FLUSHED);
        assertThat(due(ledger)).containsExactly("2 " + STATUS);
        assertThat(ends(ledger, second, true)).as("reported already").isFalse();
        int third = write(ledger, 3);
        assertThat(ledger.hasEnded(third)).isFalse();
        assertThat(ends(ledger, third, true)).isTrue();
        assertThat(ends(ledger, third, true)).as("twice").isFalse();
    }

    @Test
    void aSilentOneIsReportedWhenItFailed() {
        RequestLedger ledger = ledger(8, 4);
        silent(ledger, 1);
        assertThat(ends(ledger, silent(ledger, 2), false)).isTrue();
        assertThat(ends(ledger, silent(ledger, 3), true)).isFalse();
        assertThat(ends(ledger, ledger.addInternal(), false)).isFalse();
        assertThat(ledger.outstanding()).isZero();
    }

    /** As after an overrun of the completion queue. */
    @Test
    void oneThatAskedForACompletionAndHasNoneHasLostIt() {
        RequestLedger ledger = ledger(8, 4);
        silent(ledger, 1);
        write(ledger, 2);
        silent(ledger, 3);
        write(ledger, 4);
        silent(ledger, 5);
        int last = write(ledger, 6);
        ledger.readAdded();
        List<String> lost = new ArrayList<>();
        while (ledger.nextSynthesizedBefore(last)) {
            lost.add(synthesized(ledger));
        }
        assertThat(lost)
                .containsExactly("2 " + CompletionStatus.LOST, "4 " + CompletionStatus.LOST);
        assertThat(ledger.outstanding()).isEqualTo(1);
        assertThat(ledger.end(last, true)).isTrue();
        assertThat(ledger.nextSynthesizedBefore(last)).isFalse();
    }

    @Nested
    class Synthesized {
        private final RequestLedger ledger = ledger(8, 4);

        @Test
        void comesAfterAllThatTheProviderReports() {
            silent(ledger, 1);
            int reported = write(ledger, 2);
            int refused = silent(ledger, 3);
            write(ledger, 4);
            ledger.synthesize(refused, ledger.last(), STATUS, FLUSHED);
            assertThat(due(ledger)).isEmpty();
            assertThat(ends(ledger, reported, true)).isTrue();
            assertThat(due(ledger)).containsExactly("3 " + STATUS, "4 " + FLUSHED);
            assertThat(ledger.outstanding()).isZero();
        }

        @Test
        void waitsForASilentOneThatMayFail() {
            silent(ledger, 1);
            int refused = write(ledger, 2);
            ledger.synthesize(refused, refused, STATUS, FLUSHED);
            assertThat(due(ledger)).isEmpty();
            assertThat(ledger.awaitsInternal()).isTrue();
            int internal = ledger.addInternal();
            ledger.readAdded();
            assertThat(ledger.nextSynthesizedBefore(internal)).isTrue();
            assertThat(ledger.context(ledger.synthesizedSequence())).isEqualTo(2);
            assertThat(ends(ledger, internal, false)).isFalse();
            assertThat(ledger.outstanding()).isZero();
        }

        @Test
        void doesNotWaitForASilentOneThatNobodyReports() {
            silent(ledger, 1);
            int refused = write(ledger, 2);
            ledger.synthesize(refused, refused, STATUS, FLUSHED);
            ledger.awaitNoInternal();
            assertThat(due(ledger)).containsExactly("2 " + STATUS);
            assertThat(ledger.outstanding()).isZero();
        }

        @Test
        void leavesOutWhatHasEnded() {
            int first = write(ledger, 1);
            write(ledger, 2);
            assertThat(ends(ledger, first, true)).isTrue();
            ledger.synthesize(first, ledger.last(), STATUS, FLUSHED);
            assertThat(due(ledger)).containsExactly("2 " + STATUS);
        }

        @Test
        void isReportedByTheProviderAfterAllOnce() {
            int first = write(ledger, 1);
            int second = write(ledger, 2);
            int third = write(ledger, 3);
            ledger.synthesize(second, second, STATUS, FLUSHED);
            assertThat(ends(ledger, first, true)).isTrue();
            ledger.readAdded();
            assertThat(ledger.nextSynthesizedBefore(second)).isFalse();
            assertThat(ledger.end(second, true)).isTrue();
            assertThat(due(ledger)).isEmpty();
            assertThat(ends(ledger, third, true)).isTrue();
        }

        @Test
        void comesBeforeWhatTheProviderReportsBehindIt() {
            int first = write(ledger, 1);
            silent(ledger, 2);
            int last = write(ledger, 3);
            ledger.synthesize(first, first, STATUS, FLUSHED);
            ledger.readAdded();
            assertThat(ledger.nextSynthesizedBefore(last)).isTrue();
            assertThat(synthesized(ledger)).isEqualTo("1 " + STATUS);
            assertThat(ledger.nextSynthesizedBefore(last)).isFalse();
            assertThat(ledger.end(last, true)).isTrue();
        }

        @Test
        void isEveryRestThatWasNotBefore() {
            int first = write(ledger, 1);
            write(ledger, 2);
            ledger.suppress(write(ledger, 3));
            silent(ledger, 4);
            ledger.addInternal();
            ledger.synthesize(first, first, STATUS, FLUSHED);
            ledger.synthesizeRest(FLUSHED);
            assertThat(due(ledger)).containsExactly("1 " + STATUS, "2 " + FLUSHED, "4 " + FLUSHED);
            assertThat(ledger.outstanding()).isZero();
        }

        @Test
        void orSuppressedFreesASlotWhenItsTurnComes() {
            for (int round = 0; round < 3; round++) {
                int first = write(ledger, 1);
                int second = write(ledger, 2);
                while (!ledger.full()) {
                    write(ledger, 3);
                }
                ledger.suppress(second);
                assertThat(due(ledger)).isEmpty();
                assertThat(ends(ledger, first, true)).isTrue();
                assertThat(ledger.full()).isTrue();
                assertThat(due(ledger)).isEmpty();
                assertThat(ledger.full()).isFalse(); // the second's: the first was not delivered
                ledger.synthesizeRest(FLUSHED);
                for (int i = due(ledger).size() + 1; i > 0; i--) {
                    ledger.delivered();
                }
                assertThat(ledger.outstanding()).isZero();
            }
            int most = 0;
            while (!ledger.full()) {
                write(ledger, most++);
            }
            assertThat(most).isEqualTo(8);
        }

        @Test
        void orSuppressedLeavesTheSilentOnesBehindItAlone() {
            ledger.suppress(write(ledger, 1));
            silent(ledger, 2);
            silent(ledger, 3);
            assertThat(ends(ledger, write(ledger, 4), true)).isTrue();
            assertThat(ledger.outstanding()).isZero();
        }

        @Test
        void orSuppressedSilentOnesFreeNoSlotOfOthers() {
            ledger.suppress(silent(ledger, 1));
            assertThat(due(ledger)).isEmpty();
            assertThat(ledger.outstanding()).isZero();
            int most = 0;
            while (!ledger.full()) {
                write(ledger, most++);
            }
            assertThat(most).isEqualTo(8);
        }
    }

    @Nested
    class ThatNamesAWindow {
        private final RequestLedger ledger = ledger(8, 4);
        private final Window window =
                new Window(new Domain(1)) {
                    @Override
                    protected int prepare() {
                        return 0;
                    }

                    @Override
                    protected void freeFormer() {}
                };

        private int bind(boolean silent) {
            ledger.add(window, 7, OperationType.BIND, silent, !silent);
            windows.bind(window, endpoint);
            return ledger.last();
        }

        private void renew() {
            windows.renew(window, 0x1000, 0x100);
        }

        @Test
        void retiresItOnceHoweverItEnds() {
            renew();
            for (Runnable end :
                    List.<Runnable>of(
                            () -> assertThat(ends(ledger, bind(false), true)).isTrue(),
                            () -> {
                                bind(true);
                                assertThat(ends(ledger, write(ledger, 1), true)).isTrue();
                            },
                            () -> {
                                bind(true);
                                int last = write(ledger, 1);
                                ledger.readAdded();
                                assertThat(ledger.nextSynthesizedBefore(last)).isFalse();
                                assertThat(window.idle()).isTrue();
                                assertThat(ledger.end(last, true)).isTrue();
                            })) {
                end.run();
                assertThat(window.idle()).isTrue();
                assertThat(window.bound()).isTrue();
                assertThat(window.wornOut()).isFalse();
                windows.invalidated(window.token());
            }
        }

        @Test
        void spoilsItWhenItFails() {
            for (boolean silent : new boolean[] {false, true}) {
                renew();
                silent(ledger, 1);
                assertThat(ends(ledger, bind(silent), false)).isTrue();
                assertThat(window.idle()).isTrue();
                assertThat(window.bound()).isFalse();
                assertThat(window.wornOut()).isTrue();
            }
            renew();
            int lost = bind(false);
            ledger.synthesize(lost, lost, STATUS, FLUSHED);
            assertThat(due(ledger)).containsExactly("7 " + STATUS);
            assertThat(window.wornOut()).isTrue();
        }

        @Test
        void butOneThatFailsBehindItDoesNot() {
            renew();
            bind(true);
            assertThat(ends(ledger, write(ledger, 1), false)).isTrue();
            assertThat(window.bound()).isTrue();
            assertThat(window.wornOut()).isFalse();
            assertThat(window.idle()).isTrue();
        }

        @Test
        void givesItsTokenBackWhenItIsTakenBack() {
            renew();
            for (boolean silent : new boolean[] {false, true}) {
                bind(silent);
                assertThat(window.token()).isEqualTo(0x101);
                ledger.takeBack();
                assertThat(window.token()).isEqualTo(0x100);
                assertThat(window.idle()).isTrue();
                assertThat(ledger.outstanding()).isZero();
                // What is added in its place names no window.
                assertThat(ends(ledger, write(ledger, 1), true)).isTrue();
                assertThat(window.idle()).isTrue();
            }
        }
    }
}
