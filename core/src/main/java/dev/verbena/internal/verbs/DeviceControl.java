package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;
import dev.verbena.AdapterInfo;
import dev.verbena.Port;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.LongFunction;

/**
 * The control calls of one opened device: they create, modify and destroy its objects. Each returns
 * an address or 0, or a negative errno.
 *
 * <p>An interface, so that the layers above can be tested without a device.
 */
public interface DeviceControl {
    /** {@code ibv_close_device}. */
    int close();

    /**
     * {@code ibv_query_device_ex}, or {@code ibv_query_device} where it does not exist.
     *
     * @param name the device's name
     * @return what the device reports: each limit holds on its own, depths are those of the device,
     *     and what only a probe or the ports can tell is 0 or false
     * @throws VerbenaException if the query fails; the only method that throws
     */
    AdapterInfo queryDevice(String name);

    /** Creates the data path: the functions that post requests and poll completions. */
    VerbsContext dataPath(Provider provider);

    /**
     * {@code ibv_query_port}: adds a port, without its GIDs.
     *
     * @param number the port, from 1
     * @return the length of its GID table, or a negative errno
     */
    long queryPort(int number, List<Port> ports);

    /** {@code ibv_query_gid_table}: adds the GIDs in use on all ports. */
    long queryGids(long atMost, List<Port.GidEntry> gids);

    /**
     * {@code ibv_alloc_pd}.
     *
     * @return the {@code ibv_pd}, or a negative errno
     */
    long allocatePd();

    /** {@code ibv_dealloc_pd}. */
    int deallocatePd(long pd);

    /**
     * {@code ibv_reg_mr}, with its optional rights.
     *
     * @return the {@code ibv_mr}, or a negative errno
     */
    long registerMemory(long pd, MemorySegment memory, int access);

    /**
     * {@code ibv_reg_dmabuf_mr}.
     *
     * @param iova the address that requests name the first byte by
     * @return the {@code ibv_mr}, or a negative errno
     */
    long registerDmaBuf(long pd, int descriptor, long offset, long length, long iova, int access);

    /**
     * {@code ibv_advise_mr} for one range, with the flag FLUSH: returns when it is done.
     *
     * @param length how many bytes, unsigned
     */
    int prefetch(long pd, int advice, long address, int length, int localKey);

    /** The local key of a region (NDK: local token). */
    int localKey(long mr);

    /** The remote key of a region (NDK: remote token). */
    int remoteKey(long mr);

    /** {@code ibv_dereg_mr}. */
    int deregisterMemory(long mr);

    /**
     * {@code ibv_alloc_mw} of type 2.
     *
     * @return the {@code ibv_mw}, or a negative errno
     */
    long allocateWindow(long pd);

    /** The remote key of a new window. */
    int windowKey(long mw);

    /**
     * Writes a window's current remote key into {@code mw->rkey}, where some providers read it when
     * a bind is posted. Verbs leaves that to the application.
     */
    void setWindowKey(long mw, int key);

    /** {@code ibv_dealloc_mw}. */
    int freeWindow(long mw);

    /**
     * {@code ibv_create_comp_channel}.
     *
     * @return the {@code ibv_comp_channel}, or a negative errno
     */
    long createChannel();

    /**
     * The file descriptor that becomes readable with an event.
     *
     * @return its fd, non-blocking
     */
    int channelDescriptor(long channel);

    /** Allocates the native memory for waiting on a channel. */
    default EventWait newWait(long channel, int wakeUp) {
        return new EventWait(channel, channelDescriptor(channel), wakeUp);
    }

    /**
     * {@code ibv_get_cq_event} and {@code ibv_ack_cq_events}: takes one event if there is one.
     *
     * @param wait the channel's; no other thread may use it during the call
     * @return 1 when there was one, 0 when there was none, or a negative errno
     */
    int takeEvent(long channel, EventWait wait);

    /**
     * As {@link #takeEvent}, for a channel that probably has an event: makes one system call, and
     * does not report why no event was taken.
     *
     * @param wait the channel's; no other thread may use it during the call
     */
    boolean takeEventIfThere(long channel, EventWait wait);

    /** {@code ibv_destroy_comp_channel}. */
    int destroyChannel(long channel);

    /**
     * How many completion vectors the device has: {@code num_comp_vectors} of the {@code
     * ibv_context}.
     */
    int completionVectors();

    /**
     * {@code ibv_create_cq}.
     *
     * @param depth how many completions it must be able to hold
     * @param channel the channel for its events, or 0
     * @param vector the completion vector that signals them, from 0
     * @param context its {@code cq_context}: {@link EventWait#context} returns it with each event
     * @return the {@code ibv_cq}, or a negative errno
     */
    long createCq(int depth, long channel, int vector, long context);

    /**
     * {@code ibv_resize_cq}.
     *
     * @param depth how many completions it must be able to hold
     */
    int resizeCq(long cq, int depth);

    /**
     * {@code ibv_modify_cq} with IBV_CQ_ATTR_MODERATE.
     *
     * @param count after how many completions an event comes, 16 bits
     * @param microseconds after which time at the latest, 16 bits
     */
    int moderateCq(long cq, int count, int microseconds);

    /** {@code ibv_destroy_cq}. */
    int destroyCq(long cq);

    /**
     * {@code ibv_create_srq}.
     *
     * @param depth how many receives may be posted
     * @param sge how many buffers each may name
     * @return the {@code ibv_srq}, or a negative errno
     */
    long createSrq(long pd, int depth, int sge);

    /**
     * {@code ibv_modify_srq}: requests one event, as soon as fewer receives than the limit are
     * posted.
     */
    int limitSrq(long srq, int limit);

    /** {@code ibv_destroy_srq}. */
    int destroySrq(long srq);

    /**
     * {@code ibv_create_qp}: creates a reliable connected (RC) queue pair with {@code sq_sig_all} =
     * 0, so that only requests with IBV_SEND_SIGNALED are signaled.
     *
     * @param srq the {@code ibv_srq} it takes receives from, or 0 for its own receive queue
     * @return the {@code ibv_qp}, or a negative errno
     */
    long createQp(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape);

    /** A queue pair's number ({@code qp_num}), by which its peer addresses it. */
    int queuePairNumber(long qp);

    /**
     * {@code ibv_modify_qp} from RESET to INIT, after which receives may be posted.
     *
     * @param access the operations of the peer that the queue pair allows: {@code
     *     IBV_ACCESS_REMOTE_…}
     */
    int toInit(long qp, int port, int access);

    /** {@code ibv_modify_qp} to a state of a connection. */
    int change(long qp, StateChange change);

    /** {@code ibv_modify_qp} to the error state, which flushes outstanding requests. */
    int toError(long qp);

    /**
     * {@code ibv_query_qp}: whether the queue pair is in the error state.
     *
     * @return false if it is not, or if the query fails
     */
    boolean inError(long qp);

    /** {@code ibv_destroy_qp}. */
    int destroyQp(long qp);

    /**
     * The file descriptor that becomes readable with an asynchronous event.
     *
     * @return its fd, non-blocking
     */
    int asyncDescriptor();

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
    @Nullable AsyncEvent takeAsyncEvent(LongFunction<@Nullable Object> objects);
}
