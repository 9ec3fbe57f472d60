package dev.verbena.messaging;

import static dev.verbena.messaging.PollerClock.TICK_NANOSECONDS;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Adapter;
import dev.verbena.CompletionChannel;
import dev.verbena.ProtectionDomain;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * One thread that polls for many {@link MessageChannel}s: it takes completions, and calls the
 * handlers and callbacks of the channels that they belong to.
 *
 * <p><b>Its own thread</b> ({@link #start}): channels may be used from any thread. <b>The caller's
 * thread</b> ({@link #onThisThread}): channels, their messages and the poller belong to the thread
 * that made it, which calls {@link #poll} or {@link #await} again and again. Such channels take no
 * lock of the queues below, and a call by another thread throws {@link WrongThreadException}.
 *
 * <p>Handlers and callbacks run on the polling thread and must not block: a round that takes longer
 * than {@link #SLOW} is counted ({@link #counters}; event {@code dev.verbena.SlowRound} of the
 * Flight Recorder), and nothing is lost meanwhile, as peers wait for credit.
 */
public final class Poller implements Pollers {
    /**
     * A round of handlers and callbacks that takes longer is counted as slow. If the kernel's clock
     * ticks seldom, one that takes up to 20 ms longer may not be counted.
     */
    public static final Duration SLOW = Duration.ofMillis(10);

    private static final Duration TICK = Duration.ofNanos(TICK_NANOSECONDS);
    private static final long SLOW_NANOSECONDS = SLOW.toNanos();
    private static final Duration SHORT = Duration.ofMillis(10);
    private static final int CLOSING_ROUNDS = 8; // at most: a task may add itself

    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(10);
    private static final Duration CONNECTION_CLOSE_WITHIN = Duration.ofSeconds(30);
    private static final Duration CENTURIES = Duration.ofNanos(Long.MAX_VALUE);

    /** The thread of a poller: what it runs must not wait, for this poller or another. */
    private static final class PollingThread extends Thread {
        PollingThread(Runnable polls, Adapter adapter) {
            super(polls, "verbena-poller-" + adapter.name());
            setDaemon(true);
        }
    }

    private final Adapter adapter;
    private final ProtectionDomain domain;
    private final @Nullable ProtectionDomain ownDomain; // to be closed
    private final CompletionChannel events;
    private final IdleStrategy idle;
    private final boolean confined;
    final ConnectionLock lock = new ConnectionLock(this); // of its connections, if it is confined
    final Thread thread; // that polls
    final Tasks tasks = new Tasks(Uncaught::report);
    private final Tasks.Task wakeUp = new Tasks.Task(() -> {}, false);
    private final PollerQueues queues;
    private final PollerConnections connections = new PollerConnections();
    private final PollerMemory memory;

    private volatile boolean sleeping;
    private volatile boolean closing;
    private volatile boolean closed;
    private volatile boolean finished; // nobody polls any more
    private final AtomicLong slowRounds = new AtomicLong();
    final PollerClock clock;

    // Of the polling thread.
    private boolean dispatching;
    private boolean idling; // since this time
    private long idleSince;
    private boolean ranTasks; // in the last round
    private boolean failedToPoll; // in the last round

    Poller(Adapter adapter, IdleStrategy idle, @Nullable Thread owner, PollerClock clock) {
        this(adapter, null, idle, owner, clock);
    }

    Poller(
            Adapter adapter,
            @Nullable ProtectionDomain shared,
            IdleStrategy idle,
            @Nullable Thread owner,
            PollerClock clock) {
        if (owner instanceof PollingThread) { // it could never be polled, nor closed
            throw new IllegalStateException(
                    "%s polls for another poller: create this one on another thread, or with Poller.start"
                            .formatted(owner));
        }
        this.adapter = Arguments.notNull(adapter, "adapter");
        this.idle = Arguments.notNull(idle, "idle");
        this.clock = clock;
        this.confined = owner != null;
        this.domain = shared != null ? shared : adapter.createProtectionDomain();
        this.ownDomain = shared != null ? null : domain;
        this.memory = new PollerMemory(this, domain, confined);
        CompletionChannel made = null;
        try {
            made = adapter.createCompletionChannel();
            this.events = made;
            this.queues = new PollerQueues(adapter, made, confined);
            this.thread = owner != null ? owner : new PollingThread(this::run, adapter);
            if (owner == null) {
                thread.start();
            }
        } catch (Throwable t) {
            if (made != null) {
                made.close();
            }
            if (ownDomain != null) {
                ownDomain.close();
            }
            throw t;
        }
    }

    /**
     * Starts a poller with a thread of its own.
     *
     * @param adapter the device
     * @param idle what the thread does while there is nothing to poll
     * @return the poller, to be closed by the caller
     */
    @CheckReturnValue
    public static Poller start(Adapter adapter, IdleStrategy idle) {
        return new Poller(adapter, idle, null, new PollerClock());
    }

    /**
     * Makes a poller for the current thread, whose queues are confined to it.
     *
     * @param adapter the device
     * @param idle what {@link #await} does while there is nothing to poll
     * @return the poller, to be closed by this thread
     * @throws IllegalStateException on the thread of a poller that has its own, as in a handler
     */
    @CheckReturnValue
    public static Poller onThisThread(Adapter adapter, IdleStrategy idle) {
        return new Poller(adapter, idle, Thread.currentThread(), new PollerClock());
    }

    /**
     * Makes a poller for the current thread, as {@link #onThisThread(Adapter, IdleStrategy)} does,
     * whose channels use a domain of the caller's: memory that is registered once can be sent from
     * by the channels of all pollers of the domain.
     *
     * @param domain closed by the caller, after the poller
     * @param idle what {@link #await} does while there is nothing to poll
     * @return the poller, to be closed by this thread
     * @throws IllegalStateException on the thread of a poller that has its own, as in a handler
     */
    @CheckReturnValue
    public static Poller onThisThread(ProtectionDomain domain, IdleStrategy idle) {
        return new Poller(
                Arguments.notNull(domain, "domain").adapter(),
                domain,
                idle,
                Thread.currentThread(),
                new PollerClock());
    }

    // ---- polling

    private void run() {
        try {
            while (!closed) {
                try {
                    if (round() == 0 && !closed) {
                        rest(TICK_NANOSECONDS);
                    }
                } catch (Throwable t) {
                    failedToPoll = true;
                    Uncaught.report(t);
                }
                if (failedToPoll) { // out of memory, most likely: it may be there soon
                    Uncaught.pause(TICK_NANOSECONDS);
                }
            }
        } finally {
            finish();
        }
    }

    /**
     * Takes what is there and calls handlers and callbacks. For a poller of {@link #onThisThread};
     * not from a handler or callback.
     *
     * @return how many completions there were
     */
    public int poll() {
        checkMayPoll();
        return round();
    }

    /**
     * Waits until a completion was dispatched, a task of {@link #execute} ran, or a channel ended.
     * The {@link IdleStrategy} decides how it waits. For a poller of {@link #onThisThread}; not
     * from a handler or callback.
     *
     * @param timeout how long at most
     * @return how many completions there were; 0 for a task, or when the time is over
     */
    public int await(Duration timeout) {
        checkMayPoll();
        int count = round();
        if (nothingToReturnFor(count)) { // most often there is something: then no look at the clock
            long left = TimeUnit.NANOSECONDS.convert(timeout);
            long deadline = clock.precise() + left;
            connections.mayAwait();
            while (nothingToReturnFor(count) && left > 0) {
                rest(Math.min(left, connections.longestSleep()));
                count = round();
                left = deadline - clock.precise();
            }
        }
        return count;
    }

    private boolean nothingToReturnFor(int count) {
        return count == 0 && !ranTasks && !closed;
    }

    /**
     * A wait for what only the polling thread brings, perhaps another's that waits, may never end.
     */
    void checkMayWait() {
        if (isDispatchingHere()) {
            throw new IllegalStateException(
                    "A handler or callback must not poll or wait, because it runs on the polling thread: use a try… or …Async method, or another thread");
        }
    }

    private void checkMayPoll() {
        checkMayWait();
        if (!confined) {
            throw new IllegalStateException(
                    "This poller has a thread of its own, which polls. To poll it yourself, create it with Poller.onThisThread");
        }
        if (thread != Thread.currentThread()) {
            throw new WrongThreadException(
                    "%s belongs to %s and was polled by %s"
                            .formatted(this, thread, Thread.currentThread()));
        }
    }

    /** Whether what belongs to it may be used by one thread only: until it is closed. */
    boolean isConfined() {
        return confined && !finished;
    }

    /** Whether what belongs to it may not be used by this thread. */
    boolean isForeign() {
        return thread != Thread.currentThread() && isConfined();
    }

    /** What belongs to a poller of {@link #onThisThread} belongs to its thread, until the close. */
    void checkThread() {
        if (isForeign()) {
            throw new WrongThreadException(
                    "%s, its channels and their messages belong to %s; this is %s"
                            .formatted(this, thread, Thread.currentThread()));
        }
    }

    /** Whether this is a handler or callback, of this poller or of any that has its own thread. */
    boolean isDispatchingHere() {
        return (dispatching && onPollingThread())
                || Thread.currentThread() instanceof PollingThread;
    }

    /** Whether a wait here would wait for itself; after the close, nobody polls. */
    boolean onPollingThread() {
        return thread == Thread.currentThread() && !finished;
    }

    /**
     * Waits until a future completes, normally or not; the polling thread polls meanwhile.
     *
     * @return false when the time is over
     */
    boolean awaitDone(CompletableFuture<?> future, Duration most) throws InterruptedException {
        long deadline = System.nanoTime() + Math.max(0, TimeUnit.NANOSECONDS.convert(most));
        while (!Thread.currentThread().isInterrupted() && polls(future, deadline)) {}
        try {
            Object ignored = future.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            return true;
        } catch (ExecutionException e) {
            return true;
        } catch (TimeoutException e) {
            return false;
        }
    }

    /**
     * On the polling thread, polls for a moment; false when the future is done, or time is over.
     */
    private boolean polls(CompletableFuture<?> future, long deadline) {
        if (!onPollingThread() || future.isDone() || deadline - System.nanoTime() <= 0) {
            return false;
        }
        int ignored = await(SHORT); // other threads may complete it
        return true;
    }

    /**
     * Waits for a close, which may begin late; not in a handler. An interrupt ends the wait, except
     * on the polling thread: nobody else polls.
     */
    void awaitClosed(Object what, CompletableFuture<Status> closed, Duration late) {
        if (isDispatchingHere()) {
            return;
        }
        Duration most =
                late.compareTo(CENTURIES) < 0 ? late.plus(CONNECTION_CLOSE_WITHIN) : CENTURIES;
        long deadline = System.nanoTime() + TimeUnit.NANOSECONDS.convert(most);
        while (polls(closed, deadline)) {}
        try {
            boolean inTime = onPollingThread() ? closed.isDone() : awaitDone(closed, most);
            if (!inTime) {
                throw new MessagingException(
                        Status.IO_TIMEOUT,
                        "%s did not close within %s".formatted(what, Text.time(most)));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Runs tasks, polls each queue once, and looks at deadlines if a tick is due. */
    private int round() {
        dispatching = true;
        try {
            failedToPoll = false;
            ranTasks = tasks.run();
            int count = pollAll();
            return count + tickIfDue(clock.now());
        } finally {
            dispatching = false;
        }
    }

    private int pollAll() {
        int count = 0;
        for (PollerQueue queue : queues.all()) {
            if (!queue.broken()) {
                count += poll(queue);
            }
        }
        return count;
    }

    private int poll(PollerQueue queue) {
        try {
            int count = queue.poll();
            if (count > 0) {
                idling = false;
                long began = clock.now();
                queue.dispatch(count);
                long took = clock.since(began);
                if (took > SLOW_NANOSECONDS) {
                    slowRounds.incrementAndGet();
                    SlowRound.record(adapter.name(), count, took);
                }
            }
            return count;
        } catch (VerbenaException e) {
            queue.broke();
            connections.fail(
                    connection -> connection.reportsTo(queue),
                    e.status(),
                    "its completion queue is broken",
                    e);
            return 1;
        } catch (Throwable t) { // the other queues go on
            failedToPoll = true;
            Uncaught.report(t);
            return 0;
        }
    }

    /**
     * Hands out what has come to a queue: no more than it may hold. A poll that is not full has
     * reached the end. Completions that arrive meanwhile wait, so that tasks are not held up. By
     * the polling thread.
     */
    int drain(PollerQueue queue) {
        int most = finished ? 0 : 2 * queue.queue().depth(); // of the native queue
        int total = 0;
        int count = PollerQueue.BATCH;
        while (count == PollerQueue.BATCH && total < most && !queue.broken()) {
            count = poll(queue);
            total += count;
        }
        return total;
    }

    /**
     * Looks at deadlines, at most every 100 ms. After a longer pause, what has come is dispatched
     * first: it may be what a deadline waits for.
     *
     * @return how many completions were dispatched
     */
    private int tickIfDue(long now) {
        if (!clock.isTickDue(now)) {
            return 0;
        }
        int count = 0;
        if (clock.isTickLate(now)) {
            for (PollerQueue queue : queues.all()) {
                count += drain(queue);
            }
        }
        clock.tick(now);
        memory.tick(clock.tick());
        tasks.runAgain();
        connections.tick(clock.tick(), now);
        return count;
    }

    /** There was nothing to poll: spins or sleeps. */
    private void rest(long most) {
        if (idle.alwaysSpins()) {
            Thread.onSpinWait();
            return;
        }
        if (!idle.sleepsAtOnce() && !idle.sleepsAfter(idleNanoseconds())) {
            Thread.onSpinWait();
            return;
        }
        if (queues.arm()) {
            return;
        }
        sleeping = true; // before the look at the tasks: execute() looks in the other order
        try {
            if (tasks.isEmpty() && !closed) {
                Duration limit = most == TICK_NANOSECONDS ? TICK : Duration.ofNanos(most);
                queues.fired(events.await(limit));
            }
        } catch (VerbenaException e) {
            // The device was removed: its queues say so when they are polled. The next wait would
            // end at once.
            LockSupport.parkNanos(Math.min(most, TICK_NANOSECONDS));
        } finally {
            sleeping = false;
            idling = false;
        }
    }

    /** How long there has been nothing to poll. */
    private long idleNanoseconds() {
        long now = clock.precise();
        if (!idling) {
            idling = true;
            idleSince = now;
        }
        return now - idleSince;
    }

    // ---- for channels

    @Override
    @CheckReturnValue
    public Adapter adapter() {
        return adapter;
    }

    @Override
    @CheckReturnValue
    public Poller next() {
        return this;
    }

    @Override
    @CheckReturnValue
    public List<Poller> all() {
        return List.of(this);
    }

    @Override
    @CheckReturnValue
    public ProtectionDomain domain() {
        return domain;
    }

    /**
     * Runs something on the polling thread, soon, between two rounds of handlers and callbacks.
     * From any thread. After the close it runs at once, on the caller's thread.
     *
     * @param task must not block; what it throws is logged, and given to the thread's handler of
     *     uncaught exceptions if the program has set one
     */
    public void execute(Runnable task) {
        Arguments.notNull(task, "task");
        execute(new Tasks.Task(task, false));
    }

    /** Ends an {@link #await} of the polling thread, or the next one. From any thread. */
    public void wakeUp() {
        execute(wakeUp);
    }

    /** Runs a task that was created ahead: needs no memory. */
    void execute(Tasks.Task task) {
        tasks.add(task);
        if (finished) {
            boolean ignored = tasks.run(); // what a channel left to do that came too late
        } else if (sleeping) {
            events.wakeUp();
        }
    }

    boolean isClosing() {
        return closing;
    }

    PollerConnections connections() {
        return connections;
    }

    /** The memory that its message channels share. */
    PollerMemory memory() {
        return memory;
    }

    /** A completion queue with room for a channel. */
    PollerQueue reserve(int completions) {
        checkThread(); // a new queue belongs to the thread that makes it
        int before = queues.all().length;
        PollerQueue reserved = queues.reserve(completions);
        if (!confined && queues.all().length != before) {
            wakeUp(); // a thread that sleeps has not armed the new one
        }
        return reserved;
    }

    void release(PollerQueue queue, int completions) {
        queues.release(queue, completions);
    }

    // ---- what it says

    @Override
    @CheckReturnValue
    public PollerCounters counters() {
        return queues.counters(connections.open(), slowRounds.get());
    }

    /**
     * Closes all its channels, without waiting for what they have outstanding, and the poller. Not
     * from a handler or callback. A thread that is interrupted does not wait, and stays so; the
     * close goes on.
     *
     * @throws MessagingException IO_TIMEOUT when a handler does not return within 10 s
     * @throws IllegalStateException in a handler or callback
     * @throws WrongThreadException on another thread than that of {@link #onThisThread}
     */
    @Override
    public void close() {
        if (confined) {
            if (!closed) {
                checkMayPoll();
                closing = true;
                connections.close();
                for (int i = 0; i == 0 || i < CLOSING_ROUNDS && !tasks.isEmpty(); i++) {
                    int ignored = round(); // frees them, and what their tasks add
                }
                closed = true;
                finish();
            }
            return;
        }
        checkMayWait();
        closing = true;
        execute(
                new Tasks.Task(
                        () -> {
                            connections.close();
                            execute(() -> closed = true); // after the channels were torn down
                        },
                        true));
        try {
            if (!thread.join(CLOSE_WITHIN)) {
                throw new MessagingException(
                        Status.IO_TIMEOUT,
                        "%s is still busy after %s: a handler does not return"
                                .formatted(this, Text.time(CLOSE_WITHIN)));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void finish() {
        try (var _ = ownDomain;
                events;
                queues;
                memory) {
            closing = true; // closes all four, even if one of them throws
        } finally {
            finished = true;
            tasks.runAgain();
            boolean ignored = tasks.run(); // from now on, execute() does that
        }
    }

    @Override
    public String toString() {
        return "Poller of %s, %s%s".formatted(adapter.name(), idle, closed ? ", closed" : "");
    }
}
