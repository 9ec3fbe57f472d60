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
    private final Endpoint a = new Endpoint(windows);
    private final Endpoint b = new Endpoint(windows);

    private static void add(CompletionRecords records, Endpoint endpoint, long context) {
        records.add(endpoint, context, CompletionRecords.success(OperationType.WRITE, 0, false), 0);
    }

    private String name(Endpoint endpoint) {
        return endpoint == a ? "a" : "b";
    }

    private List<String> all(CompletionRecords records) {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            all.add(name(records.endpoint(i)) + " " + records.context(i));
        }
        return all;
    }

    @Test
    void eachPartComesOutAsItWentIn() {
        CompletionRecords records = new CompletionRecords(4);
        records.add(
                a,
                -7,
                CompletionRecords.success(OperationType.RECEIVE_OF_WRITE, 0xFFFF_FFFFL, true),
                0x8000_0001);
        records.add(
                a,
                Long.MIN_VALUE,
                CompletionRecords.failure(OperationType.FETCH_AND_ADD, FAILURE, -3),
                0);
        records.add(
                a, 1, CompletionRecords.failure(OperationType.SEND, CompletionStatus.LOST, 0), 0);
        assertThat(records.size()).isEqualTo(3);
        assertThat(records.remaining()).isEqualTo(1);
        assertThat(records.type(0)).isEqualTo(OperationType.RECEIVE_OF_WRITE);
        assertThat(records.context(0)).isEqualTo(-7);
        assertThat(records.bytes(0)).isEqualTo(0xFFFF_FFFFL);
        assertThat(records.status(0)).isZero();
        assertThat(records.immediate(0)).isTrue();
        assertThat(records.tokenOrImmediate(0)).isEqualTo(0x8000_0001);
        assertThat(records.type(1)).isEqualTo(OperationType.FETCH_AND_ADD);
        assertThat(records.context(1)).isEqualTo(Long.MIN_VALUE);
        assertThat(records.bytes(1)).isZero();
        assertThat(records.status(1)).isEqualTo(FAILURE);
        assertThat(records.vendorError(1)).isEqualTo(-3);
        assertThat(records.immediate(1)).isFalse();
        assertThat(records.tokenOrImmediate(1)).isZero();
        assertThat(records.type(2)).isEqualTo(OperationType.SEND);
        assertThat(records.status(2)).isEqualTo(CompletionStatus.LOST);
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
                expected.add(name(endpoint) + " " + i);
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
}
