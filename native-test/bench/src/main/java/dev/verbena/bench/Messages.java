package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.messaging.ConnectedChannels;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.SendCallback;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.CompilerControl;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.TimeUnit;

/**
 * A message, usually of 64 bytes, from one queue pair to another, on a stand-in for libibverbs
 * whose provider only copies: by hand, where it is in registered memory already, and through a
 * {@link MessageChannel}, which counts credit, watches a deadline and calls a callback and a
 * handler; from memory that is not registered, which the channel copies, and from registered
 * memory. All have 16 buffers on each side, a confined completion queue, and one thread.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Messages {
    private static final int RECEIVES = 16;
    private static final int SMALLEST_STRIDE = 4160; // of buffers for messages of up to 4 KiB

    private static final int MOST_INLINE = 128;

    int bytes = 64;
    int eagerLimit = MessagingOptions.DEFAULTS.eagerLimit();

    private Arena arena;
    private Adapter adapter;

    // By hand.
    private ProtectionDomain domain;
    private CompletionQueue queue;
    private QueuePair sender;
    private QueuePair receiver;
    private MemoryRegion region;
    private BufferList[] messages;
    private BufferList[] receives;
    private int next;
    private Completions completions;

    // Through a channel.
    private Poller poller;
    private MessageChannel channel;
    private MemorySegment data;
    private MemoryRegion registered;
    private BufferList list;
    private SendCallback callback;
    private int ended;
    private int arrived;

    /** Opens the stand-in's device and connects two queue pairs, and two channels. */
    @Setup
    @SuppressWarnings("MustBeClosed") // closed by the tear-down
    public void open() {
        arena = Arena.ofShared();
        adapter = Adapter.open(Adapter.names().getFirst());
        domain = adapter.createProtectionDomain();
        queue = adapter.createConfinedCompletionQueue(256);
        int stride = Math.max(bytes, SMALLEST_STRIDE);
        QueuePairLimits limits = QueuePairLimits.depths(64, RECEIVES).withInlineBytes(MOST_INLINE);
        sender = domain.createQueuePair(queue, queue, limits);
        receiver = domain.createQueuePair(queue, queue, limits);
        region = domain.allocate(2L * RECEIVES * stride, Access.LOCAL_WRITE);
        region.memory()
                .fill((byte) 1); // else all pages are one page of zeros, which stays in the cache
        messages = new BufferList[RECEIVES];
        receives = new BufferList[RECEIVES];
        for (int i = 0; i < RECEIVES; i++) {
            receives[i] = new BufferList(1).add(region, (long) i * stride, stride);
            messages[i] = new BufferList(1).add(region, (RECEIVES + (long) i) * stride, bytes);
            succeed(receiver.receive(i, receives[i]).status());
        }
        sender.connect(receiver.address());
        receiver.connect(sender.address());
        completions = new Completions(64);

        poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
        channel =
                ConnectedChannels.pair(
                        poller,
                        MessagingOptions.DEFAULTS.withMaxMessage(stride).withEagerLimit(eagerLimit),
                        (of, received) -> {},
                        (of, received) -> arrived++)[0];
        callback = (of, attachment, status) -> ended++;
        data = arena.allocate(bytes);
        registered = poller.domain().allocate(bytes, Access.LOCAL_WRITE);
        registered.memory().fill((byte) 1);
        list = BufferList.of(registered);
    }

    /** Closes all of it. */
    @TearDown
    public void close() {
        registered.close();
        poller.close();
        sender.close();
        receiver.close();
        region.close();
        queue.close();
        domain.close();
        adapter.close();
        arena.close();
    }

    /** A send, its completion, that of the receive, and the receive posted again. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    public long byHand() {
        next = (next + 1) % RECEIVES;
        OpFlags flags = bytes <= MOST_INLINE ? OpFlags.INLINE : OpFlags.NONE;
        succeed(sender.send(next, messages[next], flags).status());
        long sum = 0;
        int left = 2;
        do {
            int count = queue.poll(completions);
            for (int i = 0; i < count; i++) {
                succeed(completions.status(i));
                long context = completions.context(i);
                if (completions.type(i) == OperationType.RECEIVE) {
                    succeed(receiver.receive(context, receives[(int) context]).status());
                    sum += completions.bytes(i);
                }
            }
            left -= count;
        } while (left > 0);
        return sum;
    }

    /** Sends, polls until the handler and the callback were called; reports of credit included. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    public long throughAChannel() {
        int before = arrived;
        succeed(channel.trySend(data, 0, bytes, callback, null));
        do {
            int ignored = poller.poll();
        } while (arrived == before);
        return arrived;
    }

    /** The same from registered memory: nothing is copied. */
    public long fromRegisteredMemory() {
        int before = arrived;
        succeed(channel.trySend(list, callback, null));
        do {
            int ignored = poller.poll();
        } while (arrived == before);
        return arrived;
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
