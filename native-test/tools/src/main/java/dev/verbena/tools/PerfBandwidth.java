package dev.verbena.tools;

import dev.verbena.BufferList;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.Status;

import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The loops that measure bandwidth, of either side: as many outstanding requests as are allowed.
 * For one thread.
 */
final class PerfBandwidth extends PerfQueueLoops {
    /** With more requests than that the clock is not read in the loop, as perftest has it. */
    static final int MOST_TIMED = 20_000;

    /** Signals as perftest asks for them: of larger messages, for each. */
    private static final int LARGE = 8192;

    private static final int USUAL_SIGNALS = 100;

    private static final VarHandle CREDIT = ValueLayout.JAVA_LONG.varHandle();

    private static final ValueLayout.OfInt TOKEN =
            ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final PerfTerms terms;
    private final PerfOperation operation;
    private final QueuePair[] queuePairs;
    private final int signalEveryWanted; // 0 for as perftest does
    private final int depth;
    private final int chain;

    // Since the connection was made, by queue pair: what was posted, what arrived, and the tokens
    // that the receiver sent.
    private final long[] ever;
    private final long[] arrived;
    private final int[][] tokens;
    private final long[] tokensReceived;
    private final long[] tokenMessages; // that brought them
    private final MemoryWindow[][] windows;
    private final BufferList[][] credits;
    private final BufferList[] inboxes;
    private boolean handedOut;

    // Of this round.
    private int iterations;
    private int width; // how many requests may be outstanding
    private int signalEvery;
    private OpFlags inline = OpFlags.NONE; // what each request has
    private long remoteAddress;
    private int remoteToken;
    private final int[] posted;
    private final int[] completed;
    private long completedInAll;
    private long arrivedInAll;
    private boolean timed;
    private long[] postedAt = new long[0];
    private int[] postedBefore = new int[0];
    private int posts;
    private long[] completedAt = new long[0];
    private int[] completedBy = new int[0];
    private int signals;
    private int postedInAll;

    /**
     * Makes the loops of one side.
     *
     * @param signalEvery each how-many-th request asks for a completion, or 0 to do as perftest
     */
    PerfBandwidth(PerfPlan plan, PerfTerms terms, PerfEnd end, boolean server, int signalEvery) {
        super(plan, end);
        this.terms = terms;
        this.operation = plan.operation();
        this.queuePairs = end.queuePairs;
        this.signalEveryWanted = signalEvery;
        this.depth = plan.depth();
        this.chain = plan.chain();
        int count = queuePairs.length;
        ever = new long[count];
        arrived = new long[count];
        posted = new int[count];
        completed = new int[count];
        tokens = new int[count][terms.windows()];
        tokensReceived = new long[count];
        tokenMessages = new long[count];
        inboxes = new BufferList[count];
        credits = new BufferList[count][];
        windows = new MemoryWindow[count][];
        for (int q = 0; q < count; q++) {
            inboxes[q] = end.wholeTarget(q);
            credits[q] = creditsOf(q);
            if (server && operation.takesReceives()) {
                windows[q] = new MemoryWindow[terms.windows()];
                for (int i = 0; i < terms.windows(); i++) {
                    windows[q][i] = end.createWindow();
                }
                for (int i = 0; i < end.receives; i++) {
                    end.posted(queuePairs[q].receive(PerfEnd.RECEIVED | q, inboxes[q]));
                }
            } else if (operation == PerfOperation.SEND_INV) {
                for (BufferList credit : credits[q]) {
                    end.posted(queuePairs[q].receive(PerfEnd.RECEIVED | q, credit));
                }
            }
        }
    }

    /** Of send, one number that the receiver writes; of send-inv, messages with tokens. */
    private BufferList[] creditsOf(int q) {
        if (operation != PerfOperation.SEND_INV) {
            return new BufferList[] {
                new BufferList(1).add(end.memory, end.creditAt(q), Long.BYTES)
            };
        }
        BufferList[] all = new BufferList[PerfTerms.PARTS];
        long bytes = (long) terms.part() * Integer.BYTES;
        for (int i = 0; i < all.length; i++) {
            all[i] = new BufferList(1).add(end.memory, end.creditAt(q) + i * bytes, bytes);
        }
        return all;
    }

    @Override
    public int firstWindow() {
        return 0; // all go out in messages
    }

