package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

/**
 * What is peculiar to one provider, all in this place, each with the fact behind it. Told apart by
 * what {@code ibv_query_device} says, not by names, which users choose.
 *
 * <p>Not here, because every provider is treated alike:
 *
 * <ul>
 *   <li>{@code bad_wr}. rxe and siw leave it alone when only the doorbell fails, with the requests
 *       in the queue; siw may answer 0 and set it. {@link SendChain#accepted} checks both.
 *   <li>The sign of a post's answer: siw's is negative.
 *   <li>{@code mw->rkey}. rxe and mlx5 read the window's old token from it when a bind is posted
 *       and never change it, irdma (rdma-core 64) changes it, even when the post fails. So it is
 *       written before every bind, see {@link DeviceControl#setWindowKey}.
 * </ul>
 *
 * @param name of the provider, as rdma-core calls it
 * @param invalidatedFlags the {@code wc_flags} that say a receive has invalidated a token
 * @param readsInvalidatedKeyFromRdma whether a send-with-invalidate takes the token from {@code
 *     wr.rdma.rkey}
 * @param solicitedMissesFailures whether arming for solicited completions wakes nobody when a
 *     request fails, which verbs promises
 * @param solicitedMissesReceives whether arming for solicited completions wakes nobody when a
 *     solicited message was received
 * @param maxWindowBytes the longest window that can be bound
 * @param hidesReasons whether {@code IBV_WC_LOC_QP_OP_ERR} stands for other failures, too: of a
 *     receive whose message was too long, and of a send or write of memory with a bad token; a
 *     receive with {@code IBV_WC_REM_INV_REQ_ERR} was asked to invalidate a bad token then
 * @param forgetsLateReceives whether a receive posted to a queue pair in the error state never
 *     ends, unless the error state is asked for again
 * @param throughKernel which data-path calls enter the kernel or wait, always or at times: none
 *     with most NICs' providers, which write to the device from user space
 */
