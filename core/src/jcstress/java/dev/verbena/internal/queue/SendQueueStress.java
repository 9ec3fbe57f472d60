package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.SendChains;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

import java.lang.foreign.Arena;

/** A queue is connected by one thread while another one posts. */
public class SendQueueStress {
    private static final Provider PROVIDER = Provider.of(0, 0);
    private static final CompletionPoller POLLER =
            new CompletionPoller(
                    new QueueDevice("none", null, PROVIDER, null, null, new SharedQueues()),
                    0,
                    null,
                    null);
    private static final RequestLedger LEDGER =
            new RequestLedger(new Endpoint(new WindowTable()), 0, 4, 1, POLLER.lock());
    private static final SendChains CHAINS =
            new SendChains(PROVIDER, 1, 1, 0, Arena.ofAuto(), null);

    /** A request that is admitted finds what the peer supports. */
    @JCStressTest
    @Outcome(
            id = {"0, 0", "0, 1", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "It was not connected yet, or the peer supports both.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It was connected before the peer was known.")
    @State
    public static class ConnectAndAdmit {
        private final SendQueue queue =
                new SendQueue(null, LEDGER, CHAINS, null, 0, POLLER, () -> {});

        @Actor
        public void connect() {
            queue.connect(true, 1);
        }

        @Actor
        public void admit(II_Result result) {
            result.r1 = admitted(Operation.READ);
            result.r2 = admitted(Operation.SEND_AND_INVALIDATE);
        }

        private int admitted(Operation operation) {
            PostResult answer = queue.admit(operation, 0);
            return answer == PostResult.NOT_CONNECTED ? 0 : answer == PostResult.ACCEPTED ? 1 : 2;
        }
    }
}
