package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_recv_wr;
import dev.verbena.bindings.ibv_send_wr;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The native memory in which one queue pair builds its work requests: one {@code ibv_send_wr}, one
 * {@code ibv_recv_wr}, and the two pointers for what the provider refuses. Providers copy a request
 * before the post returns, so one of each is enough.
 */
public final class WorkRequests {
    private static final long SEND_ID = ibv_send_wr.wr_id$offset();
    private static final long SEND_SGES = ibv_send_wr.sg_list$offset();
    private static final long SEND_SGE_COUNT = ibv_send_wr.num_sge$offset();
    private static final long SEND_OPCODE = ibv_send_wr.opcode$offset();
    private static final long SEND_FLAGS = ibv_send_wr.send_flags$offset();
    private static final long RECEIVE_ID = ibv_recv_wr.wr_id$offset();
    private static final long RECEIVE_SGES = ibv_recv_wr.sg_list$offset();
    private static final long RECEIVE_SGE_COUNT = ibv_recv_wr.num_sge$offset();

    private final VerbsContext context;
    private final long queuePair;
    private final MemorySegment send;
    private final MemorySegment receive;
    private final MemorySegment refused;

    /**
     * Makes room for a queue pair's requests.
     *
     * @param context the device
     * @param queuePair the address of the {@code ibv_qp}
     * @param arena what the room lives in: until after the last post
     */
    public WorkRequests(VerbsContext context, long queuePair, Arena arena) {
        this.context = context;
        this.queuePair = queuePair;
        this.send = ibv_send_wr.allocate(arena);
        this.receive = ibv_recv_wr.allocate(arena);
        this.refused = arena.allocate(2 * Long.BYTES, Long.BYTES);
    }

    /**
     * Posts one signalled {@code IBV_WR_SEND}.
     *
     * @param id what its completion will carry
     * @param sges the address of the buffers' list
     * @param count how many buffers
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postSend(long id, long sges, int count) {
        // Arena memory starts as zeros, and only these fields are ever written: next and the unions
        // stay zero.
        send.set(JAVA_LONG, SEND_ID, id);
        send.set(JAVA_LONG, SEND_SGES, sges);
        send.set(JAVA_INT, SEND_SGE_COUNT, count);
        send.set(JAVA_INT, SEND_OPCODE, Verbs.IBV_WR_SEND);
        send.set(JAVA_INT, SEND_FLAGS, Verbs.IBV_SEND_SIGNALED);
        return context.postSend(queuePair, send.address(), refused.address());
    }

    /**
     * Posts one receive.
     *
     * @param id what its completion will carry
     * @param sges the address of the buffers' list
     * @param count how many buffers
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postReceive(long id, long sges, int count) {
        receive.set(JAVA_LONG, RECEIVE_ID, id);
        receive.set(JAVA_LONG, RECEIVE_SGES, sges);
        receive.set(JAVA_INT, RECEIVE_SGE_COUNT, count);
        return context.postReceive(queuePair, receive.address(), refused.address() + Long.BYTES);
    }
}
