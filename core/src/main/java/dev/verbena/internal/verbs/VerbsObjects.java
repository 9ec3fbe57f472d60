package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_mr;
import dev.verbena.bindings.ibv_qp;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_qp_cap;
import dev.verbena.bindings.ibv_qp_init_attr;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Making, changing and destroying what a device holds: protection domains, memory regions,
 * completion queues, queue pairs. Each answers an address or 0, or a negative errno.
 */
public final class VerbsObjects {
    /** {@code IBV_ACCESS_LOCAL_WRITE}. */
    public static final int LOCAL_WRITE = Verbs.IBV_ACCESS_LOCAL_WRITE;

    /** {@code IBV_ACCESS_REMOTE_WRITE}. */
    public static final int REMOTE_WRITE = Verbs.IBV_ACCESS_REMOTE_WRITE;

    /** {@code IBV_ACCESS_REMOTE_READ}. */
    public static final int REMOTE_READ = Verbs.IBV_ACCESS_REMOTE_READ;

    // Local ACK timeout 4.096 us * 2^14 = 67 ms, seven tries: about half a second until a peer that
    // vanished is IO_TIMEOUT.
    private static final int ACK_TIMEOUT = 14;
    private static final int RETRIES = 7;
    // A peer that has no receive posted is asked 6 times again (7 would be for ever, where NDK
    // expects an end), each after 655 ms,
    // which is what 0 stands for: about 4 s, more than a pause of its garbage collector, until
    // IO_TIMEOUT.
    private static final int RECEIVER_NOT_READY_RETRIES = 6;
    private static final int RECEIVER_NOT_READY_TIMER = 0;
    private static final int HOP_LIMIT = 64;

    private VerbsObjects() {}

    /**
     * {@code ibv_alloc_pd}.
     *
     * @param context the device
     * @return the {@code ibv_pd}, or a negative errno
     */
    public static long allocatePd(VerbsContext context) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            return Calls.pointer(
                    (MemorySegment) Calls.ALLOC_PD.invokeExact(state, context.segment()), state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_dealloc_pd}.
     *
     * @param pd the {@code ibv_pd}
     * @return 0, or a negative errno
     */
    public static int deallocatePd(long pd) {
        return destroy(Calls.DEALLOC_PD, pd);
    }

