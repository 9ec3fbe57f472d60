package dev.verbena.tools;

import dev.verbena.BufferList;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.Status;

import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The loop that measures bandwidth, of either side: as many outstanding requests as are allowed.
 * The client sends, and the server as well if the plan is bidirectional. Where messages take
 * receives, the side that they arrive at returns credit for them: the number that it has taken, or
 * tokens. For one thread.
 *
 * <p>In a measurement that ends by time, the last request of each queue pair is an empty message,
 * where messages take receives: the other side cannot know their number.
 */
final class PerfBandwidth extends PerfQueueLoops {
    /** With more requests than that the clock is not read in the loop, as perftest has it. */
    static final int MOST_TIMED = 20_000;

    /** Signals as perftest asks for them: of larger messages, for each. */
    private static final int LARGE = 8192;

    private static final int USUAL_SIGNALS = 100;

    /** In a context: this side's credit to the queue pair whose number is in the lower half. */
    private static final long GRANTED = 1L << 33;

    /** In each queue pair, how many posts of credit may be outstanding: all of the tokens. */
    private static final int MOST_GRANTS = PerfTerms.PARTS;

    /** How often the loop passes between two looks at the clock, a power of two. */
    private static final int PASSES = 64;

    private static final VarHandle CREDIT = ValueLayout.JAVA_LONG.varHandle();

    private static final ValueLayout.OfInt TOKEN =
            ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final PerfTerms terms;
    private final PerfOperation operation;
    private final QueuePair[] queuePairs;
    private final int signalEveryWanted; // 0 for as perftest does
    private final int depth;
    private final int chain;
    private final boolean sends;
    private final boolean takes;
    private final int creditEvery;
    private final BufferList nothing = new BufferList(1);

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
    private final long[] handOuts; // of tokens
    private final int[] due; // how many grants of credit
    private final int[] grants; // that are outstanding
    private boolean handedOut;

