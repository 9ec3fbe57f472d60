package dev.verbena.tools;

import dev.verbena.BufferList;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.Status;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * The loops that measure latency, of either side: one outstanding message, and the next one when
 * the answer is there. For one thread.
 *
 * <p>They run a few iterations a call, so that the calls of the warm-up have them compiled: a
 * method that is called once and loops for long would begin each measurement in the interpreter.
 */
final class PerfLatency extends PerfQueueLoops {
    private static final int BURST = 16;
    private static final VarHandle BYTE = ValueLayout.JAVA_BYTE.varHandle();

    private static final ValueLayout.OfInt TOKEN =
            ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final QueuePair queuePair;
    private final BufferList source;
    private final BufferList target;
    private final BufferList inbox;
    private final BufferList nothing = new BufferList(1);
    private final long sourceAt;
    private final long targetAt;
    private final boolean events;
    private final MemoryWindow window; // of send-inv, or null

    // Of this side's requests, and of the peer's messages: all there ever were.
    private long sent;
    private long received;
    private long sends;
    private long receives;
    private long replenished; // of what was received

    // Of this round.
    private OpFlags flags = OpFlags.NONE;
    private long sourceLast;
    private long targetLast;
    private byte mark; // in the last byte of the last write
    private long remoteAddress;
    private int remoteToken;
    private int peerWindow;
    private boolean over; // of the server: the client has said that the time is over
    private long[] times = new long[0];

    PerfLatency(PerfPlan plan, PerfEnd end, boolean server) {
        super(plan, end);
        this.queuePair = end.queuePairs[0];
        this.source = end.sources(0)[0];
        this.target = end.targets(0)[0];
        this.inbox = end.wholeTarget(0);
        this.sourceAt = end.sourceAt(0);
        this.targetAt = end.targetAt(0);
        this.events = plan.events();
        this.window = plan.operation() == PerfOperation.SEND_INV ? end.createWindow() : null;
        if (plan.operation().takesReceives()) {
            for (int i = 0; i < end.receives; i++) {
                receive();
            }
        }
    }

    /** The server's token for the first message, before the first round. */
    @Override
    public int firstWindow() {
        if (window == null) {
            return 0;
        }
        if (!window.bound()) {
            end.begin();
            end.posted(end.bind(0, window, OpFlags.NONE));
            await(++sends, receives);
        }
        return window.remoteToken();
    }

    @Override
    public void begin(
            int size, int count, long address, int token, int firstWindow, int outstanding) {
        end.begin();
        flags = size <= plan.inline() ? OpFlags.INLINE : OpFlags.NONE;
        sourceLast = sourceAt + size - 1;
        targetLast = targetAt + size - 1;
        mark = 0;
        over = false;
        remoteAddress = address + (plan.operation() == PerfOperation.READ ? sourceAt : targetAt);
        remoteToken = token;
        peerWindow = firstWindow;
    }

    @Override
    public PerfResult measure(int size, int count, PerfProgress progress) {
        if (count == BY_TIME) {
            return measureByTime(size, progress);
        }
        if (times.length != count + 1) {
            times = new long[count + 1];
        }
        int i = 0;
        while (i < count) {
            int to = Math.min(i + BURST, count);
            burst(i, to);
            i = to;
            progress.reached(i);
        }
        times[count] = System.nanoTime();
        return PerfResult.ofLatency(size, times, trips());
    }

    private PerfResult measureByTime(int size, PerfProgress progress) {
        if (times.length < BURST) {
            times = new long[BURST];
        }
        long count = 0;
        long start = System.nanoTime();
        long nanos = 0;
        while (nanos < plan.duration().toNanos()) {
            burst(0, BURST);
            count += BURST;
            progress.reached(count);
            nanos = System.nanoTime() - start;
        }
        sayThatItIsOver();
        return PerfResult.ofAverage(size, count, nanos, trips());
    }

    /** How many one-way trips an iteration is. */
    private int trips() {
        return plan.operation() == PerfOperation.READ ? 1 : 2;
    }

    private void burst(int from, int to) {
        switch (plan.operation()) {
            case SEND -> send(from, to);
            case WRITE -> write(from, to);
            case READ -> read(from, to);
            case SEND_INV -> sendAndInvalidate(from, to);
            case CHANNEL -> throw new AssertionError("PerfMessages has these");
        }
    }

    /** By an empty message; or a mark that is one too high. */
    private void sayThatItIsOver() {
        switch (plan.operation()) {
            case SEND, SEND_INV -> end.posted(queuePair.send(0, nothing, OpFlags.NONE));
            case WRITE -> {
                memory.set(ValueLayout.JAVA_BYTE, sourceLast, (byte) (mark + 2));
                end.posted(queuePair.write(0, source, remoteAddress, remoteToken, flags));
            }
            case READ, CHANNEL -> {
                return; // the server does not take part
            }
        }
        await(++sends, receives);
    }

