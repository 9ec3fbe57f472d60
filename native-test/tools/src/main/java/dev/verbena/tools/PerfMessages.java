package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.AdapterInfo;
import dev.verbena.ConnectionOptions;
import dev.verbena.Status;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.SendCallback;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Messages through channels instead of queue pairs, of either side and for latency and bandwidth:
 * as a service would send them, by the handler and the callback on the poller's thread. The thread
 * of the measurement sleeps meanwhile.
 */
final class PerfMessages implements PerfLoops, AutoCloseable {
    private static final MemorySegment NOTHING = MemorySegment.ofArray(new byte[0]);
    private static final long MOST_BYTES = 64L << 20; // each way, on each channel
    private static final int FEWEST = 4;
    private static final int FRAME_BYTES = 32; // what a channel adds to a message at most
    private static final int LOOK_EVERY_MILLIS = 200;

    private final PerfPlan plan;
    private final boolean client;
    private final String peer;
    private final Deque<AutoCloseable> made = new ArrayDeque<>();
    private final Poller poller;
    private final MessagingOptions options;
    private final List<MessageChannel> channels = new CopyOnWriteArrayList<>();
    private final CompletableFuture<Void> connected = new CompletableFuture<>();
    private final CompletableFuture<Status> left = new CompletableFuture<>();
    private final SendCallback ended = this::ended;
    private int port; // of the server's side
    private MemorySegment data = MemorySegment.NULL;
    private volatile Round round = new Round(0, 0, MemorySegment.NULL, 0, 0);

    /** What one measurement counts; but for {@link #done}, by the poller's thread. */
    private static final class Round {
        final Map<MessageChannel, Pipe> pipes = new HashMap<>(); // of bandwidth
        final Pipe single = new Pipe(this); // of latency, with one message at a time
        final int size;
        final long until; // the time at which the client stops, or 0
        long all; // messages over all channels
        final MemorySegment data;
        final long[] times; // of latency, each message
        final CompletableFuture<Void> done = new CompletableFuture<>();
        long posted;
        long completed;
        long arrived;
        int marks; // empty messages that arrived, or were sent: one for each channel
        boolean over; // the client has sent them
        volatile long stop; // when the client's messages were complete, in a round by time
        byte[] last = {};

        Round(int size, long all, MemorySegment data, int times, long until) {
            this.size = size;
            this.all = all;
            this.data = data;
            this.times = new long[times];
            this.until = until;
        }

        boolean timeIsOver() {
            return until != 0 && System.nanoTime() - until >= 0;
        }
    }

    /** What one channel has outstanding in a round of bandwidth. */
    private static final class Pipe {
        final Round round;
        int outstanding;

        Pipe(Round round) {
            this.round = round;
        }
    }

    private PerfMessages(Adapter adapter, PerfPlan plan, PerfTerms terms, boolean server) {
        this.plan = plan;
        this.client = !server;
        this.peer = server ? "client" : "server";
        poller =
                Poller.start(
                        adapter, plan.events() ? IdleStrategy.events() : IdleStrategy.busySpin());
        made.push(poller);
        options =
                MessagingOptions.DEFAULTS
                        .withMaxMessage(terms.largest())
                        .withReceives(terms.receives())
                        .withOutstanding(
                                plan.latency() ? FEWEST : buffers(terms.largest(), plan.depth()))
                        .withExposures(0)
                        .withTimeout(plan.timeout());
        made.push(PerfStop.waking(() -> left.complete(Status.SUCCESS)));
    }

    /** The largest message, on a device that takes so much at once. */
    static long largest(AdapterInfo info) {
        return info.maxTransferBytes() - FRAME_BYTES;
    }

    /** How many messages of that size each channel has room for, one way. */
    static int buffers(int largest, int usual) {
        return Math.clamp(MOST_BYTES / largest, Math.min(FEWEST, usual), usual);
    }

    /** The server's side, which listens on a port of its own. */
    static PerfMessages server(
            Adapter adapter, PerfPlan plan, PerfTerms terms, InetSocketAddress address) {
        PerfMessages made = new PerfMessages(adapter, plan, terms, true);
        try {
            made.made.push(made.listen(new InetSocketAddress(address.getAddress(), 0)));
            return made;
        } catch (Throwable t) {
            made.close();
            throw t;
        }
    }