    /**
     * {@code ibv_reg_mr}.
     *
     * @param pd the {@code ibv_pd}
     * @param memory native memory
     * @param access {@code IBV_ACCESS_…}, none of the optional ones
     * @return the {@code ibv_mr}, or a negative errno
     */
    public static long registerMemory(long pd, MemorySegment memory, int access) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            return Calls.pointer(
                    (MemorySegment)
                            Calls.REG_MR.invokeExact(
                                    state,
                                    MemorySegment.ofAddress(pd),
                                    memory,
                                    memory.byteSize(),
                                    access),
                    state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * The local token of a region.
     *
     * @param mr the {@code ibv_mr}
     * @return its lkey
     */
    public static int localKey(long mr) {
        return ibv_mr.lkey(Native.at(mr, ibv_mr.sizeof()));
    }

    /**
     * The remote token of a region.
     *
     * @param mr the {@code ibv_mr}
     * @return its rkey
     */
    public static int remoteKey(long mr) {
        return ibv_mr.rkey(Native.at(mr, ibv_mr.sizeof()));
    }

    /**
     * {@code ibv_dereg_mr}.
     *
     * @param mr the {@code ibv_mr}
     * @return 0, or a negative errno
     */
    public static int deregisterMemory(long mr) {
        return destroy(Calls.DEREG_MR, mr);
    }

    /**
     * {@code ibv_create_cq}, without a completion channel.
     *
     * @param context the device
     * @param depth how many completions it has to hold
     * @return the {@code ibv_cq}, or a negative errno
     */
    public static long createCq(VerbsContext context, int depth) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            return Calls.pointer(
                    (MemorySegment)
                            Calls.CREATE_CQ.invokeExact(
                                    state,
                                    context.segment(),
                                    depth,
                                    MemorySegment.NULL,
                                    MemorySegment.NULL,
                                    0),
                    state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_destroy_cq}.
     *
     * @param cq the {@code ibv_cq}
     * @return 0, or a negative errno
     */
    public static int destroyCq(long cq) {
        return destroy(Calls.DESTROY_CQ, cq);
    }

    /**
     * {@code ibv_create_qp}: a reliable connected queue pair that signals only what asks for it.
     *
     * @param pd the {@code ibv_pd}
     * @param sendCq the {@code ibv_cq} of the initiator queue
     * @param receiveCq the {@code ibv_cq} of the receive queue
     * @param sendDepth how deep the initiator queue is
     * @param receiveDepth how deep the receive queue is
     * @param sendSge how many buffers an initiator request may name
     * @param receiveSge how many buffers a receive may name
     * @return the {@code ibv_qp}, or a negative errno
     */
    public static long createQp(
            long pd,
            long sendCq,
            long receiveCq,
            int sendDepth,
            int receiveDepth,
            int sendSge,
            int receiveSge) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            MemorySegment init = ibv_qp_init_attr.allocate(arena);
            ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(sendCq));
            ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(receiveCq));
            ibv_qp_init_attr.qp_type(init, Verbs.IBV_QPT_RC);
            ibv_qp_init_attr.sq_sig_all(init, 0);
            MemorySegment cap = ibv_qp_init_attr.cap(init);
            ibv_qp_cap.max_send_wr(cap, sendDepth);
            ibv_qp_cap.max_recv_wr(cap, receiveDepth);
            ibv_qp_cap.max_send_sge(cap, sendSge);
            ibv_qp_cap.max_recv_sge(cap, receiveSge);
            return Calls.pointer(
                    (MemorySegment)
                            Calls.CREATE_QP.invokeExact(state, MemorySegment.ofAddress(pd), init),
                    state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * A queue pair's number, by which its peer finds it.
     *
     * @param qp the {@code ibv_qp}
     * @return 24 bits
     */
    public static int queuePairNumber(long qp) {
        return ibv_qp.qp_num(Native.at(qp, ibv_qp.sizeof()));
    }

    /**
     * {@code ibv_modify_qp} from RESET to INIT, after which receives may be posted.
     *
     * @param qp the {@code ibv_qp}
     * @param port the port
     * @param access what the peer may do at all: {@code IBV_ACCESS_REMOTE_…}
     * @return 0, or a negative errno
     */
    public static int toInit(long qp, int port, int access) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment a = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_INIT);
            ibv_qp_attr.pkey_index(a, (short) 0);
            ibv_qp_attr.port_num(a, (byte) port);
            ibv_qp_attr.qp_access_flags(a, access);
            return modify(
                    arena,
                    qp,
                    a,
                    Verbs.IBV_QP_STATE
                            | Verbs.IBV_QP_PKEY_INDEX
                            | Verbs.IBV_QP_PORT
                            | Verbs.IBV_QP_ACCESS_FLAGS);
        }
    }

    /**
     * {@code ibv_modify_qp} from INIT to ready-to-receive: from here on the peer can reach it.
     *
     * @param qp the {@code ibv_qp}
     * @param path how to reach the peer
     * @return 0, or a negative errno
     */
    public static int toReadyToReceive(long qp, PathAttributes path) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment a = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_RTR);
            ibv_qp_attr.path_mtu(a, path.mtu());
            ibv_qp_attr.dest_qp_num(a, path.peerNumber());
            ibv_qp_attr.rq_psn(a, path.peerSequence());
            ibv_qp_attr.max_dest_rd_atomic(a, (byte) path.inboundReads());
            ibv_qp_attr.min_rnr_timer(a, (byte) RECEIVER_NOT_READY_TIMER);
            MemorySegment address = ibv_qp_attr.ah_attr(a);
            ibv_ah_attr.dlid(address, (short) path.peerLid());
            ibv_ah_attr.port_num(address, (byte) path.port());
            if (path.ethernet()) {
                ibv_ah_attr.is_global(address, (byte) 1);
                MemorySegment route = ibv_ah_attr.grh(address);
                ibv_global_route.sgid_index(route, (byte) path.gidIndex());
                ibv_global_route.hop_limit(route, (byte) HOP_LIMIT);
                MemorySegment gid = ibv_global_route.dgid(route);
                gid.set(Native.BIG_ENDIAN_LONG, 0, path.peerGidHigh());
                gid.set(Native.BIG_ENDIAN_LONG, Long.BYTES, path.peerGidLow());
            }
            return modify(
                    arena,
                    qp,
                    a,
                    Verbs.IBV_QP_STATE
                            | Verbs.IBV_QP_AV
                            | Verbs.IBV_QP_PATH_MTU
                            | Verbs.IBV_QP_DEST_QPN
                            | Verbs.IBV_QP_RQ_PSN
                            | Verbs.IBV_QP_MAX_DEST_RD_ATOMIC
                            | Verbs.IBV_QP_MIN_RNR_TIMER);
        }
    }

    /**
     * {@code ibv_modify_qp} from ready-to-receive to ready-to-send.
     *
     * @param qp the {@code ibv_qp}
     * @param sequence the sequence number of its first packet
     * @param outboundReads how many reads it may have under way
     * @return 0, or a negative errno
     */
    public static int toReadyToSend(long qp, int sequence, int outboundReads) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment a = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_RTS);
            ibv_qp_attr.timeout(a, (byte) ACK_TIMEOUT);
            ibv_qp_attr.retry_cnt(a, (byte) RETRIES);
            ibv_qp_attr.rnr_retry(a, (byte) RECEIVER_NOT_READY_RETRIES);
            ibv_qp_attr.sq_psn(a, sequence);
            ibv_qp_attr.max_rd_atomic(a, (byte) outboundReads);
            return modify(
                    arena,
                    qp,
                    a,
                    Verbs.IBV_QP_STATE
                            | Verbs.IBV_QP_TIMEOUT
                            | Verbs.IBV_QP_RETRY_CNT
                            | Verbs.IBV_QP_RNR_RETRY
                            | Verbs.IBV_QP_SQ_PSN
                            | Verbs.IBV_QP_MAX_QP_RD_ATOMIC);
        }
    }

    /**
     * {@code ibv_destroy_qp}.
     *
     * @param qp the {@code ibv_qp}
     * @return 0, or a negative errno
     */
    public static int destroyQp(long qp) {
        return destroy(Calls.DESTROY_QP, qp);
    }

    private static int modify(Arena arena, long qp, MemorySegment attributes, int mask) {
        try {
            MemorySegment state = Calls.state(arena);
            return Calls.value(
                    (int)
                            Calls.MODIFY_QP.invokeExact(
                                    state, MemorySegment.ofAddress(qp), attributes, mask),
                    state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    private static int destroy(MethodHandle call, long address) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            return Calls.value(
                    (int) call.invokeExact(state, MemorySegment.ofAddress(address)), state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }
}
