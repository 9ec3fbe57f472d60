package dev.verbena.messaging;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

import java.util.concurrent.atomic.AtomicInteger;

/** The tasks of a poller: none is lost, and the thread that sleeps next sees each. */
public class TasksStress {
    private static void never(Throwable thrown) {
        throw new AssertionError(thrown);
    }

    /** A task that may be added again runs while it is added. */
    @JCStressTest
    @Outcome(
            id = {"1, 1", "2, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "It saw all before it.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It was lost, or did not see what it is for.")
    @State
    public static class AddAgainWhileRunning {
        private final Tasks tasks = new Tasks(TasksStress::never);
        private final AtomicInteger runs = new AtomicInteger();
        private int wanted; // written before the task is added
        private int seen;
        private final Tasks.Task task = new Tasks.Task(this::run, false);

        public AddAgainWhileRunning() {
            tasks.add(task);
        }

        private void run() {
            runs.incrementAndGet();
            seen = wanted;
        }

        @Actor
        public void other() {
            wanted = 1;
            tasks.add(task);
        }

        @Actor
        public void poller() {
            tasks.run();
        }

        @Arbiter
        public void look(II_Result result) {
            tasks.run();
            result.r1 = runs.get();
            result.r2 = seen;
        }
    }

    /** As a poller goes to sleep: it says so, and then looks; the other adds, and then looks. */
    @JCStressTest
    @Outcome(
            id = {"1, 0", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "It is woken.")
    @Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "It saw the task.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It sleeps, and nobody wakes it.")
    @State
    public static class AddBeforeSleep {
        private final Tasks tasks = new Tasks(TasksStress::never);
        private final Tasks.Task task = new Tasks.Task(() -> {}, false);
        private volatile boolean sleeping;

        @Actor
        public void other(II_Result result) {
            tasks.add(task);
            result.r1 = sleeping ? 1 : 0;
        }

        @Actor
        public void poller(II_Result result) {
            sleeping = true;
            result.r2 = tasks.isEmpty() ? 0 : 1;
        }
    }
}
