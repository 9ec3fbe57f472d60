package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Provider;

import org.junit.jupiter.api.Test;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/** Where completions go, and which queue pairs are to be notified of a failure. */
class DeliveryTest {
    private static final int FAILURE = 21;

    private final WindowTable windows = new WindowTable();
    private final Endpoint endpoint = new Endpoint(windows);
    private final CompletionCounts counts = new CompletionCounts();
    private final Delivery delivery = new Delivery(Provider.of(0, 0), counts);
    private int credits;

    private final class Slot extends KeptCompletion implements Credit {
        private final Endpoint of;

        Slot(Endpoint of) {
            this.of = of;
        }

        @Override
        Endpoint endpoint() {
            return of;
        }

        @Override
        public void delivered() {
            credits++;
        }

        @Override
        public KeptCompletion keep() {
            return this;
        }
    }

    private void deliver(Endpoint of, long context, int status, CompletionRecords to) {
        long kind =
                status == 0
                        ? CompletionRecords.success(OperationType.WRITE, 0, false)
                        : CompletionRecords.failure(OperationType.WRITE, status, 0);
        delivery.deliver(of, new Slot(of), context, kind, 0, to);
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
    void whatIsKeptKeepsAllItsParts() {
        Endpoint other = new Endpoint(windows);
        long invalidated =
                CompletionRecords.success(OperationType.RECEIVE_AND_INVALIDATE, 8, false);
        long immediate = CompletionRecords.success(OperationType.RECEIVE, 9, true);
        delivery.deliver(other, new Slot(other), 2, invalidated, 0x77, null);
        delivery.deliver(endpoint, new Slot(endpoint), 3, immediate, 0x88, null);
        CompletionRecords records = new CompletionRecords(4);
        delivery.moveTo(records);
        assertThat(records.size()).isEqualTo(2);
        assertThat(records.endpoint(0)).isSameAs(other);
        assertThat(records.context(0)).isEqualTo(2);
        assertThat(records.type(0)).isEqualTo(OperationType.RECEIVE_AND_INVALIDATE);
        assertThat(records.bytes(0)).isEqualTo(8);
        assertThat(records.tokenOrImmediate(0)).isEqualTo(0x77);
        assertThat(records.endpoint(1)).isSameAs(endpoint);
        assertThat(records.context(1)).isEqualTo(3);
        assertThat(records.immediate(1)).isTrue();
        assertThat(records.bytes(1)).isEqualTo(9);
        assertThat(records.tokenOrImmediate(1)).isEqualTo(0x88);
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
            Endpoint one = new Endpoint(windows);
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

    /** Else polling would need memory when there may be none. */
    @Test
    void whatIsKeptNeedsNoMemory() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        Delivery delivery = new Delivery(Provider.of(0, 0), counts);
        delivery.ensureCapacity(100);
        List<RequestLedger> ledgers = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            Endpoint of = new Endpoint(windows);
            ledgers.add(Ledgers.withRoom(of, WorkId.queue(i, 1, false), 32, 1));
        }
        CompletionRecords records = new CompletionRecords(64);
        long before = threads.getCurrentThreadAllocatedBytes();
        for (RequestLedger ledger : ledgers) {
            for (int i = 0; i < 32; i++) {
                ledger.add(i, OperationType.WRITE, false, true);
            }
            ledger.synthesize(ledger.last() - 31, ledger.last(), FAILURE, FAILURE);
            delivery.synthesize(ledger);
        }
        delivery.synthesizeDue(null);
        assertThat(counts.keptEver()).isEqualTo(3200);
        int delivered = 0;
        do {
            records.clear();
            delivery.moveTo(records);
            delivery.synthesizeDue(records);
            delivered += records.size();
        } while (!delivery.isEmpty());
        long allocated = threads.getCurrentThreadAllocatedBytes() - before;
        assertThat(delivered).isEqualTo(3200);
        assertThat(allocated).as("bytes; 3,200 completions would take 150 KB").isLessThan(1 << 12);
    }
}
