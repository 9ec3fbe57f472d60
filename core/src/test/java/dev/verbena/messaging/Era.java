package dev.verbena.messaging;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * Some connections between two pollers with random options, from their start to their end. What it
 * does follows from its seed; how threads take turns is the machine's.
 */
abstract class Era {
    static final long LIMIT = TimeUnit.SECONDS.toNanos(60); // what takes longer never ends

    final MessageLedger.Place place;
    final long seed;
    final Random random;
    final AtomicInteger faults = new AtomicInteger();
    final Queue<Flow> flows = new ConcurrentLinkedQueue<>(); // two for each connection
    Poller near;
    Poller far;
    Slots here;
    Slots there;
    int arrived;
    private final ExecutorService later =
            Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().factory());
    private final List<String> wrong = new CopyOnWriteArrayList<>();
    private int leaks;

    Era(MessageLedger.Place place, long seed) {
        this.place = place;
        this.seed = seed;
        this.random = new Random(seed);
    }

    /** Connects, sends, and looks through everything when all connections have ended. */
    abstract void course() throws Exception;

    /** How many bytes of registered memory each side has at most. */
    abstract long memory();

    // ---- its figures

    abstract int exposures();

    final List<String> wrong() {
        return wrong;
    }

    int sent() {
        return flows.stream().mapToInt(Flow::sent).sum();
    }

    long bytes() {
        return flows.stream().mapToLong(Flow::bytes).sum();
    }

    final int arrived() {
        return arrived;
    }

    int channels() {
        return flows.size() / 2;
    }

    final int faults() {
        return faults.get();
    }

    final int leaks() {
        return leaks;
    }

    // ---- for its course

    final void complain(String what) {
        wrong.add(what);
    }

    final int pick(int... of) {
        return of[random.nextInt(of.length)];
    }

    /** The messages of one direction of a connection. */
    final Flow flow(String name, long key) {
        Flow flow = new Flow(name, key, this::complain);
        flows.add(flow);
        return flow;
    }

    final void await(String what, BooleanSupplier fact) {
        long start = System.nanoTime();
        while (!fact.getAsBoolean()) {
            if (System.nanoTime() - start > LIMIT) {
                complain("these never end: " + what);
                return;
            }
            LockSupport.parkNanos(200_000);
        }
    }

    static Status statusOf(@Nullable Throwable thrown) {
        Throwable cause = thrown instanceof CompletionException e ? e.getCause() : thrown;
        return cause == null
                ? Status.SUCCESS
                : cause instanceof MessagingException e ? e.status() : Status.INTERNAL_ERROR;
    }

    /**
     * Whether an end of a connection may not have been given all that had reached it: if this side
     * ended it, if it failed by itself, or if one end was told that the connection is over while
     * the other one went on sending. What became of other connections is no excuse.
     */
    final boolean mayLose(boolean endedItself, PolledConnection<?> end) {
        MessagingException reason = end.closeReason();
        return endedItself
                || (reason != null
                        && reason.status() != Status.CONNECTION_INVALID
                        && reason.status() != Status.CONNECTION_ABORTED)
                || place.hasCut(end.pair);
    }

    /** Complains about ends of a connection that have failed by themselves, if none may here. */
    final void checkEnds(boolean endedByASide, PolledConnection<?>... ends) {
        for (PolledConnection<?> end : ends) {
            MessagingException reason = end.closeReason();
            if (reason != null && !endedByASide && !place.mayEndWith(reason.status())) {
                complain("%s failed, and neither side had ended it: %s".formatted(end, reason));
            }
        }
    }

    /** Has another thread do something, in order. */
    final void later(Runnable what) {
        later.execute(
                () -> {
                    try {
                        what.run();
                    } catch (Throwable thrown) {
                        thrown.printStackTrace(System.out);
                        complain("what was left for later ended with " + thrown);
                    }
                });
    }

    /** Waits until all of that is done; no more may come. */
    final void awaitLater() {
        later.close();
    }

    /** Starts a client that reconnects at once. */
    final MessageClient startClient(
            MessageServer server,
            MessagingOptions options,
            @Nullable MessageHandler handler,
            Consumer<MessageChannel> opened) {
        ReconnectOptions quick =
                ReconnectOptions.DEFAULTS.withPauses(Duration.ofMillis(1), Duration.ofMillis(4));
        return MessageClient.start(near, server.localAddress(), options, quick, handler, opened);
    }

    /** Runs clients on threads of their own, each with random choices of its own, to their end. */
    final void runAll(List<Consumer<Random>> clients) throws InterruptedException {
        List<Thread> running = new ArrayList<>();
        for (Consumer<Random> client : clients) {
            Random own = new Random(random.nextLong());
            running.add(Thread.startVirtualThread(() -> client.accept(own)));
        }
        for (Thread one : running) {
            one.join();
        }
    }

    /** From its start to its end; then nothing is left. */
    final void run() throws Exception {
        try (place) {
            near = Poller.start(place.here, IdleStrategy.events());
            far = Poller.start(place.there, IdleStrategy.events());
            here = new Slots(near.domain(), memory());
            there = new Slots(far.domain(), memory());
            course();
            leaks = here.taken() + there.taken() + takenOf(near) + takenOf(far);
            if (leaks > 0) {
                complain(
                        "%d and %d slots, %d and %d bytes or frames of pollers are left"
                                .formatted(
                                        here.taken(), there.taken(), takenOf(near), takenOf(far)));
            }
            here.close();
            there.close();
            near.close();
            far.close();
        }
        leaks += place.leaks(this::complain);
    }

    /** What a poller's channels have not given back, though all have ended: bytes and frames. */
    private static int takenOf(Poller poller) throws ReflectiveOperationException {
        int taken = 0;
        LargeMemory large = poller.memory().large();
        synchronized (large) {
            taken += Math.toIntExact((long) get(large, "taken"));
        }
        for (Object one : (List<?>) get(poller.memory(), "frames")) {
            synchronized (one) {
                int buffers = (int) get(one, "slab") * ((List<?>) get(one, "regions")).size();
                taken += buffers - (int) get(one, "freeCount");
            }
        }
        return taken;
    }

    private static Object get(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
