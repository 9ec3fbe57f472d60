package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;
import dev.verbena.internal.verbs.WorkCompletions;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/**
 * What a poll delivers the short way: successes that came in their turn and have nothing but bytes.
 * Everything else it must leave to the long way, which gives the same where both could.
 */
class PlainSuccessesTest {
    private static final int WITH_IMMEDIATE = 2; // IBV_WC_WITH_IMM
    private static final int WITH_INVALIDATE = 8; // IBV_WC_WITH_INV
    private static final int GRH = 1; // IBV_WC_GRH

    private final FakeDevice device = new FakeDevice();
    private final VerbsContext context = device.open();
    private final long address = device.createCq(64, 0, 0, 0);
    private final Provider provider = Provider.of(0, 0);
    private final Endpoint endpoint = new Endpoint(new WindowTable());
    private final WorkCompletions raw = new WorkCompletions(16);
    private final CompletionRecords records = new CompletionRecords(16);
    private RequestLedger ledger;
    private int came;

    @BeforeEach
    void makeLedger() {
        ledger = Ledgers.withRoom(endpoint, WorkId.queue(0, 1, false), 8, 4);
    }

    @AfterEach
    void free() {
        device.destroyCq(address);
        device.dispose();
    }

    private int write(long requestContext) {
        return ledger.add(requestContext, OperationType.WRITE, false, true);
    }

    private void complete(int sequence) {
        device.complete(WorkId.of(ledger.queue(), sequence), 0, 0, 0);
    }

    private int deliver(int first) {
        came = context.pollCq(address, 16, raw);
        return ledger.deliverPlain(raw, first, came, provider, records);
    }

    private List<Long> delivered() {
        List<Long> contexts = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            assertThat(records.endpoint(i)).isSameAs(endpoint);
            assertThat(records.status(i)).isZero();
            contexts.add(records.context(i));
        }
        records.clear();
        return contexts;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 8})
    void allThatCame(int count) {
        for (int round = 0; round < 5; round++) {
            List<Long> expected = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                complete(write(10 * round + i));
                expected.add(10L * round + i);
            }
            assertThat(deliver(0)).isEqualTo(count);
            assertThat(delivered()).isEqualTo(expected);
            assertThat(ledger.outstanding()).isZero();
            assertThat(ledger.full()).isFalse();
        }
        int most = 0;
        while (!ledger.full()) {
            write(most++);
        }
        assertThat(most).as("each gave one slot back").isEqualTo(8);
    }

    @Test
    void thoseBehindAnotherOne() {
        for (int i = 0; i < 4; i++) {
            write(i);
        }
        device.complete(WorkId.of(WorkId.queue(7, 1, false), 0), 0, 0, 0);
        for (int i = 3; i >= 1; i--) {
            complete(ledger.last() - i);
        }
        assertThat(deliver(0)).isZero();
        assertThat(ledger.deliverPlain(raw, 1, came, provider, records)).isEqualTo(3);
        assertThat(delivered()).containsExactly(0L, 1L, 2L);
        assertThat(ledger.outstanding()).isEqualTo(1);
    }

    @Test
    void onlyThoseThatCame() {
        for (int i = 0; i < 4; i++) {
            write(i);
        }
        complete(ledger.last() - 3);
        complete(ledger.last() - 2);
        assertThat(deliver(0)).isEqualTo(2);
        assertThat(deliver(0)).isZero(); // raw has the two still
        assertThat(came).isZero();
        assertThat(ledger.outstanding()).isEqualTo(2);
        for (int i = 0; i < 2; i++) {
            write(i);
        }
        device.complete(WorkId.of(WorkId.queue(7, 1, false), 0), 0, 0, 0);
        for (int i = 3; i >= 0; i--) {
            complete(ledger.last() - i);
        }
        assertThat(deliver(0)).isZero();
        assertThat(ledger.deliverPlain(raw, 1, 3, provider, records)).isEqualTo(2);
        assertThat(ledger.outstanding()).isEqualTo(2);
    }

    /** The provider has kept it all the same, and its number is the next one's. */
    @Test
    void notOneThatWasTakenBack() {
        for (int kept = 0; kept < 4; kept++) {
            for (int i = 0; i <= kept; i++) {
                complete(write(i));
            }
            ledger.takeBack();
            assertThat(deliver(0)).isEqualTo(kept);
            assertThat(delivered()).hasSize(kept);
            assertThat(ledger.outstanding()).isZero();
        }
    }

    @Test
    void notOneThatIsNotPlain() {
        List<Runnable> others =
                List.of(
                        () -> complete(ledger.add(9, OperationType.WRITE, true, true)),
                        () -> complete(ledger.addInternal()),
                        () -> device.complete(WorkId.of(ledger.queue(), write(9)), 5, 0, 0),
                        () -> {
                            write(8);
                            complete(write(9)); // the one before has lost its completion
                        });
        for (Runnable other : others) {
            makeLedger();
            complete(write(1));
            other.run();
            complete(write(2));
            assertThat(deliver(0)).isEqualTo(1);
            assertThat(delivered()).containsExactly(1L);
            assertThat(ledger.deliverPlain(raw, 1, came, provider, records)).isZero();
        }
    }

    @Test
    void noneOnceSomethingIsSynthesized() {
        int first = write(1);
        int second = write(2);
        ledger.synthesize(second, second, 21, 5);
        complete(first);
        assertThat(deliver(0)).isZero();
    }

    @Test
    void receivesWithTheirBytes() {
        ledger = Ledgers.withRoom(endpoint, WorkId.queue(0, 1, true), 8, 1);
        for (int special : new int[] {WITH_IMMEDIATE, WITH_INVALIDATE}) {
            for (int flags : new int[] {0, GRH, special}) {
                int sequence = ledger.add(1, OperationType.RECEIVE, false, true);
                device.complete(WorkId.of(ledger.queue(), sequence), 0, -2, flags);
            }
            assertThat(deliver(0)).isEqualTo(2);
            assertThat(records.bytes(0)).isEqualTo(0xFFFF_FFFEL);
            assertThat(records.type(1)).isEqualTo(OperationType.RECEIVE);
            assertThat(delivered()).hasSize(2);
            ledger.readAdded();
            assertThat(ledger.end(ledger.last(), true)).isTrue();
            ledger.delivered();
        }
    }

    /** Whose bytes are not valid. */
    @Test
    void sendsWithoutBytes() {
        device.complete(WorkId.of(ledger.queue(), write(1)), 0, 77, WITH_IMMEDIATE);
        assertThat(deliver(0)).isEqualTo(1);
        assertThat(records.bytes(0)).isZero();
        assertThat(records.type(0)).isEqualTo(OperationType.WRITE);
    }
}
