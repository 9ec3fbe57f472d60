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
 * A message of 64 bytes from one queue pair to another, on a stand-in for libibverbs whose provider
 * only copies: by hand, where it is in registered memory already, and through a {@link
 * MessageChannel}, which copies it there, counts credit, watches a deadline and calls a callback
 * and a handler. Both have 16 buffers of 4 KiB on each side, a confined completion queue, and one
 * thread.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Messages {
    private static final int BYTES = 64;
    private static final int RECEIVES = 16;
    private static final int STRIDE = 4160; // of buffers for messages of up to 4 KiB

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
        QueuePairLimits limits = QueuePairLimits.depths(64, RECEIVES).withInlineBytes(128);
        sender = domain.createQueuePair(queue, queue, limits);
        receiver = domain.createQueuePair(queue, queue, limits);
        region = domain.allocate(2L * RECEIVES * STRIDE, Access.LOCAL_WRITE);
        messages = new BufferList[RECEIVES];
        receives = new BufferList[RECEIVES];
        for (int i = 0; i < RECEIVES; i++) {
            receives[i] = new BufferList(1).add(region, (long) i * STRIDE, STRIDE);
            messages[i] = new BufferList(1).add(region, (RECEIVES + (long) i) * STRIDE, BYTES);
            succeed(receiver.receive(i, receives[i]).status());
        }
        sender.connect(receiver.address());
        receiver.connect(sender.address());
        completions = new Completions(64);

        poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
        channel =
                ConnectedChannels.pair(
                        poller,
                        MessagingOptions.DEFAULTS,
                        (of, received) -> {},
                        (of, received) -> arrived += received.length())[0];
        callback = (of, attachment, status) -> ended++;
        data = arena.allocate(BYTES);
    }

    /** Closes all of it. */
    @TearDown
    public void close() {
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
        succeed(sender.send(next, messages[next], OpFlags.INLINE).status());
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
        succeed(channel.trySend(data, 0, BYTES, callback, null));
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
