package dev.verbena.internal.verbs;

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
    /**
     * {@code ibv_close_device}.
     *
     * @return 0, or a negative errno
     */
    int close();

    /**
     * {@code ibv_query_device}.
     *
     * @return the attributes, or the error
     */
    DeviceAttributes queryDevice();

    /**
     * {@code ibv_query_port}.
     *
     * @param port the port, from 1
     * @return the attributes, or the error
     */
    PortAttributes queryPort(int port);

    /**
     * {@code ibv_query_gid_table}: reads the GIDs in use on all ports.
     *
     * @param atMost the sum of the ports' table lengths
     * @param gids receives the entries
     * @return 0, or a negative errno
     */
    long queryGids(int atMost, List<GidTableEntry> gids);

    /**
     * {@code ibv_alloc_pd}.
     *
     * @return the {@code ibv_pd}, or a negative errno
     */
    long allocatePd();

    /**
     * {@code ibv_dealloc_pd}.
     *
     * @param pd the {@code ibv_pd}
     * @return 0, or a negative errno
     */
    int deallocatePd(long pd);

    /**
     * {@code ibv_reg_mr}, with its optional rights.
     *
     * @param pd the {@code ibv_pd}
     * @param memory native memory
     * @param access {@link Rights}
     * @return the {@code ibv_mr}, or a negative errno
     */
    long registerMemory(long pd, MemorySegment memory, int access);

    /**
     * {@code ibv_reg_dmabuf_mr}.
     *
     * @param pd the {@code ibv_pd}
     * @param descriptor the file descriptor of the dma-buf
     * @param offset the first byte in the dma-buf
     * @param length how many bytes
     * @param iova the address that requests name the first byte by
     * @param access {@link Rights}
     * @return the {@code ibv_mr}, or a negative errno
     */
    long registerDmaBuf(long pd, int descriptor, long offset, long length, long iova, int access);

    /**
     * {@code ibv_query_device_ex}.
     *
     * @return {@link ExtendedAttributes#NONE} also where it cannot be asked
     */
    ExtendedAttributes extended();

    /**
     * {@code ibv_advise_mr} for one range, with the flag FLUSH: returns when it is done.
     *
     * @param pd the {@code ibv_pd}
     * @param advice {@code IB_UVERBS_ADVISE_MR_ADVICE_…}
     * @param address the first byte
     * @param length how many bytes, unsigned
     * @param localKey the region's
     * @return 0, or a negative errno
     */
    int prefetch(long pd, int advice, long address, int length, int localKey);

    /**
     * The local key of a region (NDK: local token).
     *
     * @param mr the {@code ibv_mr}
     * @return its lkey
     */
    int localKey(long mr);

    /**
     * The remote key of a region (NDK: remote token).
     *
     * @param mr the {@code ibv_mr}
     * @return its rkey
     */
    int remoteKey(long mr);

    /**
     * {@code ibv_dereg_mr}.
     *
     * @param mr the {@code ibv_mr}
     * @return 0, or a negative errno
     */
    int deregisterMemory(long mr);

    /**
     * {@code ibv_alloc_mw} of type 2.
     *
     * @param pd the {@code ibv_pd}
     * @return the {@code ibv_mw}, or a negative errno
     */
    long allocateWindow(long pd);

    /**
     * The remote key of a new window.
     *
     * @param mw the {@code ibv_mw}
     * @return its rkey
     */
    int windowKey(long mw);

    /**
     * Writes a window's current remote key into {@code mw->rkey}, where some providers read it when
     * a bind is posted. Verbs leaves that to the application.
     *
     * @param mw the {@code ibv_mw}
     * @param key the remote key before the bind
     */
    void setWindowKey(long mw, int key);

    /**
     * {@code ibv_dealloc_mw}.
     *
     * @param mw the {@code ibv_mw}
     * @return 0, or a negative errno
     */
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
     * @param channel the {@code ibv_comp_channel}
     * @return its fd, non-blocking
     */
    int channelDescriptor(long channel);

    /**
     * Allocates the native memory for waiting on a channel.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param wakeUp an eventfd that ends a wait early
     * @return the new object
     */
    default EventWait newWait(long channel, int wakeUp) {
        return new EventWait(channel, channelDescriptor(channel), wakeUp);
    }

    /**
     * {@code ibv_get_cq_event} and {@code ibv_ack_cq_events}: takes one event if there is one.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param wait the channel's; no other thread may use it during the call
     * @return 1 when there was one, 0 when there was none, or a negative errno
     */
    int takeEvent(long channel, EventWait wait);

    /**
     * As {@link #takeEvent}, for a channel that probably has an event: makes one system call, and
     * does not report why no event was taken.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param wait the channel's; no other thread may use it during the call
     * @return whether an event was taken and acknowledged
     */
    boolean takeEventIfThere(long channel, EventWait wait);

    /**
     * {@code ibv_destroy_comp_channel}.
     *
     * @param channel the {@code ibv_comp_channel}
     * @return 0, or a negative errno
     */
    int destroyChannel(long channel);

    /**
     * How many completion vectors the device has: {@code num_comp_vectors} of the {@code
     * ibv_context}.
     *
     * @return 1 or more
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
     * @param cq the {@code ibv_cq}
     * @param depth how many completions it must be able to hold
     * @return 0, or a negative errno
     */
    int resizeCq(long cq, int depth);

    /**
     * {@code ibv_modify_cq} with IBV_CQ_ATTR_MODERATE.
     *
     * @param cq the {@code ibv_cq}
     * @param count after how many completions an event comes, 16 bits
     * @param microseconds after which time at the latest, 16 bits
     * @return 0, or a negative errno
     */
    int moderateCq(long cq, int count, int microseconds);

    /**
     * {@code ibv_destroy_cq}.
     *
     * @param cq the {@code ibv_cq}
     * @return 0, or a negative errno
     */
    int destroyCq(long cq);

    /**
     * {@code ibv_create_srq}.
     *
     * @param pd the {@code ibv_pd}
     * @param depth how many receives may be posted
     * @param sge how many buffers each may name
     * @return the {@code ibv_srq}, or a negative errno
     */
    long createSrq(long pd, int depth, int sge);

    /**
     * {@code ibv_modify_srq}: requests one event, as soon as fewer receives than the limit are
     * posted.
     *
     * @param srq the {@code ibv_srq}
     * @param limit the number of receives
     * @return 0, or a negative errno
     */
    int limitSrq(long srq, int limit);

    /**
     * {@code ibv_destroy_srq}.
     *
     * @param srq the {@code ibv_srq}
     * @return 0, or a negative errno
     */
    int destroySrq(long srq);

    /**
     * {@code ibv_create_qp}: creates a reliable connected (RC) queue pair with {@code sq_sig_all} =
     * 0, so that only requests with IBV_SEND_SIGNALED are signaled.
     *
     * @param pd the {@code ibv_pd}
     * @param sendCq the {@code ibv_cq} of the send queue
     * @param receiveCq the {@code ibv_cq} of the receive queue
     * @param srq the {@code ibv_srq} it takes receives from, or 0 for its own receive queue
     * @param shape its limits
     * @return the {@code ibv_qp}, or a negative errno
     */
    long createQp(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape);

    /**
     * A queue pair's number ({@code qp_num}), by which its peer addresses it.
     *
     * @param qp the {@code ibv_qp}
     * @return 24 bits
     */
    int queuePairNumber(long qp);

    /**
     * {@code ibv_modify_qp} from RESET to INIT, after which receives may be posted.
     *
     * @param qp the {@code ibv_qp}
     * @param port the port
     * @param access the operations of the peer that the queue pair allows: {@code
     *     IBV_ACCESS_REMOTE_…}
     * @return 0, or a negative errno
     */
    int toInit(long qp, int port, int access);

    /**
     * {@code ibv_modify_qp} to a state of a connection.
     *
     * @param qp the {@code ibv_qp}
     * @param change the target state and its attributes
     * @return 0, or a negative errno
     */
    int change(long qp, StateChange change);

    /**
     * {@code ibv_modify_qp} to the error state, which flushes outstanding requests.
     *
     * @param qp the {@code ibv_qp}
     * @return 0, or a negative errno
     */
    int toError(long qp);

    /**
     * {@code ibv_query_qp}: whether the queue pair is in the error state.
     *
     * @param qp the {@code ibv_qp}
     * @return false if it is not, or if the query fails
     */
    boolean inError(long qp);

    /**
     * {@code ibv_destroy_qp}.
     *
     * @param qp the {@code ibv_qp}
     * @return 0, or a negative errno
     */
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
     * @return the event, or one of kind {@link AsyncEvent.Kind#NONE}
     */
    AsyncEvent takeAsyncEvent(LongFunction<@Nullable Object> objects);
}
