package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_async_event;
import dev.verbena.bindings.ibv_comp_channel;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;
import dev.verbena.bindings.ibv_moderate_cq;
import dev.verbena.bindings.ibv_modify_cq_attr;
import dev.verbena.bindings.ibv_mr;
import dev.verbena.bindings.ibv_mw;
import dev.verbena.bindings.ibv_qp;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_qp_cap;
import dev.verbena.bindings.ibv_qp_init_attr;
import dev.verbena.bindings.ibv_srq_attr;
import dev.verbena.bindings.ibv_srq_init_attr;
import dev.verbena.bindings.verbs_context;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.function.LongFunction;

/** {@link DeviceControl} of a real device, through libibverbs. */
public final class LibraryControl implements DeviceControl {
    private static final long WINDOW_KEY = ibv_mw.rkey$offset();

    // Not in Calls: verbs.h defines these two as inline functions that call through the device's
    // function table.
    private static final MethodHandle ALLOC_MW =
            throughTable(FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_INT));
    private static final MethodHandle DEALLOC_MW =
            throughTable(FunctionDescriptor.of(JAVA_INT, ADDRESS));

    /** In a class of its own, as few programs moderate: linking takes some milliseconds. */
    private static final class Moderation {
        static final MethodHandle MODIFY_CQ = throughTable(verbs_context.modify_cq.descriptor());

        private Moderation() {}
    }

    private final MemorySegment context;
    private final ExtendedContext extended;
    private final LibraryRegions regions;
    private final MemorySegment allocMw;
    private final MemorySegment deallocMw;
    private final DeviceQueries queries;

    /**
     * Takes over an opened device.
     *
     * @param context the {@code ibv_context} from {@link DeviceList#open}
     */
    public LibraryControl(long context) {
        this.context = Native.at(context, ibv_context.sizeof());
        this.extended = new ExtendedContext(this.context);
        this.regions = new LibraryRegions(extended);
        MemorySegment ops = ibv_context.ops(this.context);
        this.allocMw = ibv_context_ops.alloc_mw(ops);
        this.deallocMw = ibv_context_ops.dealloc_mw(ops);
        this.queries = new DeviceQueries(this.context, extended);
        // Events are taken after poll(2) has reported one. If another reader takes it first,
        // ibv_get_async_event must return EAGAIN instead of blocking.
        Descriptors.nonBlocking(ibv_context.async_fd(this.context));
    }

    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static MethodHandle throughTable(FunctionDescriptor descriptor) {
        return Linker.nativeLinker()
                .downcallHandle(descriptor, Linker.Option.captureCallState("errno"));
    }

    @Override
    public int close() {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(
                    (int) Calls.Devices.CLOSE_DEVICE.invokeExact(scratch.state, context));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public DeviceAttributes queryDevice() {
        return queries.device();
    }

    @Override
    public PortAttributes queryPort(int port) {
        return queries.port(port);
    }

    @Override
    public long queryGids(int atMost, List<GidTableEntry> gids) {
        return queries.gids(atMost, gids);
    }

    @Override
    public long allocatePd() {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    (MemorySegment) Calls.Domains.ALLOC_PD.invokeExact(scratch.state, context));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int deallocatePd(long pd) {
        return destroy(Calls.Domains.DEALLOC_PD, pd);
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
    public ExtendedAttributes extended() {
        return queries.extended();
    }

    @Override
    public int prefetch(long pd, int advice, long address, int length, int localKey) {
        return regions.prefetch(pd, advice, address, length, localKey);
    }

    @Override
    public int localKey(long mr) {
        return ibv_mr.lkey(Native.at(mr, ibv_mr.sizeof()));
    }

    @Override
    public int remoteKey(long mr) {
        return ibv_mr.rkey(Native.at(mr, ibv_mr.sizeof()));
    }

    @Override
    public int deregisterMemory(long mr) {
        return destroy(Calls.Regions.DEREG_MR, mr);
    }

    @Override
    public long allocateWindow(long pd) {
        if (allocMw.address() == 0) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    (MemorySegment)
                            ALLOC_MW.invokeExact(
                                    allocMw,
                                    scratch.state,
                                    MemorySegment.ofAddress(pd),
                                    Verbs.IBV_MW_TYPE_2));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int windowKey(long mw) {
        return ibv_mw.rkey(Native.at(mw, ibv_mw.sizeof()));
    }

    @Override
    public void setWindowKey(long mw, int key) {
        // Not through ibv_mw.rkey(…): a bind must not allocate.
        Native.EVERYWHERE.set(JAVA_INT, mw + WINDOW_KEY, key);
    }

    @Override
    public int freeWindow(long mw) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(
                    (int)
                            DEALLOC_MW.invokeExact(
                                    deallocMw, scratch.state, MemorySegment.ofAddress(mw)));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public long createChannel() {
        try (Scratch scratch = Scratch.borrow()) {
            long channel =
                    scratch.pointer(
                            (MemorySegment)
                                    Calls.Channels.CREATE_CHANNEL.invokeExact(
                                            scratch.state, context));
            if (channel > 0) {
                Descriptors.nonBlocking(channelDescriptor(channel));
            }
            return channel;
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int channelDescriptor(long channel) {
        return ibv_comp_channel.fd(Native.at(channel, ibv_comp_channel.sizeof()));
    }

    @Override
    public int takeEvent(long channel, EventWait wait) {
        try {
            if (takeEventIfThere(channel, wait)) {
                return 1;
            }
            // No event, or an error: repeat the call with errno captured. An event that has arrived
            // by now is taken.
            int answer =
                    Scratch.value(
                            (int)
                                    Calls.Events.GET_CQ_EVENT.invokeExact(
                                            wait.state,
                                            wait.channel,
                                            wait.queue,
                                            wait.queueContext),
                            wait.state);
            if (answer == 0) {
                Calls.Events.ACK_CQ_EVENTS.invokeExact(wait.eventQueue(), 1);
                return 1;
            }
            return answer == -Errno.EAGAIN ? 0 : answer;
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public boolean takeEventIfThere(long channel, EventWait wait) {
        try {
            int answer =
                    (int)
                            Calls.Events.GET_CQ_EVENT_WITHOUT_ERRNO.invokeExact(
                                    wait.channel, wait.queue, wait.queueContext);
            if (answer == 0) {
                // Acknowledged immediately: ibv_destroy_cq blocks until all events are
                // acknowledged.
                Calls.Events.ACK_CQ_EVENTS.invokeExact(wait.eventQueue(), 1);
            }
            return answer == 0;
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int destroyChannel(long channel) {
        return destroy(Calls.Channels.DESTROY_CHANNEL, channel);
    }

    @Override
    public int completionVectors() {
        return Math.max(1, ibv_context.num_comp_vectors(context));
    }

    @Override
    public long createCq(int depth, long channel, int vector, long cqContext) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    (MemorySegment)
                            Calls.CompletionQueues.CREATE_CQ.invokeExact(
                                    scratch.state,
                                    context,
                                    depth,
                                    MemorySegment.ofAddress(cqContext),
                                    MemorySegment.ofAddress(channel),
                                    vector));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int resizeCq(long cq, int depth) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(
                    (int)
                            Calls.Resizing.RESIZE_CQ.invokeExact(
                                    scratch.state, MemorySegment.ofAddress(cq), depth));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int moderateCq(long cq, int count, int microseconds) {
        MemorySegment function = extended.function(verbs_context.modify_cq$offset());
        if (function.address() == 0) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment change = ibv_modify_cq_attr.allocate(scratch);
            ibv_modify_cq_attr.attr_mask(change, Verbs.IBV_CQ_ATTR_MODERATE);
            MemorySegment moderation = ibv_modify_cq_attr.moderate(change);
            ibv_moderate_cq.cq_count(moderation, (short) count);
            ibv_moderate_cq.cq_period(moderation, (short) microseconds);
            return scratch.value(
                    (int)
                            Moderation.MODIFY_CQ.invokeExact(
                                    function, scratch.state, MemorySegment.ofAddress(cq), change));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int destroyCq(long cq) {
        return destroy(Calls.CompletionQueues.DESTROY_CQ, cq);
    }

    @Override
    public long createSrq(long pd, int depth, int sge) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment init = ibv_srq_init_attr.allocate(scratch);
            MemorySegment limits = ibv_srq_init_attr.attr(init);
            ibv_srq_attr.max_wr(limits, depth);
            ibv_srq_attr.max_sge(limits, sge);
            return scratch.pointer(
                    (MemorySegment)
                            Calls.SharedReceiveQueues.CREATE_SRQ.invokeExact(
                                    scratch.state, MemorySegment.ofAddress(pd), init));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int limitSrq(long srq, int limit) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment attributes = ibv_srq_attr.allocate(scratch);
            ibv_srq_attr.srq_limit(attributes, limit);
            return scratch.value(
                    (int)
                            Calls.SharedReceiveQueues.MODIFY_SRQ.invokeExact(
                                    scratch.state,
                                    MemorySegment.ofAddress(srq),
                                    attributes,
                                    Verbs.IBV_SRQ_LIMIT));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int destroySrq(long srq) {
        return destroy(Calls.SharedReceiveQueues.DESTROY_SRQ, srq);
    }

    @Override
    public long createQp(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment init = ibv_qp_init_attr.allocate(scratch);
            ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(sendCq));
            ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(receiveCq));
            ibv_qp_init_attr.srq(init, MemorySegment.ofAddress(srq));
            ibv_qp_init_attr.qp_type(init, Verbs.IBV_QPT_RC);
            ibv_qp_init_attr.sq_sig_all(init, 0);
            MemorySegment cap = ibv_qp_init_attr.cap(init);
            ibv_qp_cap.max_send_wr(cap, shape.sendDepth());
            ibv_qp_cap.max_recv_wr(cap, shape.receiveDepth());
            ibv_qp_cap.max_send_sge(cap, shape.sendSge());
            ibv_qp_cap.max_recv_sge(cap, shape.receiveSge());
            ibv_qp_cap.max_inline_data(cap, shape.inlineBytes());
            return scratch.pointer(
                    (MemorySegment)
                            Calls.QueuePairs.CREATE_QP.invokeExact(
                                    scratch.state, MemorySegment.ofAddress(pd), init));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int queuePairNumber(long qp) {
        return ibv_qp.qp_num(Native.at(qp, ibv_qp.sizeof()));
    }

    @Override
    public int toInit(long qp, int port, int access) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment a = ibv_qp_attr.allocate(scratch);
            ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_INIT);
            ibv_qp_attr.pkey_index(a, (short) 0);
            ibv_qp_attr.port_num(a, (byte) port);
            ibv_qp_attr.qp_access_flags(a, access);
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
        try (Scratch scratch = Scratch.borrow()) {
            return modify(scratch, qp, change.encode(scratch), change.mask());
        }
    }

    @Override
    public int toError(long qp) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment a = ibv_qp_attr.allocate(scratch);
            ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_ERR);
            return modify(scratch, qp, a, Verbs.IBV_QP_STATE);
        }
    }

    @Override
    public boolean inError(long qp, StateQuery query) {
        try {
            int error = // returned by value; only whether it is 0 matters
                    (int)
                            Calls.StateQueries.QUERY_QP.invokeExact(
                                    query.queuePair,
                                    query.attributes,
                                    Verbs.IBV_QP_STATE,
                                    query.initial);
            return error == 0 && ibv_qp_attr.qp_state(query.attributes) == Verbs.IBV_QPS_ERR;
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int destroyQp(long qp) {
        return destroy(Calls.QueuePairs.DESTROY_QP, qp);
    }

    @Override
    public int asyncDescriptor() {
        return ibv_context.async_fd(context);
    }

    @Override
    public AsyncEvent takeAsyncEvent(LongFunction<@Nullable Object> objects) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment event = ibv_async_event.allocate(scratch);
            if ((int) Calls.AsyncEvents.GET_ASYNC_EVENT.invokeExact(scratch.state, context, event)
                    != 0) {
                // EIO from ib_uverbs_event_read: the device was disassociated. Kernels before 6.5
                // (or 6.1.34) return EAGAIN then, as if no event were pending.
                return new AsyncEvent(
                        scratch.errno() == Errno.EIO
                                ? AsyncEvent.Kind.DEVICE_DISASSOCIATED
                                : AsyncEvent.Kind.NONE);
            }
            try {
                return copy(event, objects);
            } finally {
                // Destroying the object that an event names blocks until then. Also where copying
                // the event failed (out of memory).
                Calls.AsyncEvents.ACK_ASYNC_EVENT.invokeExact(scratch.state, event);
            }
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    private static AsyncEvent copy(MemorySegment event, LongFunction<@Nullable Object> objects) {
        int number = ibv_async_event.event_type(event);
        AsyncEvent.Kind kind = AsyncEvent.Kind.of(number);
        MemorySegment element = ibv_async_event.element(event); // a union
        return switch (kind.subject()) {
            case DEVICE -> new AsyncEvent(kind, number, 0, null);
            case PORT ->
                    new AsyncEvent(kind, number, ibv_async_event.element.port_num(element), null);
            case QUEUE_PAIR, COMPLETION_QUEUE, SHARED_QUEUE -> {
                long address = ibv_async_event.element.qp(element).address();
                yield new AsyncEvent(kind, number, address, objects.apply(address));
            }
        };
    }

    private static int modify(Scratch scratch, long qp, MemorySegment attributes, int mask) {
        try {
            return scratch.value(
                    (int)
                            Calls.QueuePairs.MODIFY_QP.invokeExact(
                                    scratch.state, MemorySegment.ofAddress(qp), attributes, mask));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    private static int destroy(MethodHandle call, long address) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(
                    (int) call.invokeExact(scratch.state, MemorySegment.ofAddress(address)));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }
}
