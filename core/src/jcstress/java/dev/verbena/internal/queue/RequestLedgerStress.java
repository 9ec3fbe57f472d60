package dev.verbena.internal.queue;

import dev.verbena.OperationType;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;
import org.openjdk.jcstress.infra.results.ZZI_Result;

/** The hand-over of requests and slots between the posting and the completing side of a ledger. */
public class RequestLedgerStress {
    private static final Endpoint ENDPOINT = new Endpoint(new WindowTable());

    /** A request that the completing side can see is there whole. */
    @JCStressTest
    @Outcome(id = "0, 0", expect = Expect.ACCEPTABLE, desc = "It was not there yet.")
    @Outcome(id = "42, 1", expect = Expect.ACCEPTABLE, desc = "It was there whole.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It was seen before it was written.")
    @State
    public static class Publication {
        private final QueueLock lock = new QueueLock(null);
        private final RequestLedger ledger = new RequestLedger(ENDPOINT, 0, 4, 1, lock);
        private final int first = ledger.last() + 1;

        @Actor
        public void post() {
            if (!ledger.full()) { // makes the memory for it, too
                ledger.add(42, OperationType.WRITE, false, true);
            }
        }

        @Actor
        public void complete(JJ_Result result) {
            lock.run(
                    () -> {
                        ledger.readAdded();
                        if (ledger.end(first, true)) {
                            result.r1 = ledger.context(first);
                            result.r2 = ledger.typeOf(first) == OperationType.WRITE ? 1 : 2;
                        }
                    });
        }
    }

    /** A slot that the posting side can see is free again: of a queue with one. */
    @JCStressTest
    @Outcome(id = "true, true, 0", expect = Expect.ACCEPTABLE, desc = "Delivered, and seen so.")
    @Outcome(id = "true, false, 0", expect = Expect.ACCEPTABLE, desc = "The slot was still taken.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "A slot was lost, or granted twice.")
    @State
    public static class Credit {
        private final RequestLedger ledger = withRoom();
        private final int first = ledger.add(1, OperationType.WRITE, false, true);

        private static RequestLedger withRoom() {
            RequestLedger ledger = new RequestLedger(ENDPOINT, 0, 1, 1, new QueueLock(null));
            if (ledger.full()) {
                throw new IllegalStateException("an empty ledger is full");
            }
            return ledger;
        }

        @Actor
        public void complete(ZZI_Result result) {
            ledger.readAdded();
            result.r1 = ledger.end(first, true);
            ledger.delivered();
        }

        @Actor
        public void post(ZZI_Result result) {
            if (!ledger.full()) {
                result.r2 = true;
                ledger.add(2, OperationType.WRITE, false, true);
            }
        }

        @Arbiter
        public void look(ZZI_Result result) {
            int expected = result.r2 ? 1 : 0; // the second request, if it was let in
            result.r3 = ledger.outstanding() - expected;
        }
    }
}
