package dev.verbena.bench;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_mr;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_qp_cap;
import dev.verbena.bindings.ibv_qp_init_attr;
import dev.verbena.bindings.ibv_sge;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The stand-in's device, opened with what jextract made of verbs.h and nothing else. It is closed
 * by the end of the process.
 */
final class RawDevice {
    private static final int BYTES = 64;
    private static final Arena ARENA = Arena.global();

    private static final MemorySegment CONTEXT = open();

    private final MemorySegment domain;
    private final MemorySegment buffers;

    /** Registers a buffer of 64 bytes. */
    RawDevice() {
        domain = made(LibIbverbs.ibv_alloc_pd(CONTEXT), "ibv_alloc_pd");
        MemorySegment memory = ARENA.allocate(4096, 64);
        MemorySegment region =
                made(
                        LibIbverbs.ibv_reg_mr(
                                domain, memory, memory.byteSize(), Verbs.IBV_ACCESS_LOCAL_WRITE),
                        "ibv_reg_mr");
        buffers = ibv_sge.allocate(ARENA);
        ibv_sge.addr(buffers, memory.address());
        ibv_sge.length(buffers, BYTES);
        ibv_sge.lkey(buffers, ibv_mr.lkey(region));
    }

    /** The one device of the process. */
    static MemorySegment context() {
        return CONTEXT;
    }

    /** The list of one buffer. */
    MemorySegment buffers() {
        return buffers;
    }

    private static MemorySegment open() {
        MemorySegment count = ARENA.allocate(ValueLayout.JAVA_INT);
        MemorySegment list = made(LibIbverbs.ibv_get_device_list(count), "ibv_get_device_list");
        MemorySegment device = list.get(Verbs.C_POINTER, 0);
        String name = LibIbverbs.ibv_get_device_name(device).getString(0);
        if (!name.equals("copy0")) {
            throw new IllegalStateException("LD_LIBRARY_PATH is not the stand-in's: " + name);
        }
        return made(LibIbverbs.ibv_open_device(device), "ibv_open_device");
    }

    MemorySegment completionQueue(int depth) {
        return made(
                LibIbverbs.ibv_create_cq(CONTEXT, depth, MemorySegment.NULL, MemorySegment.NULL, 0),
                "ibv_create_cq");
    }

    /** A queue pair that is connected, as far as the stand-in asks for it. */
    MemorySegment queuePair(MemorySegment queue, int depth) {
        MemorySegment how = ibv_qp_init_attr.allocate(ARENA);
        ibv_qp_init_attr.send_cq(how, queue);
        ibv_qp_init_attr.recv_cq(how, queue);
        ibv_qp_init_attr.qp_type(how, Verbs.IBV_QPT_RC);
        MemorySegment limits = ibv_qp_init_attr.cap(how);
        ibv_qp_cap.max_send_wr(limits, depth);
        ibv_qp_cap.max_recv_wr(limits, 1);
        ibv_qp_cap.max_send_sge(limits, 1);
        ibv_qp_cap.max_recv_sge(limits, 1);
        MemorySegment queuePair = made(LibIbverbs.ibv_create_qp(domain, how), "ibv_create_qp");
        MemorySegment attributes = ibv_qp_attr.allocate(ARENA);
        for (int state : new int[] {Verbs.IBV_QPS_INIT, Verbs.IBV_QPS_RTR, Verbs.IBV_QPS_RTS}) {
            ibv_qp_attr.qp_state(attributes, state);
            int error = LibIbverbs.ibv_modify_qp(queuePair, attributes, Verbs.IBV_QP_STATE);
            if (error != 0) {
                throw new IllegalStateException("ibv_modify_qp to %d: %d".formatted(state, error));
            }
        }
        return queuePair;
    }

    private static MemorySegment made(MemorySegment object, String function) {
        if (object.address() == 0) {
            throw new IllegalStateException(function + " failed");
        }
        return object;
    }
}
