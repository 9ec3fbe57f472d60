package dev.verbena;

import dev.verbena.internal.util.FreeIndexes;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;

/** The free buffers of a pool: none is handed out twice, and none is lost. */
public class FreeIndexesStress {
    /**
     * One thread takes two and gives the first back: the top is the same again, not what is below.
     */
    @JCStressTest
    @Outcome(id = "7", expect = Expect.ACCEPTABLE, desc = "Each buffer is in one place.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "A buffer was lost, or handed out twice.")
    @State
    public static class TopIsTheSameAgain {
        private final FreeIndexes free = new FreeIndexes(3);
        private int kept;
        private int taken;

        public TopIsTheSameAgain() {
            free.push(2);
            free.push(1);
            free.push(0);
        }

        @Actor
        public void takeTwoGiveOneBack() {
            int first = free.pop();
            kept = free.pop();
            free.push(first);
        }

        @Actor
        public void take() {
            taken = free.pop();
        }

        /** Adds up what each has: a buffer that two have would carry. */
        @Arbiter
        public void look(I_Result result) {
            result.r1 = (1 << kept) + (1 << taken);
            int left = free.pop();
            while (left != FreeIndexes.NONE) {
                result.r1 += 1 << left;
                left = free.pop();
            }
        }
    }

    /** Two threads give buffers back. */
    @JCStressTest
    @Outcome(id = "3", expect = Expect.ACCEPTABLE, desc = "Both are there.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "One was lost.")
    @State
    public static class TwoGiveBack {
        private final FreeIndexes free = new FreeIndexes(2);

        @Actor
        public void one() {
            free.push(0);
        }

        @Actor
        public void another() {
            free.push(1);
        }

        @Arbiter
        public void look(I_Result result) {
            int left = free.pop();
            while (left != FreeIndexes.NONE) {
                result.r1 += 1 << left;
                left = free.pop();
            }
        }
    }
}
