package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Provider;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** Completions that the device will not report come after all before them, and then no more. */
class SynthesisTest {
    private static final int STATUS = 21;
    private static final int FLUSHED = 5;

    private final Endpoint endpoint = new Endpoint(new WindowTable());
    private final Delivery delivery = new Delivery(Provider.of(0, 0), new CompletionCounts());
    private final CompletionRecords records = new CompletionRecords(64);

    private RequestLedger ledger(int slot) {
        return Ledgers.withRoom(endpoint, WorkId.queue(slot, 1, false), 8, 2);
    }

    private static int add(RequestLedger ledger, long context) {
        return ledger.add(context, OperationType.WRITE, false, true);
    }

    private void synthesize(RequestLedger ledger, int first) {
        ledger.synthesize(first, ledger.last(), STATUS, FLUSHED);
        delivery.synthesize(ledger);
    }

    private List<String> delivered() {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            all.add(records.context(i) + " " + records.status(i));
        }
        records.clear();
        return all;
    }

    @Test
    void theyComeWhenAllBeforeThemHaveEnded() {
        RequestLedger ledger = ledger(0);
        int first = add(ledger, 1);
        int second = add(ledger, 2);
        add(ledger, 3);
        synthesize(ledger, second);
        delivery.synthesizeDue(records);
        assertThat(delivered()).isEmpty();
        assertThat(delivery.nothingToSynthesize()).isFalse();
        delivery.synthesizeBefore(ledger, first, records);
        assertThat(ledger.end(first, true)).isTrue();
        assertThat(delivered()).isEmpty();
        delivery.synthesizeDue(records);
        assertThat(delivered()).containsExactly("2 " + STATUS, "3 " + FLUSHED);
    }

    @Test
    void oneThatIsNotSilentGivesItsSlotBack() {
        RequestLedger ledger = ledger(0);
        for (int round = 0; round < 3; round++) {
            int first = add(ledger, 0);
            while (!ledger.full()) {
                add(ledger, 1);
            }
            synthesize(ledger, first);
            assertThat(ledger.full()).isTrue();
            delivery.synthesizeDue(records);
            assertThat(delivered()).hasSize(8);
            assertThat(ledger.full()).isFalse();
        }
    }

    @Test
    void aSilentOneHasItsSlotBackAlready() {
        RequestLedger ledger = ledger(0);
        for (int i = 0; i < 4; i++) {
            ledger.add(i, OperationType.WRITE, true, false);
        }
        synthesize(ledger, ledger.last() - 3);
        delivery.synthesizeDue(records);
        assertThat(delivered()).hasSize(4);
        int most = 0;
        while (!ledger.full()) {
            add(ledger, 0);
            most++;
        }
        assertThat(most).isEqualTo(8);
    }

    /** Polls take the short way again, although the queue pairs are there still. */
    @Test
    void nothingIsLeftToLookAtWhenAllCame() {
        List<RequestLedger> ledgers = List.of(ledger(0), ledger(1), ledger(2));
        List<RequestLedger> waiting = List.of(ledger(3), ledger(4));
        for (RequestLedger ledger : waiting) {
            add(ledger, 10);
        }
        synthesize(waiting.getFirst(), add(waiting.getFirst(), 11));
        for (RequestLedger ledger : ledgers) {
            int first = add(ledger, 1);
            add(ledger, 2);
            synthesize(ledger, first);
            delivery.synthesize(ledger); // again does nothing
        }
        synthesize(waiting.getLast(), add(waiting.getLast(), 12));
        delivery.synthesizeDue(records);
        assertThat(delivered())
                .containsExactly(
                        "1 " + STATUS,
                        "2 " + FLUSHED,
                        "1 " + STATUS,
                        "2 " + FLUSHED,
                        "1 " + STATUS,
                        "2 " + FLUSHED);
        assertThat(delivery.nothingToSynthesize()).isFalse();
        for (RequestLedger ledger : waiting) {
            ledger.readAdded();
            assertThat(ledger.end(ledger.last() - 1, true)).isTrue();
        }
        delivery.synthesizeDue(records);
        assertThat(delivered()).containsExactly("11 " + STATUS, "12 " + STATUS);
        assertThat(delivery.nothingToSynthesize()).isTrue();
    }

    @Test
    void whatIsSynthesizedAfterThatComesToo() {
        RequestLedger ledger = ledger(0);
        for (int i = 1; i < 20; i++) {
            synthesize(ledger, add(ledger, i));
            delivery.synthesizeDue(records);
            assertThat(delivered()).containsExactly(i + " " + STATUS);
            assertThat(delivery.nothingToSynthesize()).isTrue();
        }
    }
}
