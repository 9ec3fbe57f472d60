package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;
import dev.verbena.bindings.ibv_recv_wr;
import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_sge;
import dev.verbena.bindings.ibv_wc;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * An {@code ibv_context} in native memory whose data path ends in Java: it keeps a copy of every
 * work request that the code under test posts, to the byte, and hands out the completions it is
 * given. It has no exported functions; what creates objects needs a real device.
 */
final class FakeDevice implements AutoCloseable {
    /**
     * A posted request: which queue pair, the bytes of the request, the bytes of its buffer list.
     */
    record Posted(long queuePair, byte[] request, byte[] sges) {}

    final List<Posted> sends = new ArrayList<>();
    final List<Posted> receives = new ArrayList<>();
    final Deque<byte[]> completions = new ArrayDeque<>();

    /** What the next posts answer. */
    int answer;

    /**
     * Which request of a chain is refused when {@link #answer} is not 0; -1 leaves bad_wr alone, as
     * rxe may.
     */
    int refused = -1;

    private final Arena arena = Arena.ofShared();
    private final MemorySegment context = ibv_context.allocate(arena);

    FakeDevice() {
        MemorySegment ops = ibv_context.ops(context);
        ibv_context_ops.post_send(
                ops,
                ibv_context_ops.post_send.allocate(
                        (qp, wr, bad) ->
                                post(
                                        sends,
                                        qp,
                                        wr,
                                        bad,
                                        ibv_send_wr.sizeof(),
                                        ibv_send_wr.next$offset(),
                                        ibv_send_wr.sg_list$offset(),
                                        ibv_send_wr.num_sge$offset()),
                        arena));
        ibv_context_ops.post_recv(
                ops,
                ibv_context_ops.post_recv.allocate(
                        (qp, wr, bad) ->
                                post(
                                        receives,
                                        qp,
                                        wr,
                                        bad,
                                        ibv_recv_wr.sizeof(),
                                        ibv_recv_wr.next$offset(),
                                        ibv_recv_wr.sg_list$offset(),
                                        ibv_recv_wr.num_sge$offset()),
                        arena));
        ibv_context_ops.poll_cq(
                ops, ibv_context_ops.poll_cq.allocate((cq, count, wcs) -> poll(count, wcs), arena));
    }

    VerbsContext open() {
        return new VerbsContext(context.address());
    }

    /**
     * Queues a completion that has only what a real one has: on failure nothing but id, status and
     * vendor error.
     */
    void complete(long id, int status, int opcode, int bytes, int vendorError) {
        byte[] raw = new byte[(int) ibv_wc.sizeof()];
        MemorySegment wc = MemorySegment.ofArray(raw);
        Arrays.fill(raw, (byte) 0xA5); // what is not valid is not zero either
        wc.set(ValueLayout.JAVA_LONG_UNALIGNED, ibv_wc.wr_id$offset(), id);
        wc.set(ValueLayout.JAVA_INT_UNALIGNED, ibv_wc.status$offset(), status);
        wc.set(ValueLayout.JAVA_INT_UNALIGNED, ibv_wc.vendor_err$offset(), vendorError);
        if (status == 0) {
            wc.set(ValueLayout.JAVA_INT_UNALIGNED, ibv_wc.opcode$offset(), opcode);
            wc.set(ValueLayout.JAVA_INT_UNALIGNED, ibv_wc.byte_len$offset(), bytes);
        }
        completions.add(raw);
    }

    private int post(
            List<Posted> where,
            MemorySegment queuePair,
            MemorySegment first,
            MemorySegment bad,
            long size,
            long nextOffset,
            long sgesOffset,
            long countOffset) {
        int index = 0;
        for (long at = first.address(); at != 0; index++) {
            if (answer != 0 && index == Math.max(refused, 0)) {
                if (refused >= 0) {
                    Native.at(bad.address(), Long.BYTES).set(ValueLayout.JAVA_LONG, 0, at);
                }
                return answer;
            }
            MemorySegment request = Native.at(at, size);
            long sges = request.get(ValueLayout.JAVA_LONG, sgesOffset);
            int count = request.get(ValueLayout.JAVA_INT, countOffset);
            where.add(
                    new Posted(
                            queuePair.address(),
                            request.toArray(ValueLayout.JAVA_BYTE),
                            count == 0
                                    ? new byte[0]
                                    : Native.at(sges, count * ibv_sge.sizeof())
                                            .toArray(ValueLayout.JAVA_BYTE)));
            at = request.get(ValueLayout.JAVA_LONG, nextOffset);
        }
        return answer;
    }

    private int poll(int count, MemorySegment wcs) {
        if (answer < 0) {
            return answer;
        }
        MemorySegment room = Native.at(wcs.address(), count * ibv_wc.sizeof());
        int given = 0;
        while (given < count && !completions.isEmpty()) {
            MemorySegment.copy(
                    MemorySegment.ofArray(completions.remove()),
                    0,
                    room,
                    given * ibv_wc.sizeof(),
                    ibv_wc.sizeof());
            given++;
        }
        return given;
    }

    @Override
    public void close() {
        arena.close();
    }
}
