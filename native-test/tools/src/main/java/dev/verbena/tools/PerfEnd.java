package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.AdapterInfo;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;

/**
 * One side of what is measured: queue pairs on one completion queue, with their memory, and how to
 * wait. For one thread; only {@link #peerLeft(Status)} comes from another.
 *
 * <p>Each queue pair has an area that its data leave from, one where data arrive, and one for
 * credit: the number of messages that were taken, or tokens.
 */
final class PerfEnd implements AutoCloseable {
    /** In a context: a receive of the queue pair whose number is in the lower half. */
    static final long RECEIVED = 1L << 32;

    /**
     * Small messages leave from, and go to, one place after the other in so many bytes, as
     * perftest's do: all of them in one line of the cache would wait for each other.
     */
    private static final int CYCLE = 4096;

    private static final int LINE = 64;
    private static final int MOST_SLOTS = CYCLE / LINE;
    private static final int SPARE = 8; // requests beside those that are measured
    private static final int BATCH = 32;

    /** How many looks in vain until the clock is looked at. */
    private static final int LOOKS = 1 << 12;

    /**
     * How many looks in vain until others may have the processor: the peer, if it is on this
     * machine, and with Soft-RoCE the kernel's threads, which do what is waited for here. On one
     * processor they need it at once: without that, 64 bytes take as long as the scheduler's slices
     * are, 4 ms. Where there are more it is some microseconds in a long wait, and none in a
     * ping-pong over hardware.
     */
    private static final int LOOKS_BEFORE_OTHERS =
            Runtime.getRuntime().availableProcessors() == 1 ? 1 : 1 << 8;

    private final PerfPlan plan;
    private final String peer;
    private final Deque<AutoCloseable> made = new ArrayDeque<>();
    private final ProtectionDomain domain;
    private final Duration timeout;

    final CompletionQueue queue;
    final QueuePair[] queuePairs;
    final Completions completions = new Completions(BATCH);
    final MemoryRegion memory;
    final int receives; // of each queue pair
    private final long area;
    private final long creditArea;
    private final BufferList[][] sources;
    private final BufferList[][] targets;
    private int slots = 1;
    private long stride;

    private final CompletableFuture<Status> left = new CompletableFuture<>();
    private boolean armed;
    private int looks;
    private long progress;
    private long since;

    /**
     * Makes one.
     *
     * @param server whether this is the server's side
     */
    PerfEnd(Adapter adapter, PerfPlan plan, PerfTerms terms, boolean server) {
        this.plan = plan;
        this.peer = server ? "client" : "server";
        this.timeout = plan.timeout();
        try {
            int requests = requests(plan, terms, server);
            receives = receives(plan, terms, server);
            checkLimits(adapter, plan, requests, receives, server);
            QueuePairLimits limits =
                    QueuePairLimits.depths(requests, receives)
                            .withInlineBytes(plan.inline())
                            .withReads(
                                    adapter.info().maxInboundReads(),
                                    adapter.info().maxOutboundReads())
                            .withMaxDeferred(
                                    Math.min(requests, Math.max(plan.chain(), terms.part() + 2)));
            domain = adapter.createProtectionDomain();
            made.push(domain::close);
            int all = plan.queuePairs() * (requests + receives);
            queue = adapter.createConfinedCompletionQueue(all);
            made.push(queue::close);
            int count = plan.queuePairs();
            area = (Math.max(terms.largest(), CYCLE) + CYCLE - 1L) / CYCLE * CYCLE;
            creditArea =
                    Math.max(
                            LINE,
                            (terms.windows() * (long) Integer.BYTES + LINE - 1) / LINE * LINE);
            memory =
                    domain.allocate(
                            count * (2 * area + creditArea),
                            Access.REMOTE_WRITE,
                            Access.REMOTE_READ);
            made.push(memory::close);
            queuePairs = new QueuePair[count];
            sources = new BufferList[count][MOST_SLOTS];
            targets = new BufferList[count][MOST_SLOTS];
            for (int q = 0; q < count; q++) {
                queuePairs[q] = domain.createQueuePair(queue, queue, limits);
                made.push(queuePairs[q]::close);
                for (int slot = 0; slot < MOST_SLOTS; slot++) {
                    sources[q][slot] = new BufferList(1);
                    targets[q][slot] = new BufferList(1);
                }
            }
            made.push(PerfStop.waking(() -> peerLeft(Status.SUCCESS)));
        } catch (Throwable t) {
            close();
            throw t;
        }
    }