    private MessageServer listen(InetSocketAddress address) {
        MessageServer server =
                MessageServer.listen(
                        poller,
                        address,
                        options.withConnection(plan.connection(new byte[0])),
                        plan.queuePairs(),
                        this::received,
                        this::add);
        port = server.localAddress().getPort();
        return server;
    }

    /** Where the server's side listens. */
    int port() {
        return port;
    }

    /** The client's side. */
    static PerfMessages client(
            Adapter adapter,
            PerfPlan plan,
            PerfTerms terms,
            InetSocketAddress address,
            ConnectionOptions how) {
        PerfMessages made = new PerfMessages(adapter, plan, terms, false);
        try {
            for (int i = 0; i < plan.queuePairs(); i++) {
                made.add(
                        MessageChannel.connect(
                                made.poller,
                                address,
                                made.options.withConnection(how),
                                made::received));
            }
            return made;
        } catch (Throwable t) {
            made.close();
            throw t;
        }
    }

    private void add(MessageChannel channel) {
        channels.add(channel);
        var _ = channel.closed().thenAccept(left::complete);
        if (channels.size() == plan.queuePairs()) {
            connected.complete(null);
        }
    }

    /** Waits until the client has connected all channels, or has left. */
    void awaitConnected(PerfControl control) {
        control.whenLeft(left::complete);
        await(connected, null);
    }

    // ---- the measurement's thread

    @Override
    public void prepare(int size, int seed) {
        data = MemorySegment.ofArray(PerfData.of(size, seed));
    }

    @Override
    public long address() {
        return 0;
    }

    @Override
    public int token() {
        return 0;
    }

    @Override
    public int firstWindow() {
        return 0;
    }

    /** The client's first message may come before the server's {@link #serve}. */
    @Override
    public void begin(
            int size, int count, long address, int token, int firstWindow, int outstanding) {
        boolean byTime = count == BY_TIME;
        int times = client && plan.latency() && !byTime ? count + 1 : 0;
        long all = byTime ? Long.MAX_VALUE : (long) count * channels.size();
        long until = client && byTime ? System.nanoTime() + plan.duration().toNanos() : 0;
        round = new Round(size, all, data, times, until);
    }

    @Override
    public PerfResult measure(int size, int count, PerfProgress progress) {
        Round begun = round;
        long start = System.nanoTime();
        poller.execute(
                () -> {
                    for (MessageChannel channel : channels) {
                        next(channel, begun);
                    }
                });
        await(begun.done, progress);
        long stop = System.nanoTime();
        if (begun.until != 0) {
            return plan.latency()
                    ? PerfResult.ofAverage(size, begun.all, stop - start, 2)
                    : PerfResult.ofBandwidth(size, begun.all, begun.stop - start, 0);
        }
        return plan.latency()
                ? PerfResult.ofLatency(size, begun.times, 2)
                : PerfResult.ofBandwidth(size, begun.all, stop - start, 0);
    }

    @Override
    public double serve(int count) {
        await(round.done, null);
        return 0;
    }

    private void await(CompletableFuture<Void> what, PerfProgress progress) {
        long before = -1;
        long since = System.nanoTime();
        while (true) {
            try {
                what.get(LOOK_EVERY_MILLIS, TimeUnit.MILLISECONDS);
                return;
            } catch (TimeoutException e) {
                Round now = round;
                long reached = now.arrived + now.completed + channels.size(); // or a moment ago
                if (progress != null) {
                    progress.reached(plan.latency() ? now.arrived : now.completed);
                }
                if (reached != before) {
                    before = reached;
                    since = System.nanoTime();
                } else if (System.nanoTime() - since > plan.timeout().toNanos()) {
                    throw new ToolFailure(
                            "Nothing arrived from the %s for %d s (--timeout)",
                            peer, plan.seconds());
                }
            } catch (ExecutionException e) {
                throw new ToolFailure("%s", e.getCause().getMessage());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new ToolFailure("Interrupted while waiting for the %s", peer);
            }
            if (left.isDone() && !what.isDone()) {
                throw gone();
            }
        }
    }

    private ToolFailure gone() {
        for (MessageChannel channel : channels) {
            MessagingException why = channel.closeReason();
            if (why != null && !leftByPeer(why.status())) {
                return new ToolFailure("%s", why.getMessage());
            }
        }
        return new ToolFailure("The %s disconnected in the middle of a measurement", peer);
    }

    /** Whether the peer has closed a channel, or disconnected without a close. */
    private static boolean leftByPeer(Status status) {
        return status == Status.CONNECTION_INVALID || status == Status.CONNECTION_ABORTED;
    }

