package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * How much more two threads do than one, each with a queue pair and a confined completion queue of
 * its own, on a stand-in for libibverbs, as {@code c/two_threads.c} does it. One line for each
 * round: requests in a second of two threads, divided by those of one. Only a machine with two
 * processors and nothing else to do can show it; with {@code --clock cpu} it is what they do in a
 * second of a processor each, wherever that is.
 */
public final class TwoThreads {
    private static final int BYTES = 64;
    private static final int BATCH = 1000;
    private static final int THREADS = 2;
    private static final int WARM_UPS = 3;

    private final long roundNanos;
    private final boolean cpu;

    private TwoThreads(Options options) {
        this.roundNanos = options.number("--ms", 500) * 1_000_000L;
        this.cpu = options.is("--clock", "cpu");
    }

    /**
     * Measures.
     *
     * @param arguments options
     * @throws Exception when a thread fails
     */
    public static void main(String[] arguments) throws Exception {
        Options options =
                new Options(
                        "TwoThreads [--ms N] [--rounds N] [--clock cpu]",
                        0,
                        arguments,
                        "--ms",
                        "--rounds",
                        "--clock");
        TwoThreads program = new TwoThreads(options);
        try (Arena arena = Arena.ofShared();
                Adapter adapter = Adapter.open("copy0");
                ProtectionDomain domain = adapter.createProtectionDomain()) {
            List<ExecutorService> threads = new ArrayList<>();
            List<Worker> workers = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                ExecutorService thread = Executors.newSingleThreadExecutor();
                threads.add(thread);
                // What is confined belongs to the thread that makes it.
                workers.add(thread.submit(() -> program.new Worker(adapter, domain, arena)).get());
            }
            for (int round = -WARM_UPS; round < options.number("--rounds", 5); round++) {
                double one = program.rate(threads.subList(0, 1), workers);
                double both = program.rate(threads, workers);
                if (round >= 0) {
                    Results.print("two-threads", "-", both / one, "times");
                }
            }
            for (int i = 0; i < THREADS; i++) {
                threads.get(i).submit(workers.get(i)::close).get();
                threads.get(i).close();
            }
        }
    }

    /** Requests of these threads in a ns. */
    private double rate(List<ExecutorService> threads, List<Worker> workers)
            throws InterruptedException, ExecutionException {
        CyclicBarrier start = new CyclicBarrier(threads.size());
        List<Future<Double>> rates = new ArrayList<>();
        for (int i = 0; i < threads.size(); i++) {
            Worker worker = workers.get(i);
            Callable<Double> run = () -> worker.rate(start);
            rates.add(threads.get(i).submit(run));
        }
        double sum = 0;
        for (Future<Double> rate : rates) {
            sum += rate.get();
        }
        return sum;
    }

    private long now() {
        return cpu ? ThreadClock.nanos() : System.nanoTime();
    }

    /** What one thread has. */
    private final class Worker {
        private final MemoryRegion region;
        private final CompletionQueue queue;
        private final QueuePair pair;
        private final BufferList buffers;
        private final Completions completions = new Completions(1);

        @SuppressWarnings("MustBeClosed") // closed by close
        Worker(Adapter adapter, ProtectionDomain domain, Arena arena) {
            region = domain.register(arena.allocate(4096, 64), Access.LOCAL_WRITE);
            queue = adapter.createConfinedCompletionQueue(16);
            pair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(16, 1));
            pair.connect(pair.address());
            buffers = new BufferList(1).add(region, 0, BYTES);
        }

        double rate(CyclicBarrier start) throws InterruptedException, BrokenBarrierException {
            start.await();
            long sum = 0;
            long times = 0;
            long from = now();
            long to;
            do {
                for (int i = 0; i < BATCH; i++) {
                    sum += postAndPoll();
                }
                times += BATCH;
                to = now();
            } while (to - from < roundNanos);
            if (sum != 7 * times) {
                throw new IllegalStateException("%d of %d".formatted(sum, 7 * times));
            }
            return (double) times / (to - from);
        }

        private long postAndPoll() {
            if (pair.send(7, buffers, OpFlags.NONE).status() != Status.SUCCESS
                    || queue.poll(completions) != 1
                    || completions.status(0) != Status.SUCCESS) {
                throw new IllegalStateException(pair + ": not sent");
            }
            return completions.context(0);
        }

        void close() {
            pair.close();
            queue.close();
            region.close();
        }
    }
}
