package dev.verbena.internal.queue;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

import java.util.concurrent.atomic.AtomicInteger;

/** The flag of a confined queue: no task that another thread leaves is lost, or runs twice. */
@JCStressTest
@Outcome(id = "2, 0", expect = Expect.ACCEPTABLE, desc = "Both ran, and the flag says so.")
@Outcome(expect = Expect.FORBIDDEN, desc = "A task was lost, ran twice, or the flag missed it.")
@State
public class OwnerTasksStress {
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

    @Actor
    public void owner() {
        tasks.runAll();
    }

    /** The owner's next poll: it reads the flag, and nothing else. */
    @Arbiter
    public void nextPoll(II_Result result) {
        tasks.runAll();
        result.r1 = runs.get();
        result.r2 = tasks.any() ? 1 : 0;
    }
}
