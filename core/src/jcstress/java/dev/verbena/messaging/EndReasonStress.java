package dev.verbena.messaging;

import dev.verbena.Status;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;
import org.openjdk.jcstress.infra.results.II_Result;

import java.util.concurrent.atomic.AtomicInteger;

/** The end of a connection: reported once, and the polling thread sees the whole reason. */
public class EndReasonStress {
    private static class Reason extends EndReason {
        Reason() {
            super(true);
        }

        @Override
        String describe() {
            return "It";
        }

        @Override
        boolean failedByPeer() {
            return false;
        }

        @Override
        void tearDown() {}
    }

    /** Two threads end it, for reasons of their own. */
    @JCStressTest
    @Outcome(
            id = {"1, 1, 0", "1, 2, 0"},
            expect = Expect.ACCEPTABLE,
            desc = "One was first.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It ended twice or never, or a reason was replaced.")
    @State
    public static class TwoEnds {
        private final AtomicInteger ends = new AtomicInteger();
        private volatile int first; // as it was when the end was reported
        private final EndReason reason =
                new Reason() {
                    @Override
                    void tearDown() {
                        ends.incrementAndGet();
                        first = number();
                    }
                };

        private int number() {
            MessagingException why = reason.get();
            return why == null ? 0 : why.status() == Status.IO_TIMEOUT ? 1 : 2;
        }

        @Actor
        public void late() {
            reason.failed(Status.IO_TIMEOUT, "was late", null);
        }

        @Actor
        public void wrong() {
            reason.failed(Status.INTERNAL_ERROR, "was wrong", null);
        }

        @Arbiter
        public void look(III_Result result) {
            result.r1 = ends.get();
            result.r2 = first;
            result.r3 = number() - first;
        }
    }

    /** It ends while the polling thread decides whether completions are still delivered. */
    @JCStressTest
    @Outcome(
            id = {"1, 0", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "Open, or being drained.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "What had come before the end was dropped.")
    @State
    public static class EndAndPoll {
        private final EndReason reason = new Reason();

        @Actor
        public void end() {
            reason.closedHere();
        }

        @Actor
        public void poll(II_Result result) {
            result.r1 = reason.takesCompletions() ? 1 : 0;
            result.r2 = reason.isOpen() ? 1 : 0;
        }
    }
}
