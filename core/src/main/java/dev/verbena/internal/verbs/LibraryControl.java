package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;
import dev.verbena.AdapterInfo;
import dev.verbena.Port;
import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.LongFunction;

/** {@link DeviceControl} of a real device, through libibverbs. */
public final class LibraryControl implements DeviceControl {
    private final long context;
    private final ExtendedContext extended;
    private final LibraryRegions regions;
    private final DeviceQueries queries;

    // Not in Calls: verbs.h defines these two as inline functions that call through the device's
    // function table.
    private final NativeFunction allocMw;
    private final NativeFunction deallocMw;

    /** Takes over an opened device. */
    public LibraryControl(long context) {
        this.context = context;
        this.extended = new ExtendedContext(context);
        this.regions = new LibraryRegions(extended);
        this.queries = new DeviceQueries(context, extended);
        this.allocMw = inTable(Structs.IbvContext.OPS_ALLOC_MW);
        this.deallocMw = inTable(Structs.IbvContext.OPS_DEALLOC_MW);
        // Events are taken after poll(2) has reported one. If another reader takes it first,
        // ibv_get_async_event must return EAGAIN instead of blocking.
        Descriptors.nonBlocking(asyncDescriptor());
    }

    private NativeFunction inTable(long offset) {
        return NativeFunction.at(Native.getLong(context, offset));
    }