    /**
     * Makes sure of a client's device, before the server is asked for anything.
     *
     * @throws ToolFailure when it cannot do what is planned
     */
    static void checkClient(Adapter adapter, PerfPlan plan) {
        PerfTerms likely =
                new PerfTerms(
                        plan.largest(),
                        PerfTerms.LATENCY_RECEIVES,
                        plan.operation() == PerfOperation.SEND_INV ? PerfTerms.PARTS : 0,
                        0);
        checkLimits(
                adapter, plan, requests(plan, likely, false), receives(plan, likely, false), false);
    }

    private static int requests(PerfPlan plan, PerfTerms terms, boolean server) {
        if (plan.latency()) {
            return SPARE;
        }
        int own = plan.sends(server) ? plan.depth() : 1;
        return own + (plan.takes(server) ? terms.windows() + 2 * SPARE : 0);
    }

    private static int receives(PerfPlan plan, PerfTerms terms, boolean server) {
        if (plan.takes(server) || (plan.latency() && plan.operation().takesReceives())) {
            return terms.receives();
        }
        return terms.windows() > 0 ? PerfTerms.PARTS : 1;
    }

    private static void checkLimits(
            Adapter adapter, PerfPlan plan, int requests, int receives, boolean server) {
        AdapterInfo info = adapter.info();
        String name = server ? "The server's " + adapter.name() : adapter.name();
        if (plan.inline() > info.maxInlineBytes()) {
            throw new ToolFailure(
                    "%s takes up to %d bytes inline, not %d (--inline)",
                    name, info.maxInlineBytes(), plan.inline());
        }
        if (requests > info.maxInitiatorDepth()) {
            throw new ToolFailure(
                    "%s takes up to %d outstanding requests on a queue pair, not %d (--depth)",
                    name, info.maxInitiatorDepth(), requests);
        }
        long completionsNeeded = (long) plan.queuePairs() * (requests + receives);
        if (completionsNeeded > info.maxCompletionQueueDepth()) {
            throw new ToolFailure(
                    "A completion queue of %s holds up to %s, but %s would need %,d:"
                            + " take a lower --depth or fewer --qps",
                    name,
                    Words.count(info.maxCompletionQueueDepth(), "completion"),
                    Words.count(plan.queuePairs(), "queue pair"),
                    completionsNeeded);
        }
        if (plan.operation() == PerfOperation.SEND_INV
                && !(info.sendsWithInvalidate() && info.invalidatableWindows())) {
            throw new ToolFailure(
                    "%s does not support memory windows that a message can invalidate, which send-inv needs",
                    name);
        }
    }

    /** A window over all that arrives at a queue pair, gone with this end. */
    MemoryWindow createWindow() {
        MemoryWindow window = domain.createMemoryWindow();
        // Before its queue pair goes.
        made.push(window::close);
        return window;
    }

    PostResult bind(int q, MemoryWindow window, OpFlags flags) {
        return queuePairs[q].bind(
                q, window, memory, targetAt(q), area, OpFlags.ALLOW_REMOTE_WRITE.and(flags));
    }

    // ---- where things are

    /** Where the first byte that leaves from here lies, in this side's memory and in the peer's. */
    long sourceAt(int q) {
        return 2L * q * area;
    }

    /** Where the first byte that arrives here lies, in this side's memory and in the peer's. */
    long targetAt(int q) {
        return (2L * q + 1) * area;
    }

    /** Where a queue pair's credit is, in the memory of either side. */
    long creditAt(int q) {
        return 2 * area * queuePairs.length + q * creditArea;
    }

    /** How far it is from one place to the next. */
    long stride() {
        return stride;
    }

    /** How many places there are, a power of two. */
    int slots() {
        return slots;
    }

    BufferList[] sources(int q) {
        return sources[q];
    }

    BufferList[] targets(int q) {
        return targets[q];
    }

    /** For a receive, which takes messages of any size. */
    BufferList wholeTarget(int q) {
        return new BufferList(1).add(memory, targetAt(q), area);
    }

    // ---- data

