package dev.verbena.internal.queue;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * The flag of a confined queue: no task that another thread leaves is lost, or runs twice. Two
 * threads at most race: jcstress leaves out, without a failure, what has more actors than there are
 * processors.
 */
public class OwnerTasksStress {
    /** The owner polls while another thread leaves a task. */
    @JCStressTest
    @Outcome(id = "1, 0", expect = Expect.ACCEPTABLE, desc = "It ran, and the flag says so.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It was lost, ran twice, or the flag missed it.")
    @State
    public static class AddAndPoll {
        private final AtomicInteger runs = new AtomicInteger();
        private final OwnerTasks tasks = new OwnerTasks(new QueueLock(null), () -> {});

        @Actor
        public void other() {
            tasks.add(runs::incrementAndGet);
        }

        @Actor
        public void owner() {
            tasks.runAll();
        }

        @Arbiter
        public void look(II_Result result) {
            tasks.runAll();
            result.r1 = runs.get();
            result.r2 = tasks.any() ? 1 : 0;
        }
    }

    /** The owner runs a task that was left before, while another thread leaves a second one. */
    @JCStressTest
    @Outcome(id = "2, 0", expect = Expect.ACCEPTABLE, desc = "Both ran, and the flag says so.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "A task was lost, ran twice, or the flag missed it.")
    @State
    public static class AddWhileRunning {
        private final AtomicInteger runs = new AtomicInteger();
        private final OwnerTasks tasks = new OwnerTasks(new QueueLock(null), () -> {});

        public AddWhileRunning() {
            tasks.add(runs::incrementAndGet);
        }

        @Actor
        public void other() {
            tasks.add(runs::incrementAndGet);
        }

        @Actor
        public void owner() {
            tasks.runAll();
        }

        @Arbiter
        public void look(II_Result result) {
            tasks.runAll();
            result.r1 = runs.get();
            result.r2 = tasks.any() ? 1 : 0;
        }
    }

    /** Two threads leave tasks at once. */
    @JCStressTest
    @Outcome(id = "2, 0", expect = Expect.ACCEPTABLE, desc = "Both ran, and the flag says so.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "A task was lost, ran twice, or the flag missed it.")
    @State
    public static class TwoAdd {
        private final AtomicInteger runs = new AtomicInteger();
        private final OwnerTasks tasks = new OwnerTasks(new QueueLock(null), () -> {});

        @Actor
        public void one() {
            tasks.add(runs::incrementAndGet);
        }

        @Actor
        public void another() {
            tasks.add(runs::incrementAndGet);
        }

        @Arbiter
        public void look(II_Result result) {
            tasks.runAll();
            result.r1 = runs.get();
            result.r2 = tasks.any() ? 1 : 0;
        }
    }
}