    @Override
    public int fewest() {
        return 1;
    }

    @Override
    public long mismatch(int size, int count, int seed, boolean server) {
        return server || plan.latency()
                ? MemorySegment.ofArray(round.last)
                        .mismatch(MemorySegment.ofArray(PerfData.of(size, seed)))
                : -1;
    }

    // ---- the poller's thread

    /** Of the client: sends the next message of latency, or what there is room for. */
    private void next(MessageChannel channel, Round now) {
        if (plan.latency()) {
            if (now.until == 0) {
                now.times[(int) now.posted] = System.nanoTime();
            } else if (now.timeIsOver() && !now.over) {
                now.over = true;
                now.all = now.posted + 1;
                check(channel.trySend(NOTHING), now);
            }
            now.posted++;
            post(channel, now);
        } else {
            fill(channel, now.pipes.computeIfAbsent(channel, of -> new Pipe(now)));
        }
    }

    /** Sends as much as there is room for: more when a message has ended. */
    private void fill(MessageChannel channel, Pipe pipe) {
        Round now = pipe.round;
        while (now.posted < now.all) {
            if (now.timeIsOver()) {
                now.all = now.posted;
                break;
            }
            Status status = channel.trySend(now.data, 0, now.size, ended, pipe);
            boolean full = status == Status.NO_MORE_ENTRIES;
            if (full && pipe.outstanding > 0) {
                return;
            }
            if (!full && !status.isSuccess()) {
                check(status, now);
                return;
            }
            now.posted++;
            pipe.outstanding++;
            if (full) { // the peer has to give credit first
                var _ =
                        channel.sendAsync(now.data)
                                .whenComplete(
                                        (nothing, thrown) -> {
                                            if (thrown == null) {
                                                ended(channel, pipe);
                                            }
                                        });
                return;
            }
        }
    }

    private void ended(MessageChannel channel, Object attachment, Status status) {
        if (status.isSuccess()) {
            ended(channel, (Pipe) attachment);
        }
    }

    private void ended(MessageChannel channel, Pipe pipe) {
        pipe.outstanding--;
        completed(pipe.round);
        if (!plan.latency()) {
            fill(channel, pipe);
            Round now = pipe.round;
            if (now.until != 0 && now.completed == now.all && !now.over) {
                finish(now);
            }
        }
    }

    private void completed(Round now) {
        now.completed++;
        if (now.completed == now.all && !plan.latency() && now.until == 0) {
            now.done.complete(null);
        }
    }

    /**
     * Of the client, once all is complete: an empty message on each channel says that it was the
     * last of that channel, and one more message is what the server then looks at.
     */
    private void finish(Round now) {
        now.over = true;
        now.stop = System.nanoTime();
        for (MessageChannel channel : channels) {
            var _ =
                    channel.sendAsync(NOTHING)
                            .thenRun(
                                    () -> {
                                        if (++now.marks == channels.size()) {
                                            var _ =
                                                    channels.getFirst()
                                                            .sendAsync(now.data)
                                                            .thenRun(() -> now.done.complete(null));
                                        }
                                    });
        }
    }

    private void received(MessageChannel channel, Message message) {
        Round now = round;
        if (message.data().byteSize() == 0) {
            if (++now.marks == channels.size()) {
                now.all = now.arrived + 1;
            }
            return;
        }
        now.arrived++;
        boolean last = now.arrived == now.all;
        if (last) {
            now.last = message.data().toArray(ValueLayout.JAVA_BYTE);
        }
        if (plan.latency() && client && last) {
            if (now.until != 0) {
                now.done.complete(null);
                return;
            }
            now.times[(int) now.all] = System.nanoTime();
        } else if (plan.latency() && client) {
            next(channel, now);
        } else if (plan.latency()) {
            post(channel, now);
        }
        if (last) {
            now.done.complete(null);
        }
    }

    private void post(MessageChannel channel, Round now) {
        check(channel.trySend(now.data, 0, now.size, ended, now.single), now);
    }

    private static void check(Status status, Round now) {
        if (!status.isSuccess() && !leftByPeer(status)) { // else `left` says why
            now.done.completeExceptionally(
                    new ToolFailure("A message was refused: %s", status.toString()));
        }
    }

    /** Closes the channels, then what they were made from. */
    @Override
    public void close() {
        channels.forEach(MessageChannel::close);
        PerfControl.closeAll(made);
    }
}
