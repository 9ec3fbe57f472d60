package dev.verbena.trust;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePairLimits;
import dev.verbena.SharedReceiveQueue;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Some connections from their creation to their end, with random requests at both ends of each: one
 * or several queue pairs on one or two completion queues, which are confined to one thread or
 * polled beside the threads that post (platform or virtual ones); receives of their own or shared.
 * The seed decides all of that, and what each side does; how threads take turns is the machine's.
 */
final class RequestLife {
    /** What takes longer never ends. */
    static final long LIMIT = TimeUnit.SECONDS.toNanos(60);

    final Place place;
    private final Random random;
    private final int mostRequests;
    private final Queue<String> wrong = new ConcurrentLinkedQueue<>();
    private final List<Account> accounts = new ArrayList<>();
    private final List<Side> sides = new ArrayList<>();
    private final List<Connector> connectors = new ArrayList<>();
    private final List<CompletionQueue> queues = new ArrayList<>();
    private final List<AutoCloseable> memory = new ArrayList<>(); // and shared receives
    private final List<ProtectionDomain> domains = new ArrayList<>();
    private final AtomicInteger faults = new AtomicInteger();
    private final AtomicLong longestWait = new AtomicLong();
    private final AtomicBoolean over = new AtomicBoolean();
    private boolean confined;
    private int leaks;

    /** Prepares one whose sides post up to so many requests each. */
    RequestLife(Place place, long seed, int mostRequests) {
        this.place = place;
        this.random = new Random(seed);
        this.mostRequests = mostRequests;
    }

    // ---- what sides tell it

    void complain(String what) {
        wrong.add(what);
    }

    void fault() {
        faults.incrementAndGet();
    }

    void disturb(Random by) {
        if (place.disturb(by)) {
            fault();
        }
    }

    void waited(long nanos) {
        longestWait.accumulateAndGet(nanos, Math::max);
    }

    boolean confined() {
        return confined;
    }

    void pause() {
        LockSupport.parkNanos(place.pauseNanos());
    }

    int budget(Random by) {
        return 1 + by.nextInt(mostRequests);
    }

    // ---- its figures

    List<String> wrong() {
        return List.copyOf(wrong);
    }

    long requests() {
        return accounts.stream().mapToLong(Account::accepted).sum();
    }

    /** Everything that went wrong on purpose. */
    long faults() {
        return faults.get() + accounts.stream().mapToLong(a -> a.refused() + a.failed()).sum();
    }

    long longestWait() {
        return longestWait.get();
    }

    int leaks() {
        return leaks;
    }

    // ---- its course

    void run() throws Exception {
        confined = random.nextBoolean();
        boolean virtual = random.nextBoolean();
        create();
        if (confined) {
            runAlone();
        } else {
            runThreads(virtual ? Thread.ofVirtual() : Thread.ofPlatform());
        }
        connectors.forEach(Connector::close);
        for (Side side : sides) {
            side.pair.close();
        }
        queues.forEach(queue -> poll(queue, new Completions(16)));
        sides.forEach(Side::settle);
        for (AutoCloseable each : memory) {
            each.close();
        }
        queues.forEach(CompletionQueue::close);
        domains.forEach(ProtectionDomain::close);
        place.close();
        leaks = place.leaks(this::complain);
    }

    private void create() throws Exception {
        boolean managed = place.address() != null && random.nextBoolean();
        int connections = 1 + random.nextInt(3);
        int depth = List.of(1, 2, 3, 8, 16, 64).get(random.nextInt(6));
        int receiveDepth = List.of(1, 4, 16, 64).get(random.nextInt(4));
        boolean shares = random.nextInt(3) == 0;
        QueuePairLimits limits =
                QueuePairLimits.depths(depth, receiveDepth)
                        .withBuffers(2, 1)
                        .withInlineBytes(Slots.BYTES)
                        .withMaxDeferred(List.of(0, 3, 64).get(random.nextInt(3)));
        boolean oneAdapter = place.here == place.there;
        End here = new End(place.here, limits, connections, shares, null);
        End there =
                new End(
                        place.there,
                        limits,
                        connections,
                        shares,
                        oneAdapter && random.nextBoolean() ? here.queue : null);
        for (int i = 0; i < connections; i++) {
            Side a = here.side(limits);
            Side b = there.side(limits);
            if (managed) {
                connect(a, b);
            } else {
                a.pair.connect(b.pair.address());
                b.pair.connect(a.pair.address());
            }
            a.meet(b);
            b.meet(a);
        }
    }

