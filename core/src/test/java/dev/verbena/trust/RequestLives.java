package dev.verbena.trust;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongFunction;

/**
 * Accounts for a number of requests: {@linkplain RequestLife lives}, two at a time, until they have
 * posted that many. Needs no JUnit, as it also runs in processes of its own.
 */
final class RequestLives {
    /** What is counted once, after all lives. */
    @FunctionalInterface
    interface Remains {
        /** Complains about what is left. Returns how much that is. */
        int count(Consumer<String> complain) throws Exception;
    }

    private static final int AT_ONCE = 2;
    private static final int MOST_COMPLAINTS = 20;

    private final AtomicLong posted = new AtomicLong();
    private final AtomicLong faults = new AtomicLong();
    private final AtomicLong lives = new AtomicLong();
    private final AtomicLong longestWait = new AtomicLong();
    private final AtomicLong losses = new AtomicLong();
    private final AtomicLong leaks = new AtomicLong();
    private final List<String> wrong = Collections.synchronizedList(new ArrayList<>());
    private final String where;
    private final LongFunction<Place> places;
    private final int requestsOfASide;
    private final Remains remains;

    /** The place of each life is made from its seed. */
    RequestLives(String where, int requestsOfASide, LongFunction<Place> places, Remains remains) {
        this.where = where;
        this.requestsOfASide = requestsOfASide;
        this.places = places;
        this.remains = remains;
    }

    /** Runs it. Returns what went wrong: nothing, unless there is a bug. */
    List<String> run(long requests) throws Exception {
        long seed = Trust.seed();
        System.out.printf("Requests, %s: %,d, seed %d%n", where, requests, seed);
        Trust.Row row = Trust.row("requests, " + where).seed(seed);
        List<Future<?>> running = new ArrayList<>();
        try (ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE)) {
            for (int i = 0; i < AT_ONCE; i++) {
                running.add(
                        threads.submit(
                                () -> {
                                    while (posted.get() < requests && wrong.isEmpty()) {
                                        live(seed + lives.getAndIncrement());
                                    }
                                    return null;
                                }));
            }
        }
        for (Future<?> one : running) {
            one.get();
        }
        leaks.addAndGet(remains.count(wrong::add));
        row.requests(posted.get())
                .faults(faults.get())
                .losses(losses.get())
                .leaks(leaks.get())
                .longestWait(Duration.ofNanos(longestWait.get()))
                .write();
        return wrong;
    }

    private void live(long seed) {
        RequestLife life = new RequestLife(places.apply(seed), seed, requestsOfASide);
        try {
            life.run();
        } catch (Exception | Error thrown) {
            life.complain("it ended with " + thrown);
        }
        posted.addAndGet(life.requests());
        faults.addAndGet(life.faults());
        leaks.addAndGet(life.leaks());
        losses.addAndGet(life.wrong().size() - (life.leaks() > 0 ? 1 : 0)); // one is of the leaks
        longestWait.accumulateAndGet(life.longestWait(), Math::max);
        life.wrong().stream()
                .limit(MOST_COMPLAINTS)
                .forEach(
                        what ->
                                wrong.add(
                                        what
                                                + " (again: -Dverbena.trust.seed=%d)"
                                                        .formatted(seed)));
    }
}