    @Override
    public int close() {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(Calls.CLOSE_DEVICE.call(scratch, context));
        }
    }

    @Override
    public AdapterInfo queryDevice(String name) {
        return queries.device(name);
    }

    @Override
    public VerbsContext dataPath(Provider provider) {
        return new VerbsContext(context).withCriticalCalls(provider.throughKernel());
    }

    @Override
    public long queryPort(int number, List<Port> ports) {
        return queries.port(number, ports);
    }

    @Override
    public long queryGids(long atMost, List<Port.GidEntry> gids) {
        return queries.gids(atMost, gids);
    }

    @Override
    public long allocatePd() {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(Calls.ALLOC_PD.call(scratch, context));
        }
    }

    @Override
    public int deallocatePd(long pd) {
        return destroy(Calls.DEALLOC_PD, pd);
    }

    @Override
    public long registerMemory(long pd, MemorySegment memory, int access) {
        return regions.register(pd, memory, access);
    }

    @Override
    public long registerDmaBuf(
            long pd, int descriptor, long offset, long length, long iova, int access) {
        return regions.registerDmaBuf(pd, descriptor, offset, length, iova, access);
    }

    @Override
    public int prefetch(long pd, int advice, long address, int length, int localKey) {
        return regions.prefetch(pd, advice, address, length, localKey);
    }

    @Override
    public int localKey(long mr) {
        return Native.getInt(mr, Structs.IbvMr.LKEY);
    }

    @Override
    public int remoteKey(long mr) {
        return Native.getInt(mr, Structs.IbvMr.RKEY);
    }

    @Override
    public int deregisterMemory(long mr) {
        return destroy(Calls.DEREG_MR, mr);
    }

    @Override
    public long allocateWindow(long pd) {
        if (allocMw.isNull()) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(allocMw.call(scratch, pd, Verbs.IBV_MW_TYPE_2));
        }
    }

    @Override
    public int windowKey(long mw) {
        return Native.getInt(mw, Structs.IbvMw.RKEY);
    }

    @Override
    public void setWindowKey(long mw, int key) {
        Native.putInt(mw, Structs.IbvMw.RKEY, key);
    }

    @Override
    public int freeWindow(long mw) {
        return destroy(deallocMw, mw);
    }

    @Override
    public long createChannel() {
        try (Scratch scratch = Scratch.borrow()) {
            long channel = scratch.pointer(Calls.CREATE_CHANNEL.call(scratch, context));
            if (channel > 0) {
                Descriptors.nonBlocking(channelDescriptor(channel));
            }
            return channel;
        }
    }

    @Override
    public int channelDescriptor(long channel) {
        return Native.getInt(channel, Structs.IbvCompChannel.FD);
    }

    @Override
    public int takeEvent(long channel, EventWait wait) {
        if (wait.takeEvent()) {
            return 1;
        }
        // No event, or an error: repeat the call with errno captured. An event that has arrived by
        // now is taken.
        int error = wait.takeEventOrErrno();
        return error == 0 ? 1 : error == -Errno.EAGAIN ? 0 : error;
    }

    @Override
    public boolean takeEventIfThere(long channel, EventWait wait) {
        return wait.takeEvent();
    }

    @Override
    public int destroyChannel(long channel) {
        return destroy(Calls.DESTROY_CHANNEL, channel);
    }

    @Override
    public int completionVectors() {
        return Math.max(1, Native.getInt(context, Structs.IbvContext.NUM_COMP_VECTORS));
    }

    @Override
    public long createCq(int depth, long channel, int vector, long cqContext) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    Calls.CREATE_CQ.call(scratch, context, depth, cqContext, channel, vector));
        }
    }

    @Override
    public int resizeCq(long cq, int depth) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(Calls.RESIZE_CQ.call(scratch, cq, depth));
        }
    }

    @Override
    public int moderateCq(long cq, int count, int microseconds) {
        NativeFunction modify = extended.function(Structs.VerbsContext.MODIFY_CQ);
        if (modify.isNull()) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            long change = scratch.allocate(Structs.IbvModifyCqAttr.SIZE);
            Native.putInt(change, Structs.IbvModifyCqAttr.ATTR_MASK, Verbs.IBV_CQ_ATTR_MODERATE);
            Native.putShort(change, Structs.IbvModifyCqAttr.MODERATE_CQ_COUNT, count);
            Native.putShort(change, Structs.IbvModifyCqAttr.MODERATE_CQ_PERIOD, microseconds);
            return scratch.value(modify.call(scratch, cq, change));
        }
    }

    @Override
    public int destroyCq(long cq) {
        return destroy(Calls.DESTROY_CQ, cq);
    }

    @Override
    public long createSrq(long pd, int depth, int sge) {
        try (Scratch scratch = Scratch.borrow()) {
            long init = scratch.allocate(Structs.IbvSrqInitAttr.SIZE);
            Native.putInt(init, Structs.IbvSrqInitAttr.ATTR_MAX_WR, depth);
            Native.putInt(init, Structs.IbvSrqInitAttr.ATTR_MAX_SGE, sge);
            return scratch.pointer(Calls.CREATE_SRQ.call(scratch, pd, init));
        }
    }

    @Override
    public int limitSrq(long srq, int limit) {
        try (Scratch scratch = Scratch.borrow()) {
            long attributes = scratch.allocate(Structs.IbvSrqAttr.SIZE);
            Native.putInt(attributes, Structs.IbvSrqAttr.SRQ_LIMIT, limit);
            return scratch.value(
                    Calls.MODIFY_SRQ.call(scratch, srq, attributes, Verbs.IBV_SRQ_LIMIT));
        }
    }

    @Override
    public int destroySrq(long srq) {
        return destroy(Calls.DESTROY_SRQ, srq);
    }

    @Override
    public long createQp(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape) {
        try (Scratch scratch = Scratch.borrow()) {
            long init = scratch.allocate(Structs.IbvQpInitAttr.SIZE);
            Native.putLong(init, Structs.IbvQpInitAttr.SEND_CQ, sendCq);
            Native.putLong(init, Structs.IbvQpInitAttr.RECV_CQ, receiveCq);
            Native.putLong(init, Structs.IbvQpInitAttr.SRQ, srq);
            Native.putInt(init, Structs.IbvQpInitAttr.QP_TYPE, Verbs.IBV_QPT_RC);
            Native.putInt(init, Structs.IbvQpInitAttr.SQ_SIG_ALL, 0);
            Native.putInt(init, Structs.IbvQpInitAttr.CAP_MAX_SEND_WR, shape.sendDepth());
            Native.putInt(init, Structs.IbvQpInitAttr.CAP_MAX_RECV_WR, shape.receiveDepth());
            Native.putInt(init, Structs.IbvQpInitAttr.CAP_MAX_SEND_SGE, shape.sendSge());
            Native.putInt(init, Structs.IbvQpInitAttr.CAP_MAX_RECV_SGE, shape.receiveSge());
            Native.putInt(init, Structs.IbvQpInitAttr.CAP_MAX_INLINE_DATA, shape.inlineBytes());
            return scratch.pointer(Calls.CREATE_QP.call(scratch, pd, init));
        }
    }

    @Override
    public int queuePairNumber(long qp) {
        return Native.getInt(qp, Structs.IbvQp.QP_NUM);
    }

    @Override
    public int toInit(long qp, int port, int access) {
        try (Scratch scratch = Scratch.borrow()) {
            long a = scratch.allocate(Structs.IbvQpAttr.SIZE);
            Native.putInt(a, Structs.IbvQpAttr.QP_STATE, Verbs.IBV_QPS_INIT);
            Native.putShort(a, Structs.IbvQpAttr.PKEY_INDEX, 0);
            Native.putByte(a, Structs.IbvQpAttr.PORT_NUM, port);
            Native.putInt(a, Structs.IbvQpAttr.QP_ACCESS_FLAGS, access);
            return modify(
                    scratch,
                    qp,
                    a,
                    Verbs.IBV_QP_STATE
                            | Verbs.IBV_QP_PKEY_INDEX
                            | Verbs.IBV_QP_PORT
                            | Verbs.IBV_QP_ACCESS_FLAGS);
        }
    }

    @Override
    public int change(long qp, StateChange change) {
        return modify(change.scratch(), qp, change.attributes(), change.mask());
    }

    @Override
    public int toError(long qp) {
        try (Scratch scratch = Scratch.borrow()) {
            long a = scratch.allocate(Structs.IbvQpAttr.SIZE);
            Native.putInt(a, Structs.IbvQpAttr.QP_STATE, Verbs.IBV_QPS_ERR);
            return modify(scratch, qp, a, Verbs.IBV_QP_STATE);
        }
    }

    @Override
    public boolean inError(long qp) {
        // While polling, which must not allocate: borrowing does not, unless other threads do so at
        // the same time.
        try (Scratch scratch = Scratch.borrow()) {
            long attributes = scratch.reserve(Structs.IbvQpAttr.SIZE);
            long initial = scratch.reserve(Structs.IbvQpInitAttr.SIZE);
            int error = // returned by value; only whether it is 0 matters
                    Calls.QUERY_QP.callWithoutErrno(qp, attributes, Verbs.IBV_QP_STATE, initial);
            return error == 0
                    && Native.getInt(attributes, Structs.IbvQpAttr.QP_STATE) == Verbs.IBV_QPS_ERR;
        }
    }

    @Override
    public int destroyQp(long qp) {
        return destroy(Calls.DESTROY_QP, qp);
    }

    @Override
    public int asyncDescriptor() {
        return Native.getInt(context, Structs.IbvContext.ASYNC_FD);
    }

    @Override
    public @Nullable AsyncEvent takeAsyncEvent(LongFunction<@Nullable Object> objects) {
        try (Scratch scratch = Scratch.borrow()) {
            long event = scratch.allocate(Structs.IbvAsyncEvent.SIZE);
            if ((int) Calls.GET_ASYNC_EVENT.call(scratch, context, event) != 0) {
                // EIO from ib_uverbs_event_read: the device was disassociated. Kernels before 6.5
                // (or 6.1.34) return EAGAIN then, as if no event were pending.
                return scratch.errno() == Errno.EIO
                        ? new AsyncEvent(AdapterEvent.Type.DEVICE_REMOVED)
                        : null;
            }
            try {
                return copy(event, objects);
            } finally {
                // Destroying the object that an event names blocks until then. Also where copying
                // the event failed (out of memory).
                Calls.ACK_ASYNC_EVENT.call(scratch, event);
            }
        }
    }

    private static AsyncEvent copy(long event, LongFunction<@Nullable Object> objects) {
        int number = Native.getInt(event, Structs.IbvAsyncEvent.EVENT_TYPE);
        AdapterEvent.Type type = AsyncEvent.typeOf(number);
        return switch (type) {
            case DEVICE_FAILED, DEVICE_REMOVED, DEVICE_SPEED_CHANGED, EVENTS_ENDED, OTHER ->
                    new AsyncEvent(type, number, 0, null);
            case PORT_UP,
                    PORT_DOWN,
                    GIDS_CHANGED,
                    P_KEYS_CHANGED,
                    LID_CHANGED,
                    SUBNET_MANAGER_CHANGED,
                    CLIENT_REREGISTER -> {
                int port = Native.getInt(event, Structs.IbvAsyncEvent.ELEMENT_PORT_NUM);
                yield new AsyncEvent(type, number, port, null);
            }
            default -> { // a union: the address of an ibv_qp, ibv_cq or ibv_srq
                long address = Native.getLong(event, Structs.IbvAsyncEvent.ELEMENT_QP);
                yield new AsyncEvent(type, number, 0, objects.apply(address));
            }
        };
    }

    private static int modify(Scratch scratch, long qp, long attributes, int mask) {
        return scratch.value(Calls.MODIFY_QP.call(scratch, qp, attributes, mask));
    }

    private static int destroy(NativeFunction function, long object) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(function.call(scratch, object));
        }
    }
}
