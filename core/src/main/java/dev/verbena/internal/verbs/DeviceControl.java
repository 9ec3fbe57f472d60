package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;
import dev.verbena.AdapterInfo;
import dev.verbena.Port;
import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvAsyncEvent;
import dev.verbena.internal.verbs.Structs.IbvCompChannel;
import dev.verbena.internal.verbs.Structs.IbvContext;
import dev.verbena.internal.verbs.Structs.IbvDevice;
import dev.verbena.internal.verbs.Structs.IbvDeviceAttrEx;
import dev.verbena.internal.verbs.Structs.IbvGidEntry;
import dev.verbena.internal.verbs.Structs.IbvModifyCqAttr;
import dev.verbena.internal.verbs.Structs.IbvMr;
import dev.verbena.internal.verbs.Structs.IbvMw;
import dev.verbena.internal.verbs.Structs.IbvQp;
import dev.verbena.internal.verbs.Structs.IbvQpAttr;
import dev.verbena.internal.verbs.Structs.IbvQpInitAttr;
import dev.verbena.internal.verbs.Structs.IbvSge;
import dev.verbena.internal.verbs.Structs.IbvSrqAttr;
import dev.verbena.internal.verbs.Structs.IbvSrqInitAttr;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.List;
import java.util.function.LongFunction;

/**
 * The control calls of one opened device, through libibverbs: they create, modify and destroy its
 * objects. Each returns an address, a number or 0, or a negative errno; only {@link #queryDevice}
 * throws.
 *
 * <p>The layers above are tested with a subclass that overrides all methods.
 */
public class DeviceControl {
    private static final long EXTENDED = -1; // __VERBS_ABI_IS_EXTENDED

    private final long context;

    /** Takes over an opened device: an {@code ibv_context}. */
    public DeviceControl(long context) {
        this.context = context;
        // Events are taken after poll(2) has reported one. If another reader takes it first,
        // ibv_get_async_event must return EAGAIN instead of blocking.
        Descriptors.nonBlocking(Native.getInt(context, IbvContext.ASYNC_FD));
    }

    /** For a device that does not exist. */
    protected DeviceControl() {
        this.context = 0;
    }

    /** The address of the {@code ibv_context}. */
    public long context() {
        return context;
    }

    /**
     * Finds a function of the {@code verbs_context} as {@code verbs_get_ctx_op} does. In verbs.h,
     * these functions are inline and not exported. The struct ends with the {@code ibv_context},
     * and grows at its front.
     *
     * @return one that {@linkplain NativeFunction#isNull is null} where the library or the provider
     *     does not have it
     */
    static NativeFunction extended(long context, long offset) {
        if (Native.getLong(context, IbvContext.ABI_COMPAT) != EXTENDED) {
            return NativeFunction.at(0);
        }
        long start = context - Structs.VerbsContext.CONTEXT;
        long size = Native.getLong(start, Structs.VerbsContext.SZ);
        return NativeFunction.at(
                size >= Structs.VerbsContext.SIZE - offset ? Native.getLong(start, offset) : 0);
    }

    private NativeFunction extended(long offset) {
        return extended(context, offset);
    }

    /** A function of the device's table, which verbs.h calls inline. */
    private NativeFunction inTable(long offset) {
        return NativeFunction.at(Native.getLong(context, offset));
    }

    // ---- the device and its ports

    /** {@code ibv_close_device}. */
    public int close() {
        return VerbsFunctions.CLOSE_DEVICE.value(context);
    }

    /**
     * {@code ibv_query_device_ex} if there is one, as in verbs.h, and otherwise {@code
     * ibv_query_device}.
     *
     * @param name the device's name
     * @return what the device reports: each limit holds on its own, depths are those of the device,
     *     and what only a probe or the ports can tell is 0 or false
     */
    public AdapterInfo queryDevice(String name) {
        long device = Native.getLong(context, IbvContext.DEVICE);
        int transport = Native.getInt(device, IbvDevice.TRANSPORT_TYPE);
        NativeFunction query = extended(Structs.VerbsContext.QUERY_DEVICE_EX);
        long size = IbvDeviceAttrEx.SIZE; // begins with an ibv_device_attr
        try (Scratch scratch = Scratch.borrow()) {
            long attributes = scratch.allocate(size);
            if (query.isNull() || query.value(context, 0, attributes, size) != 0) {
                Native.at(attributes, size).fill((byte) 0);
                int error = VerbsFunctions.QUERY_DEVICE.value(context, attributes);
                Errno.check(error, "ibv_query_device", "");
            }
            return DeviceAttributes.info(name, transport, attributes);
        }
    }