    /** Connects two sides by the connection manager. */
    private void connect(Side a, Side b) throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        InetSocketAddress any = new InetSocketAddress(place.address(), 0);
        try (Listener listener = place.there.listen(any, 0, requests::add)) {
            Connector here = place.here.createConnector();
            CompletableFuture<Void> connecting =
                    here.connectAsync(a.pair, listener.localAddress(), ConnectionOptions.DEFAULTS);
            Connector there = requests.take();
            CompletableFuture<Void> accepting =
                    there.acceptAsync(b.pair, ConnectionOptions.DEFAULTS);
            connecting.get();
            here.completeConnect();
            accepting.get();
            a.connectedBy(here);
            b.connectedBy(there);
            connectors.add(here);
            connectors.add(there);
        }
    }

    private Account account(String name, boolean ordered) {
        Account account = new Account(accounts.size(), name, ordered, this::complain);
        accounts.add(account);
        return account;
    }

    /** What the sides at one end of the connections have in common. */
    private final class End {
        final ProtectionDomain domain;
        final CompletionQueue queue;
        private final Receives shared; // or null

        End(
                Adapter adapter,
                QueuePairLimits limits,
                int connections,
                boolean shares,
                CompletionQueue given) {
            int depth = limits.initiatorDepth() + 4 * limits.receiveDepth();
            domain = adapter.createProtectionDomain();
            domains.add(domain);
            if (given == null) {
                int most = 2 * connections * depth;
                queue =
                        confined
                                ? adapter.createConfinedCompletionQueue(most)
                                : adapter.createCompletionQueue(most);
                queues.add(queue);
            } else {
                queue = given;
            }
            if (shares) {
                int most = connections * limits.receiveDepth();
                SharedReceiveQueue receives = domain.createSharedReceiveQueue(most, 1, e -> {});
                MemoryRegion slots = allocate((long) most * Slots.BYTES);
                shared = new Receives(account("shared receives", false), receives, slots, most);
                shared.fill(null);
                memory.add(receives);
                memory.add(slots);
            } else {
                shared = null;
            }
        }

        private MemoryRegion allocate(long bytes) {
            return domain.allocate(bytes, Access.REMOTE_READ, Access.REMOTE_WRITE);
        }

        Side side(QueuePairLimits limits) {
            var pair =
                    shared == null
                            ? domain.createQueuePair(queue, queue, limits)
                            : domain.createQueuePair(queue, queue, shared.shared, limits);
            place.watch(pair);
            MemoryRegion region = allocate(Slots.bytes(limits.initiatorDepth()));
            memory.add(region);
            Receives receives = shared;
            if (receives == null) {
                MemoryRegion slots = allocate((long) limits.receiveDepth() * Slots.BYTES);
                memory.add(slots);
                receives =
                        new Receives(
                                account("receives of " + pair, true),
                                null,
                                slots,
                                limits.receiveDepth());
                receives.fill(pair);
            }
            Account sends = account("sends of " + pair, true);
            Side side =
                    new Side(RequestLife.this, pair, sends, receives, region, random.nextLong());
            sides.add(side);
            return side;
        }
    }

    /** One thread does everything. */
    private void runAlone() {
        Completions completions = new Completions(1 + random.nextInt(8));
        List<Side> active = new ArrayList<>(sides);
        while (!active.isEmpty()) {
            for (int i = random.nextInt(20); i > 0 && !active.isEmpty(); i--) {
                Side side = active.get(random.nextInt(active.size()));
                if (!side.goOn()) {
                    active.remove(side);
                }
            }
            queues.forEach(queue -> poll(queue, completions));
        }
        awaitEnds(() -> queues.forEach(queue -> poll(queue, completions)));
    }

    /** A thread for each side, and one for each completion queue. */
    private void runThreads(Thread.Builder builder) throws InterruptedException {
        List<Thread> pollers = new ArrayList<>();
        for (CompletionQueue queue : queues) {
            Completions completions = new Completions(1 + random.nextInt(8));
            pollers.add(
                    start(
                            builder,
                            () -> {
                                while (!over.get()) {
                                    if (poll(queue, completions) == 0) {
                                        pause();
                                    }
                                }
                            }));
        }
        List<Thread> posters = new ArrayList<>();
        for (Side side : sides) {
            posters.add(
                    start(
                            builder,
                            () -> {
                                while (side.goOn()) {
                                    continue;
                                }
                            }));
        }
        for (Thread poster : posters) {
            poster.join();
        }
        awaitEnds(this::pause);
        over.set(true);
        for (Thread poller : pollers) {
            poller.join();
        }
    }

    private Thread start(Thread.Builder builder, Runnable task) {
        return builder.start(
                () -> {
                    try {
                        task.run();
                    } catch (Throwable thrown) {
                        complain("a thread ended with " + thrown);
                    }
                });
    }

    /** Until each request that must complete has, or for a minute: then it never will. */
    private void awaitEnds(Runnable meanwhile) {
        long start = System.nanoTime();
        while (!sides.stream().allMatch(Side::settled) && System.nanoTime() - start < LIMIT) {
            meanwhile.run();
        }
        waited(System.nanoTime() - start);
    }

    /** Takes all completions that are there. Returns how many. */
    private int poll(CompletionQueue queue, Completions completions) {
        int all = 0;
        int count;
        do {
            count = queue.poll(completions);
            for (int i = 0; i < count; i++) {
                if (completions.attachment(i) instanceof Side side) {
                    side.completed(completions, i);
                } else {
                    complain("a completion of nobody: " + completions);
                }
            }
            all += count;
        } while (count > 0);
        sides.forEach(Side::polled);
        place.tidy();
        return all;
    }
}