    @Override
    public double serve(int count) {
        boolean byTime = count == BY_TIME && plan.operation() != PerfOperation.READ;
        int i = 0;
        while (byTime ? !over : i < count) {
            int to = byTime ? BURST : Math.min(i + BURST, count);
            i = byTime ? 0 : i;
            switch (plan.operation()) {
                case SEND -> answerSend(i, to);
                case WRITE -> answerWrite(i, to);
                case READ -> {} // the device does it
                case SEND_INV -> answerSendAndInvalidate(i, to);
                case CHANNEL -> throw new AssertionError("PerfMessages has these");
            }
            i = to;
        }
        await(sends, receives);
        return 0;
    }

    @Override
    public int fewest() {
        return 1;
    }

    @Override
    public long mismatch(int size, int count, int seed, boolean server) {
        return switch (plan.operation()) {
            case SEND -> end.mismatch(0, size, seed, 1, true);
            case WRITE ->
                    memory.get(ValueLayout.JAVA_BYTE, targetLast) == mark
                            ? end.mismatch(0, size - 1, seed, 1, true)
                            : size - 1;
            case READ -> server ? -1 : end.mismatch(0, size, seed, 1, true);
            case SEND_INV -> end.mismatch(Integer.BYTES, size, seed, 1, true);
            case CHANNEL -> throw new AssertionError("PerfMessages has these");
        };
    }

    // ---- the client's

    private void send(int from, int to) {
        for (int i = from; i < to; i++) {
            times[i] = System.nanoTime();
            end.posted(queuePair.send(0, source, flags));
            replenish();
            await(++sends, ++receives);
        }
    }

    private void write(int from, int to) {
        for (int i = from; i < to; i++) {
            times[i] = System.nanoTime();
            memory.set(ValueLayout.JAVA_BYTE, sourceLast, ++mark);
            end.posted(queuePair.write(0, source, remoteAddress, remoteToken, flags));
            await(++sends, 0);
            awaitMark(mark);
        }
    }

    private void read(int from, int to) {
        for (int i = from; i < to; i++) {
            times[i] = System.nanoTime();
            end.posted(queuePair.read(0, target, remoteAddress, remoteToken, OpFlags.NONE));
            await(++sends, 0);
        }
    }

    private void sendAndInvalidate(int from, int to) {
        for (int i = from; i < to; i++) {
            times[i] = System.nanoTime();
            handOver();
            replenish();
            await(++sends, ++receives);
            peerWindow = memory.get(TOKEN, targetAt);
        }
    }

    // ---- the server's

    private void answerSend(int from, int to) {
        for (int i = from; i < to; i++) {
            await(sends, ++receives);
            if (over) {
                replenish();
                return;
            }
            end.posted(queuePair.send(0, source, flags));
            sends++;
            replenish();
        }
    }

    private void answerWrite(int from, int to) {
        for (int i = from; i < to; i++) {
            awaitMark(++mark);
            if (over) {
                return;
            }
            memory.set(ValueLayout.JAVA_BYTE, sourceLast, mark);
            end.posted(queuePair.write(0, source, remoteAddress, remoteToken, flags));
            await(++sends, 0);
        }
    }

    private void answerSendAndInvalidate(int from, int to) {
        for (int i = from; i < to; i++) {
            await(sends, ++receives);
            if (over) {
                replenish();
                return;
            }
            peerWindow = memory.get(TOKEN, targetAt);
            handOver();
            sends++;
            replenish();
        }
    }

    // ---- both

    /** A new token goes out, and the peer's dies: two requests, posted as one. */
    private void handOver() {
        end.posted(end.bind(0, window, OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER)));
        memory.set(TOKEN, sourceAt, window.remoteToken());
        end.posted(queuePair.sendAndInvalidate(0, source, peerWindow, flags));
    }

    /**
     * Posts a receive for each that was used up, when the answer is on its way: nobody waits for it
     * then, and there are many more.
     */
    private void replenish() {
        while (replenished < received) {
            receive();
            replenished++;
        }
    }

    private void receive() {
        end.posted(queuePair.receive(PerfEnd.RECEIVED, inbox));
    }

    /** Waits until so many requests of this side, and so many messages of the peer's, ended. */
    private void await(long requests, long messages) {
        while (sent < requests || received < messages) {
            int count = queue.poll(completions);
            if (count == 0) {
                if (events) {
                    end.sleepAfterNextPoll();
                } else {
                    end.lookedInVain(sent + received);
                }
            }
            for (int i = 0; i < count; i++) {
                if (completions.status(i) != Status.SUCCESS) {
                    throw end.failed(i);
                }
                if (completions.context(i) == PerfEnd.RECEIVED) {
                    received++;
                    over |= completions.bytes(i) == 0;
                } else {
                    sent++;
                }
            }
        }
    }

    /** Polls memory for the peer's write, which causes no completion here. */
    private void awaitMark(byte expected) {
        MemorySegment where = memory;
        long last = targetLast;
        byte found = (byte) BYTE.getAcquire(where, last);
        while (found != expected && found != (byte) (expected + 1)) {
            end.lookedInVain(expected);
            found = (byte) BYTE.getAcquire(where, last);
        }
        over |= found != expected;
        mark = found;
    }
}