    /** Creates the data path: the functions that post requests and poll completions. */
    public VerbsContext dataPath(Provider provider) {
        return new VerbsContext(context, provider.throughKernel());
    }

    /**
     * {@code verbs_context.query_port} if there is one, as in verbs.h, and otherwise the exported
     * {@code ibv_query_port}, which fills only the first version of the struct: adds a port,
     * without its GIDs.
     *
     * @param number the port, from 1
     * @return the length of its GID table, or a negative errno
     */
    public long queryPort(int number, List<Port> ports) {
        NativeFunction query = extended(Structs.VerbsContext.QUERY_PORT);
        long size = DeviceAttributes.PORT_BYTES;
        try (Scratch scratch = Scratch.borrow()) {
            long port = scratch.allocate(size);
            int error =
                    query.isNull()
                            ? VerbsFunctions.QUERY_PORT.value(context, number, port)
                            : query.value(context, number, port, size);
            return error < 0 ? error : DeviceAttributes.port(number, port, ports);
        }
    }

    /** {@code ibv_query_gid_table}: adds the GIDs in use on all ports. */
    public long queryGids(long atMost, List<Port.GidEntry> gids) {
        if (atMost == 0) {
            return 0;
        }
        try (Scratch scratch = Scratch.borrow();
                Arena arena = Arena.ofConfined()) { // too large for Scratch: thousands of bytes
            long size = IbvGidEntry.SIZE;
            long entries = arena.allocate(size * atMost, Long.BYTES).address();
            long count =
                    VerbsFunctions.QUERY_GID_TABLE.call(scratch, context, entries, atMost, 0, size);
            for (int i = 0; i < count; i++) {
                gids.add(DeviceAttributes.gid(entries + size * i));
            }
            return Math.min(count, 0); // a count, or the negative errno itself
        }
    }

    // ---- protection domains, memory and windows

    /** {@code ibv_alloc_pd}. */
    public long allocatePd() {
        return VerbsFunctions.ALLOC_PD.pointer(context);
    }

    /** {@code ibv_dealloc_pd}. */
    public int deallocatePd(long pd) {
        return VerbsFunctions.DEALLOC_PD.value(pd);
    }

    /** {@code ibv_reg_mr}, with its optional rights. */
    public long registerMemory(long pd, MemorySegment memory, int access) {
        try {
            long address = memory.address();
            long bytes = memory.byteSize();
            // As the macro ibv_reg_mr does: only the second function drops optional rights where
            // the kernel knows none.
            return (access & Rights.OPTIONAL) == 0
                    ? VerbsFunctions.REG_MR.pointer(pd, address, bytes, access)
                    : VerbsFunctions.OptionalRights.REG_MR_IOVA2.pointer(
                            pd, address, bytes, address, access);
        } finally {
            Reference.reachabilityFence(memory);
        }
    }

    /**
     * {@code ibv_reg_dmabuf_mr}.
     *
     * @param iova the address that requests name the first byte by
     */
    public long registerDmaBuf(
            long pd, int descriptor, long offset, long length, long iova, int access) {
        return VerbsFunctions.DmaBufs.REG_DMABUF_MR.pointer(
                pd, offset, length, iova, descriptor, access);
    }

