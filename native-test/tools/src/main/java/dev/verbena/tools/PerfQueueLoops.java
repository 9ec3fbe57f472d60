package dev.verbena.tools;

import dev.verbena.CompletionQueue;
import dev.verbena.Completions;

import java.lang.foreign.MemorySegment;

/** What the loops over queue pairs have in common: their plan, and their end of the connection. */
abstract class PerfQueueLoops implements PerfLoops {
    final PerfPlan plan;
    final PerfEnd end;
    final CompletionQueue queue;
    final Completions completions;
    final MemorySegment memory;

    PerfQueueLoops(PerfPlan plan, PerfEnd end) {
        this.plan = plan;
        this.end = end;
        this.queue = end.queue;
        this.completions = end.completions;
        this.memory = end.memory.memory();
    }

    @Override
    public final void prepare(int size, int seed) {
        end.prepare(size, seed);
    }

    @Override
    public final long address() {
        return memory.address();
    }

    @Override
    public final int token() {
        return end.memory.remoteToken();
    }
}
