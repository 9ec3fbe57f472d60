package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** What a record keeps of its completion, and whose it is. */
class CompletionRecordsTest {
    private static final int FAILURE = 21;

    private final WindowTable windows = new WindowTable();
    private final Endpoint a = new Endpoint("a", windows, () -> {});
    private final Endpoint b = new Endpoint("b", windows, () -> {});

    private static void add(CompletionRecords records, Endpoint endpoint, long context) {
        records.add(endpoint, OperationType.WRITE, context, 0, 0, 0, 0, false);
    }

    private static List<String> all(CompletionRecords records) {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            all.add(records.queuePair(i) + " " + records.context(i));
        }
        return all;
    }

    @Test
    void eachPartComesOutAsItWentIn() {
        CompletionRecords records = new CompletionRecords(4);
        assertThat(records.capacity()).isEqualTo(4);
        records.add(a, OperationType.RECEIVE_OF_WRITE, -7, 0xFFFF_FFFFL, 0, 99, 0x8000_0001, true);
        records.add(a, OperationType.FETCH_AND_ADD, Long.MIN_VALUE, 5, FAILURE, -3, 0, false);
        records.add(a, OperationType.SEND, 1, 0, SynthesizedStatus.LOST, 0, 0, false);
        assertThat(records.size()).isEqualTo(3);
        assertThat(records.remaining()).isEqualTo(1);
        assertThat(records.type(0)).isEqualTo(OperationType.RECEIVE_OF_WRITE);
        assertThat(records.context(0)).isEqualTo(-7);
        assertThat(records.bytes(0)).isEqualTo(0xFFFF_FFFFL);
        assertThat(records.status(0)).isZero();
        assertThat(records.immediate(0)).isTrue();
        assertThat(records.extra(0)).isEqualTo(0x8000_0001);
        assertThat(records.type(1)).isEqualTo(OperationType.FETCH_AND_ADD);
        assertThat(records.context(1)).isEqualTo(Long.MIN_VALUE);
        assertThat(records.bytes(1)).isZero();
        assertThat(records.status(1)).isEqualTo(FAILURE);
        assertThat(records.vendorError(1)).isEqualTo(-3);
        assertThat(records.immediate(1)).isFalse();
        assertThat(records.extra(1)).isZero();
        assertThat(records.type(2)).isEqualTo(OperationType.SEND);
        assertThat(records.status(2)).isEqualTo(SynthesizedStatus.LOST);
        records.clear();
        assertThat(records.size()).isZero();
        assertThat(records.remaining()).isEqualTo(4);
    }

    /** The records are used again and again: nothing of the round before is left. */
    @Test
    void eachIsOfItsQueuePair() {
        CompletionRecords records = new CompletionRecords(4);
        for (String round : new String[] {"aaaa", "abab", "bbaa", "bbbb", "baba", "abba", "aaab"}) {
            records.clear();
            List<String> expected = new ArrayList<>();
            for (int i = 0; i < round.length(); i++) {
                Endpoint endpoint = round.charAt(i) == 'a' ? a : b;
                add(records, endpoint, i);
                expected.add(endpoint.queuePair() + " " + i);
            }
            assertThat(all(records)).isEqualTo(expected);
        }
    }

    @Test
    void plainSuccessesArePutInARow() {
        CompletionRecords records = new CompletionRecords(5);
        add(records, a, 0);
        long kind = RequestState.of(OperationType.RECEIVE) | 12L << 32;
        for (int round = 0; round < 2; round++) {
            records.put(0, b, 10 + round, kind);
            records.put(1, b, 20 + round, kind);
            records.added(2);
        }
        assertThat(all(records)).containsExactly("a 0", "b 10", "b 20", "b 11", "b 21");
        assertThat(records.type(4)).isEqualTo(OperationType.RECEIVE);
        assertThat(records.bytes(4)).isEqualTo(12);
        assertThat(records.bytes(0)).isZero();
        assertThat(records.remaining()).isZero();
    }

    @Test
    void thoseThatMoveKeepAllTheirParts() {
        CompletionRecords records = new CompletionRecords(3);
        add(records, a, 1);
        records.add(b, OperationType.RECEIVE_AND_INVALIDATE, 2, 8, 0, 0, 0x77, false);
        records.add(a, OperationType.RECEIVE, 3, 9, 0, 0, 0x88, true);
        records.moveInto(1, new CompletionRecords(6));
        assertThat(records.capacity()).isEqualTo(6);
        assertThat(records.remaining()).isEqualTo(4);
        assertThat(all(records)).containsExactly("b 2", "a 3");
        assertThat(records.type(0)).isEqualTo(OperationType.RECEIVE_AND_INVALIDATE);
        assertThat(records.extra(0)).isEqualTo(0x77);
        assertThat(records.immediate(1)).isTrue();
        assertThat(records.bytes(1)).isEqualTo(9);
        for (int i = 4; i < 8; i++) {
            add(records, b, i);
        }
        assertThat(all(records)).containsExactly("b 2", "a 3", "b 4", "b 5", "b 6", "b 7");
        CompletionRecords others = new CompletionRecords(2);
        others.addFrom(records, 1);
        others.addFrom(records, 0);
        assertThat(all(others)).containsExactly("a 3", "b 2");
        assertThat(others.extra(0)).isEqualTo(0x88);
    }
}