    @Override
    public void begin(
            int size, int count, long address, int token, int firstWindow, int outstanding) {
        end.begin();
        remoteAddress = address;
        remoteToken = token;
        inline =
                operation != PerfOperation.READ && size <= plan.inline()
                        ? OpFlags.INLINE
                        : OpFlags.NONE;
        int requests = outstanding * chain;
        width = outstanding == AS_PLANNED ? depth : Math.min(requests, depth);
        int most = width - chain + 1; // or a chain might wait for room, and no signal bring it
        int usual = chain > 1 ? chain : size <= LARGE ? USUAL_SIGNALS : 1;
        int wanted = signalEveryWanted > 0 ? signalEveryWanted : usual;
        signalEvery = Math.min(outstanding == AS_PLANNED ? wanted : requests, most);
        Arrays.fill(posted, 0);
        Arrays.fill(completed, 0);
        completedInAll = 0;
        arrivedInAll = 0;
        postedInAll = 0;
        posts = 0;
        signals = 0;
    }

    // ---- the client's

    @Override
    public PerfResult measure(int size, int count, PerfProgress progress) {
        iterations = count;
        long all = (long) count * queuePairs.length;
        timed = all <= MOST_TIMED;
        if (timed && postedAt.length < all) {
            postedAt = new long[(int) all];
            postedBefore = new int[(int) all];
            completedAt = new long[(int) all];
            completedBy = new int[(int) all];
        }
        long start = System.nanoTime();
        while (completedInAll < all) {
            for (int q = 0; q < queuePairs.length; q++) {
                if (posted[q] < count) {
                    fill(q);
                }
            }
            collect();
            progress.reached(completedInAll);
        }
        long stop = System.nanoTime();
        double peak =
                timed
                        ? PerfPeak.of(
                                postedAt, postedBefore, posts, completedAt, completedBy, signals)
                        : 0;
        return PerfResult.ofBandwidth(size, all, stop - start, peak);
    }

    /** Posts what there is room for. */
    private void fill(int q) {
        QueuePair queuePair = queuePairs[q];
        BufferList[] sources = operation == PerfOperation.READ ? end.targets(q) : end.sources(q);
        long remote =
                remoteAddress
                        + (operation == PerfOperation.READ ? end.sourceAt(q) : end.targetAt(q));
        int mask = end.slots() - 1;
        long stride = end.stride();
        int done = posted[q];
        int limit = Math.min(iterations, completed[q] + width);
        if (operation == PerfOperation.SEND) {
            limit = (int) Math.min(limit, done + credit(q) - ever[q]);
        } else if (operation == PerfOperation.SEND_INV) {
            limit = (int) Math.min(limit, done + tokensReceived[q] - ever[q]);
        }
        while (done < limit) {
            int next = Math.min(done + chain, iterations);
            if (next > limit) {
                break;
            }
            if (timed) {
                postedAt[posts] = System.nanoTime();
                postedBefore[posts++] = postedInAll;
            }
            postedInAll += next - done;
            for (; done < next; done++) {
                boolean signaled = (done + 1) % signalEvery == 0 || done + 1 == iterations;
                OpFlags flags =
                        inline.and(signaled ? OpFlags.NONE : OpFlags.SILENT_SUCCESS)
                                .and(done + 1 < next ? OpFlags.DEFER : OpFlags.NONE);
                int slot = done & mask;
                Status status =
                        switch (operation) {
                            case SEND -> queuePair.send(q, sources[slot], flags);
                            case WRITE ->
                                    queuePair.write(
                                            q,
                                            sources[slot],
                                            remote + slot * stride,
                                            remoteToken,
                                            flags);
                            case READ ->
                                    queuePair.read(
                                            q,
                                            sources[slot],
                                            remote + slot * stride,
                                            remoteToken,
                                            flags);
                            case SEND_INV ->
                                    queuePair.sendAndInvalidate(
                                            q, sources[slot], nextToken(q), flags);
                            case CHANNEL -> throw new AssertionError("PerfChannels has these");
                        };
                if (status != Status.SUCCESS) {
                    end.posted(status);
                }
                ever[q]++;
            }
        }
        posted[q] = done;
    }

    /** How many messages, since the connection was made, the receiver has room for. */
    private long credit(int q) {
        return terms.receives() + (long) CREDIT.getAcquire(memory, end.creditAt(q));
    }

    /**
     * Whether a signaled request is outstanding: the last ones before credit ran out may not be.
     *
     * @param posted requests, by queue pair
     * @param completed of them, as far as signals said
     * @param signalEvery each how-many-th is signaled
     * @param iterations the last of which is signaled, too
     */
    static boolean completionIsDue(int[] posted, int[] completed, int signalEvery, int iterations) {
        for (int q = 0; q < posted.length; q++) {
            int next = Math.min(completed[q] + signalEvery, iterations);
            if (posted[q] >= next && completed[q] < iterations) {
                return true;
            }
        }
        return false;
    }

