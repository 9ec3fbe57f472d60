package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** Where completions go, and which queue pairs are to be notified of a failure. */
class DeliveryTest {
    private static final int FAILURE = 21;

    private final WindowTable windows = new WindowTable();
    private final Endpoint endpoint = new Endpoint("it", windows, () -> {});
    private final CompletionCounts counts = new CompletionCounts();
    private final Delivery delivery = new Delivery(new UndeliveredCompletions(2), counts);
    private int credits;

    private void deliver(Endpoint of, long context, int status, CompletionRecords to) {
        assertThat(delivery.makeRoom()).isTrue();
        delivery.deliver(
                of, () -> credits++, OperationType.WRITE, context, 0, status, 0, 0, false, to);
    }

    private static List<Long> contexts(CompletionRecords records) {
        List<Long> contexts = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            contexts.add(records.context(i));
        }
        return contexts;
    }

    @Test
    void whatFindsTheConsumersRecordsFullIsKept() {
        CompletionRecords records = new CompletionRecords(1);
        deliver(endpoint, 1, 0, records);
        assertThat(credits).isEqualTo(1);
        assertThat(delivery.isEmpty()).isTrue();
        assertThat(counts.keptEver()).isZero();
        deliver(endpoint, 2, 0, records);
        assertThat(credits).isEqualTo(1);
        assertThat(delivery.isEmpty()).isFalse();
        assertThat(counts.keptEver()).isEqualTo(1);
        records.clear();
        deliver(endpoint, 3, 0, records); // behind the one before
        assertThat(records.size()).isZero();
        deliver(endpoint, 4, 0, null);
        assertThat(counts.keptEver()).isEqualTo(3);
        delivery.moveTo(records);
        assertThat(contexts(records)).containsExactly(2L);
        assertThat(credits).isEqualTo(2);
        records = new CompletionRecords(3);
        delivery.moveTo(records);
        assertThat(contexts(records)).containsExactly(3L, 4L);
        assertThat(delivery.isEmpty()).isTrue();
        assertThat(counts.failuresEver()).isZero();
    }

    @Test
    void plainOnesNeedRoomForAllAndNothingBeforeThem() {
        CompletionRecords records = new CompletionRecords(2);
        assertThat(delivery.takesPlain(records, 2)).isTrue();
        assertThat(delivery.takesPlain(records, 3)).isFalse();
        deliver(endpoint, 1, 0, null);
        assertThat(delivery.takesPlain(records, 1)).isFalse();
    }

    @Test
    void eachQueuePairThatFailsIsNotifiedOnce() {
        assertThat(delivery.anyFailed()).isFalse();
        assertThat(delivery.nextFailed()).isNull();
        List<Endpoint> failed = new ArrayList<>();
        CompletionRecords records = new CompletionRecords(100);
        for (int i = 0; i < 40; i++) {
            Endpoint one = new Endpoint(i, windows, () -> {});
            failed.add(one);
            deliver(one, 2 * i, FAILURE, records);
            deliver(one, 2 * i + 1, FAILURE, records);
        }
        deliver(endpoint, 99, 0, records);
        assertThat(counts.failuresEver()).isEqualTo(80);
        List<Endpoint> notified = new ArrayList<>();
        while (delivery.anyFailed()) {
            notified.add(delivery.nextFailed());
        }
        assertThat(notified).containsExactlyInAnyOrderElementsOf(failed);
        assertThat(delivery.nextFailed()).isNull();
        failed.forEach(delivery::putBack); // each notification has thrown
        delivery.putBack(endpoint);
        for (int i = 0; i < 41; i++) {
            assertThat(delivery.anyFailed()).isTrue();
            assertThat(delivery.nextFailed()).isNotNull();
        }
        assertThat(delivery.anyFailed()).isFalse();
    }
}
