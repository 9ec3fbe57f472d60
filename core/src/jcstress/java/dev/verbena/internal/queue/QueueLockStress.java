package dev.verbena.internal.queue;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/** The shared lock: one holder at a time, which sees what the holder before has written. */
public class QueueLockStress {
    /** Two threads count under the lock. */
    @JCStressTest
    @Outcome(id = "2", expect = Expect.ACCEPTABLE, desc = "Both counted.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "Two threads held the lock at once.")
    @State
    public static class Exclusion {
        private final QueueLock lock = new QueueLock(null);
        private int count;

        private void count() {
            if (lock.acquire()) {
                count++;
                lock.release();
            }
        }

        @Actor
        public void first() {
            count();
        }

        @Actor
        public void second() {
            count();
        }

        @Arbiter
        public void look(I_Result result) {
            result.r1 = count;
        }
    }

    /**
     * A close waits for the holder: what follows the close sees all that was done under the lock.
     */
    @JCStressTest
    @Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "The post came first, and was seen.")
    @Outcome(id = "0, 0", expect = Expect.ACCEPTABLE, desc = "The close came first.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "The close has missed a post.")
    @State
    public static class Close {
        private final QueueLock lock = new QueueLock(null);
        private int posted;

        @Actor
        public void post(II_Result result) {
            if (lock.acquire()) {
                posted = 1;
                result.r1 = 1;
                lock.release();
            }
        }

        @Actor
        public void close(II_Result result) {
            lock.close();
            result.r2 = posted;
        }
    }
}
