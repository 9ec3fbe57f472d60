package dev.verbena.internal.verbs;

import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * The control calls of one opened device: what makes, changes and destroys the objects it holds.
 * Each answers an address or 0, or a negative errno.
 *
 * <p>An interface, so that everything above can be tested on a device that does not exist.
 */
public interface DeviceControl {
    /**
     * Closes the device.
     *
     * @return 0, or a negative errno
     */
    int close();

    /**
     * Asks for the device's attributes.
     *
     * @return them, or the error
     */
    DeviceAttributes queryDevice();

    /**
     * Asks for a port's attributes.
     *
     * @param port the port, from 1
     * @return them, or the error
     */
    PortAttributes queryPort(int port);

    /**
     * Asks for the GIDs in use on all ports.
     *
     * @param atMost the sum of the ports' table lengths
     * @param gids where they are added
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
     * {@code ibv_reg_mr}.
     *
     * @param pd the {@code ibv_pd}
     * @param memory native memory
     * @param access {@code IBV_ACCESS_…}, none of the optional ones
     * @return the {@code ibv_mr}, or a negative errno
     */
    long registerMemory(long pd, MemorySegment memory, int access);

    /**
     * The local token of a region.
     *
     * @param mr the {@code ibv_mr}
     * @return its lkey
     */
    int localKey(long mr);

    /**
     * The remote token of a region.
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
     * The token a window has when it is new.
     *
     * @param mw the {@code ibv_mw}
     * @return its rkey
     */
    int windowKey(long mw);

    /**
     * Writes the token that the device knows a window by into {@code mw->rkey}, where some
     * providers read it when a bind is posted. Verbs leaves that to the application.
     *
     * @param mw the {@code ibv_mw}
     * @param key the token it has before the bind
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
     * Prepares waiting for a channel's events.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param alarm the other descriptor to wait for
     * @return a new one
     */
    default EventWait newWait(long channel, int alarm) {
        return new EventWait(channel, channelDescriptor(channel), alarm);
    }

    /**
     * {@code ibv_get_cq_event} and {@code ibv_ack_cq_events}: takes one event if there is one.
     *
     * @param channel the {@code ibv_comp_channel}
     * @param wait of that channel; used by nobody else meanwhile
     * @return 1 when there was one, 0 when there was none, or a negative errno
     */
    int takeEvent(long channel, EventWait wait);

    /**
     * As {@link #takeEvent}, where most often one is there: one system call, and no reason if not.
     *
     * @param channel what {@link #createChannel} gave
     * @param wait the channel's
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
     * {@code ibv_create_cq}.
     *
     * @param depth how many completions it has to hold
     * @param channel where its events go
     * @return the {@code ibv_cq}, or a negative errno
     */
    long createCq(int depth, long channel);

    /**
     * {@code ibv_resize_cq}.
     *
     * @param cq the {@code ibv_cq}
     * @param depth how many completions it has to hold
     * @return 0, or a negative errno
     */
    int resizeCq(long cq, int depth);

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
     * {@code ibv_modify_srq}: asks for one event when fewer receives than that are left.
     *
     * @param srq the {@code ibv_srq}
     * @param limit how many
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
     * {@code ibv_create_qp}: a reliable connected queue pair that signals only what asks for it.
     *
     * @param pd the {@code ibv_pd}
     * @param sendCq the {@code ibv_cq} of the initiator queue
     * @param receiveCq the {@code ibv_cq} of the receive queue
     * @param srq the {@code ibv_srq} it takes receives from, or 0 for a queue of its own
     * @param shape its limits
     * @return the {@code ibv_qp}, or a negative errno
     */
    long createQp(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape);

    /**
     * A queue pair's number, by which its peer finds it.
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
     * @param access what the peer may do at all: {@code IBV_ACCESS_REMOTE_…}
     * @return 0, or a negative errno
     */
    int toInit(long qp, int port, int access);

    /**
     * {@code ibv_modify_qp} from INIT to ready-to-receive: from here on the peer can reach it.
     *
     * @param qp the {@code ibv_qp}
     * @param path how to reach the peer
     * @return 0, or a negative errno
     */
    int toReadyToReceive(long qp, PathAttributes path);

    /**
     * {@code ibv_modify_qp} from ready-to-receive to ready-to-send.
     *
     * @param qp the {@code ibv_qp}
     * @param sequence the sequence number of its first packet
     * @param outboundReads how many reads it may have under way
     * @param patient whether a peer without a receive is asked again for ever, not for some seconds
     * @return 0, or a negative errno
     */
    int toReadyToSend(long qp, int sequence, int outboundReads, boolean patient);

    /**
     * {@code ibv_modify_qp} by what the connection manager says.
     *
     * @param qp the {@code ibv_qp}
     * @param change the step
     * @return 0, or a negative errno
     */
    int change(long qp, StateChange change);

    /**
     * {@code ibv_modify_qp} to the error state: what is under way is flushed.
     *
     * @param qp the {@code ibv_qp}
     * @return 0, or a negative errno
     */
    int toError(long qp);

    /**
     * {@code ibv_query_qp}: whether the queue pair is in the error state.
     *
     * @param qp the {@code ibv_qp}
     * @param query made for it
     * @return false when it is not, or the device does not say
     */
    boolean inError(long qp, StateQuery query);

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
     * @return what it was
     */
    AsyncEvent takeAsyncEvent();
}