    // Of this round.
    private boolean timed; // when each request was posted and completed
    private boolean byTime; // this round ends by time
    private long until; // the time at which it ends, as long as it has not
    private final long[] goal; // how many requests there will be
    private long goalInAll;
    private int width; // how many requests may be outstanding
    private int signalEvery;
    private OpFlags inline = OpFlags.NONE; // what each request has
    private long remoteAddress;
    private int remoteToken;
    private final long[] posted;
    private final long[] completed;
    private long completedInAll;
    private final long[] toArrive;
    private int streams; // queue pairs at which messages will arrive
    private long arrivedInAll;
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
        sends = plan.sends(server);
        takes = plan.takes(server);
        creditEvery =
                plan.operation() == PerfOperation.SEND
                        ? PerfTerms.creditEvery(terms.receives())
                        : terms.part();
        this.terms = terms;
        this.operation = plan.operation();
        this.queuePairs = end.queuePairs;
        this.signalEveryWanted = signalEvery;
        this.depth = plan.depth();
        this.chain = plan.chain();
        int count = queuePairs.length;
        ever = new long[count];
        arrived = new long[count];
        handOuts = new long[count];
        due = new int[count];
        grants = new int[count];
        goal = new long[count];
        posted = new long[count];
        completed = new long[count];
        toArrive = new long[count];
        tokens = new int[count][terms.windows()];
        tokensReceived = new long[count];
        tokenMessages = new long[count];
        inboxes = new BufferList[count];
        credits = new BufferList[count][];
        windows = new MemoryWindow[count][];
        for (int q = 0; q < count; q++) {
            inboxes[q] = end.wholeTarget(q);
            credits[q] = creditsOf(q);
            if (takes) {
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

    /** Each how-many-th request is signaled, as perftest has it. */
    static int usualSignals(PerfPlan plan, int size) {
        int usual = plan.chain() > 1 ? plan.chain() : size <= LARGE ? USUAL_SIGNALS : 1;
        return Math.min(usual, plan.depth() - plan.chain() + 1);
    }

    /** Of send, one number that this side writes; of send-inv, messages with tokens. */
    private BufferList[] creditsOf(int q) {
        if (operation != PerfOperation.SEND_INV) {
            return new BufferList[] {new BufferList(1).add(end.memory, ownCreditAt(q), Long.BYTES)};
        }
        BufferList[] all = new BufferList[PerfTerms.PARTS];
        long bytes = (long) terms.part() * Integer.BYTES;
        for (int i = 0; i < all.length; i++) {
            all[i] = new BufferList(1).add(end.memory, end.creditAt(q) + i * bytes, bytes);
        }
        return all;
    }

    /** Where the credit is that this side gives; the peer's is in front of it. */
    private long ownCreditAt(int q) {
        return end.creditAt(q) + Long.BYTES;
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
        int wanted = signalEveryWanted > 0 ? signalEveryWanted : usualSignals(plan, size);
        signalEvery = Math.min(outstanding == AS_PLANNED ? wanted : requests, most);
        byTime = count == BY_TIME;
        Arrays.fill(goal, byTime ? Long.MAX_VALUE : count);
        goalInAll = byTime ? Long.MAX_VALUE : (long) count * queuePairs.length;
        Arrays.fill(toArrive, byTime ? Long.MAX_VALUE : count);
        streams = takes ? queuePairs.length : 0;
        Arrays.fill(posted, 0);
        Arrays.fill(completed, 0);
        completedInAll = 0;
        arrivedInAll = 0;
        postedInAll = 0;
        posts = 0;
        signals = 0;
    }

    // ---- the loop

    @Override
    public PerfResult measure(int size, int count, PerfProgress progress) {
        timed = !byTime && goalInAll <= MOST_TIMED;
        if (timed && postedAt.length < goalInAll) {
            postedAt = new long[(int) goalInAll];
            postedBefore = new int[(int) goalInAll];
            completedAt = new long[(int) goalInAll];
            completedBy = new int[(int) goalInAll];
        }
        long nanos = run(progress);
        double peak =
                timed && !plan.bidirectional()
                        ? PerfPeak.of(
                                postedAt, postedBefore, posts, completedAt, completedBy, signals)
                        : 0;
        return PerfResult.ofBandwidth(size, messages(), nanos, peak);
    }

    @Override
    public double serve(int count) {
        timed = false;
        if (operation == PerfOperation.SEND_INV && !handedOut) {
            handedOut = true;
            Arrays.fill(due, PerfTerms.PARTS);
            for (int q = 0; q < queuePairs.length; q++) {
                grant(q);
            }
        }
        long nanos = run(null);
        return sends ? PerfResult.perSecond(messages(), nanos) : 0;
    }

    /** The number of this round's messages, without the empty ones at the end. */
    private long messages() {
        return goalInAll - (byTime && operation.takesReceives() ? queuePairs.length : 0);
    }

    /**
     * Runs this round to its end.
     *
     * @return how many nanoseconds it took until all that was sent from here was complete
     */
    private long run(PerfProgress progress) {
        long start = System.nanoTime();
        long stop = start;
        until = byTime ? start + plan.duration().toNanos() : 0;
        boolean sending = sends;
        for (int passes = 1; sending || streams > 0; passes++) {
            if (sending) {
                for (int q = 0; q < queuePairs.length; q++) {
                    if (posted[q] < goal[q]) {
                        fill(q);
                    }
                }
            }
            boolean idle = !collect(sending);
            if (sending && until != 0 && (idle || (passes & (PASSES - 1)) == 0)) {
                stopAt(System.nanoTime());
            }
            if (sending && completedInAll >= goalInAll) {
                sending = false;
                stop = System.nanoTime();
            }
            if (progress != null) {
                progress.reached(completedInAll);
            }
        }
        return stop - start;
    }

    /** Sets the goals once the time is over: one more request for each queue pair, signaled. */
    private void stopAt(long now) {
        if (now - until < 0) {
            return;
        }
        until = 0;
        goalInAll = 0;
        for (int q = 0; q < queuePairs.length; q++) {
            goal[q] = posted[q] + 1;
            goalInAll += goal[q];
        }
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
        long done = posted[q];
        long limit = Math.min(goal[q], completed[q] + width);
        if (operation == PerfOperation.SEND) {
            limit = Math.min(limit, done + credit(q) - ever[q]);
        } else if (operation == PerfOperation.SEND_INV) {
            limit = Math.min(limit, done + tokensReceived[q] - ever[q]);
        }
        while (done < limit) {
            long next = Math.min(done + chain, goal[q]);
            if (next > limit) {
                break;
            }
            if (timed) {
                postedAt[posts] = System.nanoTime();
                postedBefore[posts++] = postedInAll;
            }
            postedInAll += (int) (next - done);
            for (; done < next; done++) {
                boolean last = done + 1 == goal[q];
                boolean signaled = (done + 1) % signalEvery == 0 || last;
                OpFlags flags =
                        inline.and(signaled ? OpFlags.NONE : OpFlags.SILENT_SUCCESS)
                                .and(done + 1 < next ? OpFlags.DEFER : OpFlags.NONE);
                int slot = (int) done & mask;
                if (last && byTime && operation.takesReceives()) {
                    end.posted(queuePair.send(q, nothing, flags));
                    ever[q] += operation == PerfOperation.SEND ? 1 : 0; // it uses no token
                    continue;
                }
                PostResult result =
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
                            case CHANNEL -> throw new AssertionError("PerfMessages has these");
                        };
                end.posted(result);
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
     * @param goal by queue pair, the last request, which is signaled, too
     */
    static boolean completionIsDue(long[] posted, long[] completed, int signalEvery, long[] goal) {
        for (int q = 0; q < posted.length; q++) {
            long next = Math.min(completed[q] + signalEvery, goal[q]);
            if (posted[q] >= next && completed[q] < goal[q]) {
                return true;
            }
        }
        return false;
    }

    private int nextToken(int q) {
        int[] ring = tokens[q];
        return ring[(int) (ever[q] % ring.length)];
    }

    /**
     * Polls once.
     *
     * @param sending whether this side has requests to post or to wait for
     * @return whether there was a completion
     */
    private boolean collect(boolean sending) {
        int count = queue.poll(completions);
        if (count == 0) {
            // Sleep only when a completion is certain to come: credits are written into memory and
            // cause none.
            if (plan.events()
                    && (!sending || completionIsDue(posted, completed, signalEvery, goal))) {
                end.sleepAfterNextPoll();
            } else {
                end.lookedInVain(completedInAll + arrivedInAll);
            }
            return false;
        }
        long now = timed ? System.nanoTime() : 0;
        for (int i = 0; i < count; i++) {
            if (completions.status(i) != Status.SUCCESS) {
                throw end.failed(i);
            }
            long context = completions.context(i);
            int q = (int) context;
            if (context >= GRANTED) {
                grants[q]--;
                grant(q);
            } else if (context < PerfEnd.RECEIVED) {
                completed(q, now);
            } else if (takes) {
                arrived(q, completions.bytes(i) == 0);
            } else {
                takeTokens(q);
            }
        }
        return true;
    }

    private void completed(int q, long now) {
        int by = (int) Math.min(signalEvery, goal[q] - completed[q]);
        completed[q] += by;
        completedInAll += by;
        if (timed) {
            completedAt[signals] = now;
            completedBy[signals++] = (int) completedInAll;
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

    // ---- messages that arrive, and credit for them

    private void arrived(int q, boolean empty) {
        end.posted(queuePairs[q].receive(PerfEnd.RECEIVED | q, inboxes[q]));
        arrivedInAll++;
        if (empty || --toArrive[q] == 0) {
            streams--;
        }
        if (empty && operation == PerfOperation.SEND_INV) {
            return; // it has used no token
        }
        if (++arrived[q] % creditEvery == 0) {
            due[q]++;
            grant(q);
        }
    }

    /**
     * Gives the credit that is due, as far as there is room for it. A message says nothing about
     * that room: it may arrive before the credit that it uses was acknowledged. What has to wait is
     * given when an earlier grant is complete.
     */
    private void grant(int q) {
        while (due[q] > 0 && grants[q] < MOST_GRANTS) {
            grants[q]++;
            if (operation == PerfOperation.SEND) {
                due[q] = 0;
                giveCredit(q);
            } else {
                due[q]--;
                handOut(q, (int) (handOuts[q]++ % PerfTerms.PARTS));
            }
        }
    }

    /**
     * Writes the number of received messages into the sender's memory. A newer number may replace
     * it before the device has read it, which does no harm.
     */
    private void giveCredit(int q) {
        CREDIT.setRelease(memory, ownCreditAt(q), arrived[q]);
        end.posted(
                queuePairs[q].write(
                        GRANTED | q,
                        credits[q][0],
                        remoteAddress + end.creditAt(q),
                        remoteToken,
                        OpFlags.NONE));
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
        end.posted(queuePairs[q].send(GRANTED | q, credits[q][part], OpFlags.NONE));
    }

    // ---- data

    @Override
    public int fewest() {
        long fewest = sends ? Arrays.stream(goal).min().orElseThrow() : 1;
        return (int) Math.min(fewest, Integer.MAX_VALUE);
    }

    @Override
    public long mismatch(int size, int count, int seed, boolean server) {
        boolean arrivesHere = plan.bidirectional() || server != (operation == PerfOperation.READ);
        int places = operation == PerfOperation.READ ? fewest() : count;
        return arrivesHere ? end.mismatch(0, size, seed, places, operation.takesReceives()) : -1;
    }
}