    /**
     * Makes ready for messages of a size.
     *
     * @param size how many bytes each has
     * @param seed of what leaves from here; what arrives is made zero
     */
    void prepare(int size, int seed) {
        stride = Math.max(LINE, Integer.highestOneBit(Math.max(1, size - 1)) * 2L);
        slots = plan.latency() || stride > CYCLE / 2 ? 1 : (int) (CYCLE / stride);
        if (slots == 1) {
            stride = 0;
        }
        byte[] data = PerfData.of(size, seed);
        for (int q = 0; q < queuePairs.length; q++) {
            memory.memory().asSlice(targetAt(q), area).fill((byte) 0);
            for (int slot = 0; slot < slots; slot++) {
                long at = slot * stride;
                MemorySegment.copy(
                        data, 0, memory.memory(), ValueLayout.JAVA_BYTE, sourceAt(q) + at, size);
                sources[q][slot].clear().add(memory, sourceAt(q) + at, size);
                targets[q][slot].clear().add(memory, targetAt(q) + at, size);
            }
        }
    }

    /**
     * Looks at what has arrived.
     *
     * @param from the first byte that is data; before it are tokens
     * @param to behind the last byte that is data
     * @param seed of what the peer sends
     * @param count how many messages, at least, came on each queue pair
     * @return where something is wrong, in a message, or -1
     */
    long mismatch(int from, int to, int seed, long count, boolean inOnePlace) {
        byte[] expected = PerfData.of(to, seed);
        int places = inOnePlace ? 1 : (int) Math.min(slots, count);
        for (int q = 0; q < queuePairs.length; q++) {
            for (int slot = 0; slot < places; slot++) {
                long at = targetAt(q) + slot * stride;
                long wrong = PerfData.mismatch(memory.memory(), at, from, to, expected);
                if (wrong >= 0) {
                    return wrong;
                }
            }
        }
        return -1;
    }

    // ---- how it ends

    /** From now on, the peer's leaving ends all waiting. */
    void watch(Connector connector) {
        connector.onDisconnect(this::peerLeft);
    }

    private void peerLeft(Status status) {
        left.complete(status);
        for (QueuePair queuePair : queuePairs) {
            try {
                queuePair.flush();
            } catch (IllegalStateException e) {
                return; // closed: this side has left, too, and nobody waits
            }
        }
    }

    /** Throws unless a post was accepted. */
    void posted(PostResult result) {
        if (!result.isAccepted()) {
            throw gone("A request was refused: " + result.reason());
        }
    }

    /** What a completion of the last poll failed of. */
    ToolFailure failed(int index) {
        return gone(
                "A %s failed: %s"
                        .formatted(completions.type(index), completions.status(index).toString()));
    }

    private ToolFailure gone(String otherwise) {
        return PerfControl.leftByPeer(left)
                ? new ToolFailure("The %s disconnected in the middle of a measurement", peer)
                : new ToolFailure("%s", otherwise);
    }

    // ---- waiting

    /**
     * For the caller's polling loop, each time it found nothing: yields the processor now and then,
     * and checks the timeout less often.
     *
     * @param ended how much has completed until now; the timeout starts anew when it grows
     * @throws ToolFailure when it has not grown within the timeout, or the peer left
     */
    void lookedInVain(long ended) {
        looks++;
        if ((looks & (LOOKS_BEFORE_OTHERS - 1)) == 0) {
            Thread.yield();
        }
        if ((looks & (LOOKS - 1)) == 0) {
            check(ended);
        }
    }

    private void check(long ended) {
        if (left.isDone()) {
            throw gone("The connection broke");
        }
        long now = System.nanoTime();
        if (ended != progress || since == 0) {
            progress = ended;
            since = now;
        } else if (now - since > timeout.toNanos()) {
            throw stuck();
        }
    }

    private ToolFailure stuck() {
        return new ToolFailure(
                "Nothing arrived from the %s for %d s (--timeout)", peer, plan.seconds());
    }

    /**
     * A poll was in vain, and the caller wants to sleep: arms the completion queue the first time,
     * so that the next poll is one after it, and sleeps the second time.
     */
    void sleepAfterNextPoll() {
        if (!armed) {
            queue.arm(NotifyType.ANY);
            armed = true;
            return;
        }
        if (queue.await(timeout) == Status.IO_TIMEOUT) {
            throw stuck();
        }
        armed = false;
    }

    /** Begins a new measurement, and with it the timeout. */
    void begin() {
        since = 0;
        progress = 0;
    }

    /** Closes what was made, the last first. */
    @Override
    public void close() {
        PerfControl.closeAll(made);
    }
}