    /**
     * {@code ibv_advise_mr} for one range, with the flag FLUSH: returns when it is done.
     *
     * @param length how many bytes, unsigned
     */
    public int prefetch(long pd, int advice, long address, int length, int localKey) {
        NativeFunction advise = extended(Structs.VerbsContext.ADVISE_MR);
        if (advise.isNull()) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            long sge = scratch.allocate(IbvSge.SIZE);
            Native.putLong(sge, IbvSge.ADDR, address);
            Native.putInt(sge, IbvSge.LENGTH, length);
            Native.putInt(sge, IbvSge.LKEY, localKey);
            return advise.value(pd, advice, Verbs.IB_UVERBS_ADVISE_MR_FLAG_FLUSH, sge, 1);
        }
    }

    /** The local key of a region (NDK: local token). */
    public int localKey(long mr) {
        return Native.getInt(mr, IbvMr.LKEY);
    }

    /** The remote key of a region (NDK: remote token). */
    public int remoteKey(long mr) {
        return Native.getInt(mr, IbvMr.RKEY);
    }

    /** {@code ibv_dereg_mr}. */
    public int deregisterMemory(long mr) {
        return VerbsFunctions.DEREG_MR.value(mr);
    }

    /** {@code ibv_alloc_mw} of type 2. */
    public long allocateWindow(long pd) {
        NativeFunction allocate = inTable(IbvContext.OPS_ALLOC_MW);
        return allocate.isNull() ? -Errno.EOPNOTSUPP : allocate.pointer(pd, Verbs.IBV_MW_TYPE_2);
    }

    /** The remote key of a new window. */
    public int windowKey(long mw) {
        return Native.getInt(mw, IbvMw.RKEY);
    }

    /**
     * Writes a window's current remote key into {@code mw->rkey}, where some providers read it when
     * a bind is posted. Verbs leaves that to the application.
     */
    public void setWindowKey(long mw, int key) {
        Native.putInt(mw, IbvMw.RKEY, key);
    }

    /** {@code ibv_dealloc_mw}. */
    public int freeWindow(long mw) {
        return inTable(IbvContext.OPS_DEALLOC_MW).value(mw);
    }

    // ---- completion queues and their channels

    /** {@code ibv_create_comp_channel}. */
    public long createChannel() {
        long channel = VerbsFunctions.CREATE_CHANNEL.pointer(context);
        if (channel > 0) {
            Descriptors.nonBlocking(channelDescriptor(channel));
        }
        return channel;
    }

    /** The non-blocking file descriptor that becomes readable when there is an event. */
    public int channelDescriptor(long channel) {
        return Native.getInt(channel, IbvCompChannel.FD);
    }

    /** Allocates the native memory for waiting on a channel. */
    public EventWait newWait(long channel, int wakeUp) {
        return new EventWait(channel, channelDescriptor(channel), wakeUp);
    }

    /**
     * {@code ibv_get_cq_event} and {@code ibv_ack_cq_events}: takes one event if there is one.
     *
     * @param wait the channel's; no other thread may use it during the call
     * @return 1 when there was one, 0 when there was none, or a negative errno
     */
    public int takeEvent(long channel, EventWait wait) {
        if (wait.takeEvent()) {
            return 1;
        }
        // No event, or an error: repeat the call with errno captured. An event that has arrived by
        // now is taken.
        int error = wait.takeEventOrErrno();
        return error == 0 ? 1 : error == -Errno.EAGAIN ? 0 : error;
    }

    /**
     * As {@link #takeEvent}, for a channel that probably has an event: makes one system call, and
     * does not report why no event was taken.
     */
    public boolean takeEventIfThere(long channel, EventWait wait) {
        return wait.takeEvent();
    }

    /** {@code ibv_destroy_comp_channel}. */
    public int destroyChannel(long channel) {
        return VerbsFunctions.DESTROY_CHANNEL.value(channel);
    }

    /** How many completion vectors the device has ({@code num_comp_vectors}). */
    public int completionVectors() {
        return Math.max(1, Native.getInt(context, IbvContext.NUM_COMP_VECTORS));
    }

    /**
     * {@code ibv_create_cq}.
     *
     * @param depth how many completions it must be able to hold
     * @param channel the channel for its events, or 0
     * @param vector the completion vector that signals them, from 0
     * @param cqContext its {@code cq_context}: {@link EventWait#context} returns it with each event
     */
    public long createCq(int depth, long channel, int vector, long cqContext) {
        return VerbsFunctions.CREATE_CQ.pointer(context, depth, cqContext, channel, vector);
    }

    /** {@code ibv_resize_cq}. */
    public int resizeCq(long cq, int depth) {
        return VerbsFunctions.RESIZE_CQ.value(cq, depth);
    }

    /**
     * {@code ibv_modify_cq} with IBV_CQ_ATTR_MODERATE.
     *
     * @param count after how many completions an event comes, 16 bits
     * @param microseconds after which time at the latest, 16 bits
     */
    public int moderateCq(long cq, int count, int microseconds) {
        NativeFunction modify = extended(Structs.VerbsContext.MODIFY_CQ);
        if (modify.isNull()) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            long change = scratch.allocate(IbvModifyCqAttr.SIZE);
            Native.putInt(change, IbvModifyCqAttr.ATTR_MASK, Verbs.IBV_CQ_ATTR_MODERATE);
            Native.putShort(change, IbvModifyCqAttr.MODERATE_CQ_COUNT, count);
            Native.putShort(change, IbvModifyCqAttr.MODERATE_CQ_PERIOD, microseconds);
            return modify.value(cq, change);
        }
    }

    /** {@code ibv_destroy_cq}. */
    public int destroyCq(long cq) {
        return VerbsFunctions.DESTROY_CQ.value(cq);
    }

    // ---- shared receive queues and queue pairs

    /**
     * {@code ibv_create_srq}.
     *
     * @param depth how many receives may be posted
     * @param sge how many buffers each may name
     */
    public long createSrq(long pd, int depth, int sge) {
        try (Scratch scratch = Scratch.borrow()) {
            long init = scratch.allocate(IbvSrqInitAttr.SIZE);
            Native.putInt(init, IbvSrqInitAttr.ATTR_MAX_WR, depth);
            Native.putInt(init, IbvSrqInitAttr.ATTR_MAX_SGE, sge);
            return VerbsFunctions.CREATE_SRQ.pointer(pd, init);
        }
    }

    /**
     * {@code ibv_modify_srq}: requests one event, as soon as fewer receives than the limit are
     * posted.
     */
    public int limitSrq(long srq, int limit) {
        return modifySrq(srq, IbvSrqAttr.SRQ_LIMIT, limit, Verbs.IBV_SRQ_LIMIT);
    }

    /** {@code ibv_modify_srq} with IBV_SRQ_MAX_WR. */
    public int resizeSrq(long srq, int depth) {
        return modifySrq(srq, IbvSrqAttr.MAX_WR, depth, Verbs.IBV_SRQ_MAX_WR);
    }

    private static int modifySrq(long srq, long field, int value, int mask) {
        try (Scratch scratch = Scratch.borrow()) {
            long attributes = scratch.allocate(IbvSrqAttr.SIZE);
            Native.putInt(attributes, field, value);
            return VerbsFunctions.MODIFY_SRQ.value(srq, attributes, mask);
        }
    }

    /** {@code ibv_destroy_srq}. */
    public int destroySrq(long srq) {
        return VerbsFunctions.DESTROY_SRQ.value(srq);
    }

    /**
     * {@code ibv_create_qp}: creates a reliable connected (RC) queue pair with {@code sq_sig_all} =
     * 0, so that only requests with IBV_SEND_SIGNALED are signaled.
     *
     * @param srq the {@code ibv_srq} it takes receives from, or 0 for its own receive queue
     */
    public long createQp(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape) {
        try (Scratch scratch = Scratch.borrow()) {
            long init = scratch.allocate(IbvQpInitAttr.SIZE);
            Native.putLong(init, IbvQpInitAttr.SEND_CQ, sendCq);
            Native.putLong(init, IbvQpInitAttr.RECV_CQ, receiveCq);
            Native.putLong(init, IbvQpInitAttr.SRQ, srq);
            Native.putInt(init, IbvQpInitAttr.QP_TYPE, Verbs.IBV_QPT_RC);
            Native.putInt(init, IbvQpInitAttr.SQ_SIG_ALL, 0);
            Native.putInt(init, IbvQpInitAttr.CAP_MAX_SEND_WR, shape.sendDepth());
            Native.putInt(init, IbvQpInitAttr.CAP_MAX_RECV_WR, shape.receiveDepth());
            Native.putInt(init, IbvQpInitAttr.CAP_MAX_SEND_SGE, shape.sendSge());
            Native.putInt(init, IbvQpInitAttr.CAP_MAX_RECV_SGE, shape.receiveSge());
            Native.putInt(init, IbvQpInitAttr.CAP_MAX_INLINE_DATA, shape.inlineBytes());
            return VerbsFunctions.CREATE_QP.pointer(pd, init);
        }
    }

    /** A queue pair's number ({@code qp_num}), by which its peer addresses it. */
    public int queuePairNumber(long qp) {
        return Native.getInt(qp, IbvQp.QP_NUM);
    }

    /**
     * {@code ibv_modify_qp} from RESET to INIT, after which receives may be posted.
     *
     * @param access the operations of the peer that the queue pair allows: {@code
     *     IBV_ACCESS_REMOTE_…}
     */
    public int toInit(long qp, int port, int access) {
        try (StateChange change = StateChange.initialized(port, access)) {
            return change(qp, change);
        }
    }

    /** {@code ibv_modify_qp}. */
    public int change(long qp, StateChange change) {
        return VerbsFunctions.MODIFY_QP.value(qp, change.attributes(), change.mask());
    }

    /** {@code ibv_modify_qp} to the error state, which flushes outstanding requests. */
    public int toError(long qp) {
        try (StateChange change = StateChange.toError()) {
            return change(qp, change);
        }
    }

    /**
     * {@code ibv_query_qp}: whether the queue pair is in the error state; false if the query fails.
     * Called while polling, so it must not allocate: borrowing does not, unless other threads do so
     * at the same time.
     */
    public boolean inError(long qp) {
        try (Scratch scratch = Scratch.borrow()) {
            long attributes = scratch.reserve(IbvQpAttr.SIZE);
            long initial = scratch.reserve(IbvQpInitAttr.SIZE);
            int error = // returned by value; only whether it is 0 matters
                    VerbsFunctions.QUERY_QP.callWithoutErrno(
                            qp, attributes, Verbs.IBV_QP_STATE, initial);
            return error == 0 && Native.getInt(attributes, IbvQpAttr.QP_STATE) == Verbs.IBV_QPS_ERR;
        }
    }

    /** {@code ibv_destroy_qp}. */
    public int destroyQp(long qp) {
        return VerbsFunctions.DESTROY_QP.value(qp);
    }

    // ---- asynchronous events

    /** Waits for events of the device and others, as {@link Descriptors#await} does. */
    public int await(int milliseconds, int... descriptors) {
        return Descriptors.await(milliseconds, descriptors);
    }

    /** The file descriptor, non-blocking, that becomes readable with an asynchronous event. */
    public int asyncDescriptor() {
        return Native.getInt(context, IbvContext.ASYNC_FD);
    }

    /**
     * {@code ibv_get_async_event} and {@code ibv_ack_async_event}: takes one event if there is one.
     *
     * @param objects finds this library's object at a native address. Called before the event is
     *     acknowledged: until then the native object cannot be destroyed, and its address not be
     *     used again
     * @return the event, or null if none was pending. {@link AdapterEvent.Type#DEVICE_REMOVED}: the
     *     device was removed, and no event will follow. The descriptor stays readable nevertheless,
     *     so the event loop must stop polling it
     */
    public @Nullable AsyncEvent takeAsyncEvent(LongFunction<@Nullable Object> objects) {
        try (Scratch scratch = Scratch.borrow()) {
            long event = scratch.allocate(IbvAsyncEvent.SIZE);
            int error = VerbsFunctions.GET_ASYNC_EVENT.value(context, event);
            if (error != 0) {
                // EIO from ib_uverbs_event_read: the device was disassociated. Kernels before 6.5
                // (or 6.1.34) return EAGAIN then, as if no event were pending.
                return error == -Errno.EIO
                        ? new AsyncEvent(AdapterEvent.Type.DEVICE_REMOVED)
                        : null;
            }
            try {
                return AsyncEvent.copy(event, objects);
            } finally {
                // Destroying the object that an event names blocks until then. Also where copying
                // the event failed (out of memory).
                VerbsFunctions.ACK_ASYNC_EVENT.callWithoutErrno(event, 0, 0);
            }
        }
    }
}