    private int nextToken(int q) {
        int[] ring = tokens[q];
        return ring[(int) (ever[q] % ring.length)];
    }

    /** Looks once for what has ended. */
    private void collect() {
        int count = queue.poll(completions);
        if (count == 0) {
            // Sleep only when a completion is certain to come: credits are written into memory and
            // cause none.
            if (plan.events() && completionIsDue(posted, completed, signalEvery, iterations)) {
                end.sleepAfterNextPoll();
            } else {
                end.lookedInVain(completedInAll);
            }
            return;
        }
        long now = timed ? System.nanoTime() : 0;
        for (int i = 0; i < count; i++) {
            if (completions.status(i) != Status.SUCCESS) {
                throw end.failed(i);
            }
            long context = completions.context(i);
            if (context >= PerfEnd.RECEIVED) {
                takeTokens((int) context);
                continue;
            }
            int q = (int) context;
            int by = Math.min(signalEvery, iterations - completed[q]);
            completed[q] += by;
            completedInAll += by;
            if (timed) {
                completedAt[signals] = now;
                completedBy[signals++] = (int) completedInAll;
            }
        }
    }

    private void takeTokens(int q) {
        int part = (int) (tokenMessages[q]++ % PerfTerms.PARTS);
        int size = terms.part();
        long at = end.creditAt(q) + (long) part * size * Integer.BYTES;
        for (int i = 0; i < size; i++) {
            tokens[q][part * size + i] = memory.get(TOKEN, at + (long) i * Integer.BYTES);
        }
        tokensReceived[q] += size;
        end.posted(queuePairs[q].receive(PerfEnd.RECEIVED | q, credits[q][part]));
    }

    // ---- the server's

    @Override
    public void serve(int count) {
        if (!operation.takesReceives()) {
            return; // the device does it
        }
        if (operation == PerfOperation.SEND_INV && !handedOut) {
            handedOut = true;
            for (int q = 0; q < queuePairs.length; q++) {
                for (int part = 0; part < PerfTerms.PARTS; part++) {
                    handOut(q, part);
                }
            }
        }
        long all = (long) count * queuePairs.length;
        while (arrivedInAll < all) {
            take();
        }
    }

    /** Looks once for what has arrived. */
    private void take() {
        int count = queue.poll(completions);
        if (count == 0) {
            if (plan.events()) {
                end.sleepAfterNextPoll();
            } else {
                end.lookedInVain(arrivedInAll);
            }
            return;
        }
        int creditEvery =
                operation == PerfOperation.SEND
                        ? PerfTerms.creditEvery(terms.receives())
                        : terms.part();
        for (int i = 0; i < count; i++) {
            if (completions.status(i) != Status.SUCCESS) {
                throw end.failed(i);
            }
            int q = (int) completions.context(i);
            arrivedInAll++;
            long number = ++arrived[q];
            end.posted(queuePairs[q].receive(PerfEnd.RECEIVED | q, inboxes[q]));
            if (number % creditEvery == 0) {
                if (operation == PerfOperation.SEND) {
                    giveCredit(q, number);
                } else {
                    handOut(q, (int) ((number / creditEvery - 1) % PerfTerms.PARTS));
                }
            }
        }
    }

    /**
     * Writes the number of received messages into the sender's memory. A newer number may replace
     * it before the device has read it, which does no harm.
     */
    private void giveCredit(int q, long number) {
        CREDIT.setRelease(memory, end.creditAt(q), number);
        end.posted(
                queuePairs[q].write(
                        q,
                        credits[q][0],
                        remoteAddress + end.creditAt(q),
                        remoteToken,
                        OpFlags.SILENT_SUCCESS));
    }

    /** Binds a part of the windows and sends their tokens, in one chain. */
    private void handOut(int q, int part) {
        int size = terms.part();
        long at = end.creditAt(q) + (long) part * size * Integer.BYTES;
        for (int i = 0; i < size; i++) {
            MemoryWindow window = windows[q][part * size + i];
            end.posted(end.bind(q, window, OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER)));
            memory.set(TOKEN, at + (long) i * Integer.BYTES, window.remoteToken());
        }
        end.posted(queuePairs[q].send(q, credits[q][part], OpFlags.SILENT_SUCCESS));
    }

    // ---- both

    @Override
    public long mismatch(int size, int count, int seed, boolean server) {
        boolean arrivesHere = server != (operation == PerfOperation.READ);
        return arrivesHere ? end.mismatch(0, size, seed, count, operation.takesReceives()) : -1;
    }
}