public record Provider(
        String name,
        int invalidatedFlags,
        boolean readsInvalidatedKeyFromRdma,
        boolean solicitedMissesFailures,
        boolean solicitedMissesReceives,
        long maxWindowBytes,
        boolean hidesReasons,
        boolean forgetsLateReceives,
        ThroughKernel throughKernel) {
    /** Which data-path calls enter the kernel or wait, always or at times. */
    public enum ThroughKernel {
        /** None. */
        NONE,
        /** {@code post_send}, whose doorbell is one. */
        SENDS,
        /** Posts of any kind, or polling. */
        ALL
    }

    private static final int RXE = 0xFFFFFF; // RXE_VENDOR_ID of the kernel's rxe_param.h
    private static final int SIW = 0x626D74; // "bmt", SIW_VENDOR_ID of the kernel's siw.h
    private static final int BROADCOM = 0x14E4;
    private static final int CHELSIO = 0x1425;
    private static final int HUAWEI = 0x19E5;
    private static final int INTEL = 0x8086;
    private static final int OMNI_PATH = 0x1175; // hfi1's and qib's: PathScale's OUI
    private static final int MELLANOX = 0x02C9; // the firmware's, not PCI's 0x15b3
    private static final int CONNECT_IB = 0x1011; // mlx5's models begin with it, mlx4's are before
    private static final int OLD_MLX4 = 0x6340; // but for mlx4's oldest, from here
    private static final int LAST_OLD_MLX4 = 0x676E; // to here

    // The kernel's enum ib_wc_flags has WITH_INVALIDATE at 1 << 2, the library's at 1 << 3, and rxe
    // hands the kernel's through (seen on 6.1 and 6.12). 1 << 2 is IBV_WC_IP_CSUM_OK here, which
    // rxe never sets.
    private static final int KERNEL_WITH_INVALIDATE = 1 << 2;

    /**
     * The largest region that rxe of newer kernels registers. Tried on Linux 6.12.117 and 7.3.4
     * (x86-64, pages of 4 KiB): 1 GiB is registered, one page more is ENOMEM. Linux 6.1 has no such
     * limit.
     */
    private static final long RXE_REGION_BYTES = 1L << 30;

    /**
     * Advice for a registration that was refused with ENOMEM although memory may be locked.
     *
     * @param bytes what was to be registered
     * @return a sentence, or null when nothing peculiar to this provider explains it
     */
    public @Nullable String adviceForLargeRegion(long bytes) {
        return name.equals("rxe") && bytes > RXE_REGION_BYTES
                ? "Soft-RoCE of this kernel may have a limit of 1 GiB for one registration, whatever"
                        + " memory may be locked (Linux 6.12.117 and 7.3 have it, 6.1 does not):"
                        + " register the memory in parts of 1 GiB or less."
                : null;
    }

    /**
     * Whether a queue pair with a shared receive queue says when it has ended the last receive that
     * it took ({@code IBV_EVENT_QP_LAST_WQE_REACHED}), which a close then waits for. Otherwise a
     * receive may end between the close's last poll and the destroy, and mlx5 and mlx4 clean such
     * completions away in theirs ({@code __mlx5_cq_clean}, {@code __mlx4_cq_clean}): nobody hears
     * of that receive again. hfi1 (and qib) raise it in {@code rvt_modify_qp}.
     *
     * <p>Not rxe: it raises the event only from Linux 6.5 on, and does not need it, because its
     * destroy leaves completions where they are. siw never raises it.
     *
     * @return whether the event is worth waiting for
     */
    public boolean announcesLastReceive() {
        return switch (name) {
            case "mlx5", "mlx4", "hfi1" -> true;
            default -> false;
        };
    }

    /**
     * Finds the provider of a device.
     *
     * @param vendorId from {@code ibv_query_device}
     * @param vendorPartId from {@code ibv_query_device}
     * @return one without peculiarities for all that are not known here
     */
    public static Provider of(int vendorId, int vendorPartId) {
        return switch (vendorId) {
            // forgetsLateReceives: its library puts receives into a ring, and tells the kernel
            // nothing.
            // solicitedMissesFailures: rxe_comp.c posts failed sends with solicited = 0, and
            // kernels from 6.4 on flushed receives as well.
            // hidesReasons: seen on 6.1 and 6.12 for receives, with one packet and with five; on
            // 6.1 for sends and for bad tokens to invalidate. From 6.4 on those end in
            // WR_FLUSH_ERR, which is like any other's.
            case RXE ->
                    new Provider(
                            "rxe",
                            Verbs.IBV_WC_WITH_INV | KERNEL_WITH_INVALIDATE,
                            false,
                            true,
                            false,
                            Long.MAX_VALUE,
                            true,
                            true,
                            ThroughKernel.SENDS); // post_send_db of rxe.c
            // siw.c copies wr.rdma.rkey into the request whatever it is. Its poll_cq clears
            // wc_flags, so a receiver is not told of an invalidation; siw has no windows that it
            // could hit.
            // solicitedMissesReceives: the kernel's siw_rqe_complete looks at the flags of the
            // receive,
            // where it should look at those of the message.
            case SIW ->
                    new Provider(
                            "siw",
                            Verbs.IBV_WC_WITH_INV,
                            true,
                            false,
                            true,
                            Long.MAX_VALUE,
                            false,
                            false,
                            ThroughKernel.SENDS); // siw_db of siw.c
            // As rdma-core 65 has them. hfi1verbs and ipathverbs: ibv_cmd_post_send, and against
            // older
            // kernels ibv_cmd_poll_cq and ibv_cmd_post_recv.
            case OMNI_PATH -> plain("hfi1", ThroughKernel.ALL);
            // Posts pace the doorbell: they wait for up to 128 us, and ask the kernel. A poll while
            // the queue is being resized is ibv_cmd_poll_cq.
            case BROADCOM -> plain("bnxt_re", ThroughKernel.ALL);
            // Posts ring through ibv_cmd_modify_qp while doorbells are off.
            case CHELSIO -> plain("cxgb4", ThroughKernel.ALL);
            // A poll that meets a failure sets the queue pair's state.
            case HUAWEI -> plain("hns", ThroughKernel.ALL);
            // irdma: a post to a queue pair in the error state has the kernel flush it.
            case INTEL -> plain("irdma", ThroughKernel.ALL);
            // set_bind_wr in mlx5's qp.c answers EOPNOTSUPP beyond 1UL << 31.
            case MELLANOX ->
                    isMlx5(vendorPartId)
                            ? new Provider(
                                    "mlx5",
                                    Verbs.IBV_WC_WITH_INV,
                                    false,
                                    false,
                                    false,
                                    1L << 31,
                                    false,
                                    false,
                                    ThroughKernel.NONE)
                            : plain("mlx4", ThroughKernel.NONE);
            // All other providers' calls stay in user space.
            default -> plain("other", ThroughKernel.NONE);
        };
    }

    private static boolean isMlx5(int part) {
        return part >= CONNECT_IB && !(part >= OLD_MLX4 && part <= LAST_OLD_MLX4);
    }

    private static Provider plain(String name, ThroughKernel throughKernel) {
        return new Provider(
                name,
                Verbs.IBV_WC_WITH_INV,
                false,
                false,
                false,
                Long.MAX_VALUE,
                false,
                false,
                throughKernel);
    }

    /**
     * Whether a successful receive has invalidated a token.
     *
     * @param flags its {@code wc_flags}
     * @return whether {@code invalidated_rkey} is valid
     */
    public boolean invalidated(int flags) {
        return (flags & invalidatedFlags) != 0;
    }

    /**
     * Whether there is more to a successful receive than its bytes.
     *
     * @param flags its {@code wc_flags}
     * @return true when it invalidated a token or brought immediate data
     */
    public boolean special(int flags) {
        return (flags & (invalidatedFlags | Verbs.IBV_WC_WITH_IMM)) != 0;
    }

    /**
     * Whether the status of a send or write says that its local memory may not be used.
     *
     * @param status {@code enum ibv_wc_status}
     * @return true for this provider's habit only, not for what every provider says
     */
    public boolean isBadLocalMemory(int status) {
        return hidesReasons && status == Verbs.IBV_WC_LOC_QP_OP_ERR;
    }

    /**
     * Whether a receive's status says that its message named a bad token to invalidate. Verbs has
     * the same status for a message that is too long, so elsewhere it is not to be told apart.
     *
     * @param status {@code enum ibv_wc_status}
     * @return true for this provider's habit only, not for what every provider says
     */
    public boolean isBadTokenToInvalidate(int status) {
        return hidesReasons && status == Verbs.IBV_WC_REM_INV_REQ_ERR;
    }

    /**
     * Whether a receive's status says that its message was too long.
     *
     * @param status {@code enum ibv_wc_status}
     * @return true for this provider's habit only, not for what every provider says
     */
    public boolean isOverlongReceive(int status) {
        return hidesReasons && status == Verbs.IBV_WC_LOC_QP_OP_ERR;
    }
}
