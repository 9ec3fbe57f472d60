package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.ReceiveRequest;

import java.util.function.IntSupplier;

/** The receive side of a queue pair. */
public final class ReceiveQueue {
    private final RequestFifo fifo;
    private final long queuePair;
    private final ReceiveRequest request;
    private final CompletionPump pump;
    private final Gate gate = new Gate();
    private volatile boolean flushed; // changed under the gate

    /**
     * Makes one.
     *
     * @param fifo its receives
     * @param queuePair the address of the {@code ibv_qp}
     * @param request where they are built
     * @param pump where their completions are told
     */
    public ReceiveQueue(
            RequestFifo fifo, long queuePair, ReceiveRequest request, CompletionPump pump) {
        this.fifo = fifo;
        this.queuePair = queuePair;
        this.request = request;
        this.pump = pump;
    }

    /**
     * Posts a receive. On a flushed queue pair it ends cancelled: by this layer, because rxe's
     * library puts receives into the ring without telling the kernel, which has flushed it already.
     *
     * @param context the caller's context
     * @param sges the address of the buffers' list
     * @param count how many buffers
     * @return {@link Refusal#NONE}, or why not
     */
    public int post(long context, long sges, int count) {
        if (!gate.enter()) {
            return Refusal.NOT_CONNECTED;
        }
        boolean owed;
        try {
            if (fifo.full()) {
                return Refusal.FULL;
            }
            int sequence = fifo.add(context, RequestType.RECEIVE, false, true);
            owed = flushed;
            if (owed) {
                pump.owe(fifo, sequence, sequence, CompletionPump.FLUSHED);
            } else {
                int answer =
                        request.post(queuePair, WorkId.of(fifo.queue(), sequence), sges, count);
                if (answer != 0) {
                    return refused(answer, sequence);
                }
            }
        } finally {
            gate.leave();
        }
        if (owed) {
            pump.announce();
        }
        return Refusal.NONE;
    }

    /**
     * A provider that refuses a receive says so in {@code bad_wr}; one that does not may have kept
     * it, and then its id must not be the next one's, too.
     */
    private int refused(int answer, int sequence) {
        if (request.wasNamed()) {
            fifo.takeBack();
            return answer;
        }
        return pump.refuse(fifo, sequence, sequence, true) ? Refusal.NONE : answer;
    }

    /**
     * Whether receives are under way, and not known to be flushed.
     *
     * @return as of about now
     */
    public boolean waiting() {
        return !flushed && fifo.underWay() > 0;
    }

    /** From now on receives end cancelled at once. */
    public void flush() {
        if (gate.enter()) {
            flushed = true;
            gate.leave();
        }
    }

    /**
     * Lets nobody in any more, and ends what is under way.
     *
     * @param nanoseconds how long to wait for the device
     * @param modifyToError moves the queue pair to the error state, so that what it holds is
     *     flushed
     */
    public void shut(long nanoseconds, IntSupplier modifyToError) {
        gate.shut();
        if (fifo.underWay() > 0) {
            var _ = modifyToError.getAsInt();
            pump.finish(fifo, nanoseconds, CompletionPump.FLUSHED);
        }
    }

    /**
     * Ends what is under way on a flushed queue pair.
     *
     * @param nanoseconds how long to wait for the device
     * @param rest the status of what the device does not end
     */
    public void finish(long nanoseconds, int rest) {
        pump.finish(fifo, nanoseconds, rest);
    }
}
