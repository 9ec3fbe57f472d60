package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

/**
 * The deviations of rdma-core's providers from verbs, each with the fact behind it. A provider is
 * identified by the vendor and part numbers from {@code ibv_query_device}, not by the device name,
 * which users may change.
 *
 * <p>Events that rxe and siw do not raise are the subject of the adapter's quirks. Three more
 * deviations are not listed here, because the code handles them the same way for every provider:
 *
 * <ul>
 *   <li>{@code bad_wr}: rxe and siw do not set it when only the doorbell fails, although the
 *       requests stay in the queue; siw may return 0 and set it. {@link SendChain#accepted} checks
 *       both.
 *   <li>The sign of a post's errno: siw returns a negative one.
 *   <li>{@code mw->rkey}: rxe and mlx5 read the window's old remote key from it when a bind is
 *       posted and never change it; irdma (rdma-core 64) changes it, even if the post fails. So it
 *       is written before every bind, see {@link DeviceControl#setWindowKey}.
 * </ul>
 *
 * @param invalidatedFlags the {@code wc_flags} that mark a receive whose message invalidated a
 *     remote key
 * @param readsInvalidatedKeyFromRdma whether a send-with-invalidate takes the remote key from
 *     {@code wr.rdma.rkey}
 * @param reportsGenericErrors whether {@code IBV_WC_LOC_QP_OP_ERR} is also reported for a receive
 *     whose message was too long, and for a send or write whose memory has a bad local key; then
 *     {@code IBV_WC_REM_INV_REQ_ERR} of a receive means that the message named a bad remote key to
 *     invalidate
 * @param throughKernel which data-path calls enter the kernel or wait, always or sometimes; with
 *     most NICs none, because the provider writes to the device from user space
 */
public record Provider(
        String name,
        int invalidatedFlags,
        boolean readsInvalidatedKeyFromRdma,
        long maxWindowBytes,
        boolean reportsGenericErrors,
        ThroughKernel throughKernel) {
    /** Which data-path calls enter the kernel or wait, always or sometimes. */
    public enum ThroughKernel {
        /** None. */
        NONE,
        /** {@code post_send}, whose doorbell is a system call. */
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
    private static final int CONNECT_IB = 0x1011; // the lowest part of mlx5; mlx4's are lower
    private static final int OLD_MLX4 = 0x6340; // except mlx4's oldest, from this one
    private static final int LAST_OLD_MLX4 = 0x676E; // to here

    // The kernel's enum ib_wc_flags has WITH_INVALIDATE at 1 << 2, the library's at 1 << 3, and rxe
    // passes the kernel's on (seen on 6.1 and 6.12). 1 << 2 is IBV_WC_IP_CSUM_OK here, which
    // rxe never sets.
    private static final int KERNEL_WITH_INVALIDATE = 1 << 2;

    /**
     * The largest region that rxe of newer kernels registers. Tested on Linux 6.12.117 and 7.3.4
     * (x86-64, pages of 4 KiB): 1 GiB can be registered, one page more fails with ENOMEM. Linux 6.1
     * has no such limit.
     */
    private static final long RXE_REGION_BYTES = 1L << 30;

    /**
     * Advice for a registration that failed with ENOMEM although the process may lock enough
     * memory; null if no limit of this provider explains the failure.
     */
    public @Nullable String adviceForLargeRegion(long bytes) {
        return name.equals("rxe") && bytes > RXE_REGION_BYTES
                ? "Soft-RoCE of this kernel may have a limit of 1 GiB for one registration, however"
                        + " much memory may be locked (Linux 6.12.117 and 7.3 have it, 6.1 does not):"
                        + " register the memory in parts of 1 GiB or less."
                : null;
    }

    /** What is wrong with memory that this provider pages on demand; null if nothing is known. */
    public @Nullable String pagingDefect() {
        // __rxe_odp_mr_copy leaves out the offset within the page; seen on 7.3.4.
        return name.equals("rxe")
                ? "Soft-RoCE's on-demand paging loses where in a page the data belongs (seen on Linux"
                        + " 7.3.4): only requests that begin at the start of a page are right. Do not"
                        + " use ON_DEMAND for data that matters"
                : null;
    }

    /**
     * Whether the close of a queue pair with a shared receive queue must wait for {@code
     * IBV_EVENT_QP_LAST_WQE_REACHED}, which is raised when the last receive that it took has
     * completed. Otherwise a receive may complete between the last poll of the close and {@code
     * ibv_destroy_qp}. mlx5 and mlx4 discard such completions in their destroy ({@code
     * __mlx5_cq_clean}, {@code __mlx4_cq_clean}), so that receive would never be reported. hfi1
     * (and qib) raise the event in {@code rvt_modify_qp}.
     *
     * <p>Not rxe: it raises the event only from Linux 6.5 on, and does not need it, because its
     * destroy does not discard completions. siw never raises it.
     */
    public boolean reportsLastReceive() {
        return switch (name) {
            case "mlx5", "mlx4", "hfi1" -> true;
            default -> false;
        };
    }

    /**
     * Identifies the provider of a device. An unknown device has one without deviations, named
     * "other".
     */
    public static Provider of(int vendorId, int vendorPartId) {
        return switch (vendorId) {
            // reportsGenericErrors: seen on 6.1 and 6.12 for receives, with one packet and with
            // five; on 6.1 also for sends and for bad remote keys to invalidate. From 6.4 on the
            // latter two end in WR_FLUSH_ERR, as with other providers.
            case RXE ->
                    new Provider(
                            "rxe",
                            Verbs.IBV_WC_WITH_INV | KERNEL_WITH_INVALIDATE,
                            false,
                            Long.MAX_VALUE,
                            true,
                            ThroughKernel.SENDS); // post_send_db of rxe.c
            // siw.c copies wr.rdma.rkey into every request. Its poll_cq clears wc_flags, so a
            // receive does not report an invalidation; but siw has no windows that could be
            // invalidated.
            case SIW ->
                    new Provider(
                            "siw",
                            Verbs.IBV_WC_WITH_INV,
                            true,
                            Long.MAX_VALUE,
                            false,
                            ThroughKernel.SENDS); // siw_db of siw.c
            // This case and the next four describe rdma-core 65.
            // hfi1verbs and ipathverbs: ibv_cmd_post_send, and against older kernels
            // ibv_cmd_poll_cq and ibv_cmd_post_recv.
            case OMNI_PATH -> conforming("hfi1", ThroughKernel.ALL);
            // Posts pace the doorbell: they wait for up to 128 us and make a system call. A poll
            // while the queue is being resized is ibv_cmd_poll_cq.
            case BROADCOM -> conforming("bnxt_re", ThroughKernel.ALL);
            // While doorbells are disabled, posts call ibv_cmd_modify_qp instead.
            case CHELSIO -> conforming("cxgb4", ThroughKernel.ALL);
            // A poll that finds a failure modifies the queue pair's state by a system call.
            case HUAWEI -> conforming("hns", ThroughKernel.ALL);
            // irdma: a post to a queue pair in the error state makes a system call to flush it.
            case INTEL -> conforming("irdma", ThroughKernel.ALL);
            // set_bind_wr in mlx5's qp.c returns EOPNOTSUPP for more than 1UL << 31 bytes.
            case MELLANOX ->
                    isMlx5(vendorPartId)
                            ? new Provider(
                                    "mlx5",
                                    Verbs.IBV_WC_WITH_INV,
                                    false,
                                    1L << 31,
                                    false,
                                    ThroughKernel.NONE)
                            : conforming("mlx4", ThroughKernel.NONE);
            // The data-path calls of all other providers stay in user space.
            default -> conforming("other", ThroughKernel.NONE);
        };
    }

    private static boolean isMlx5(int part) {
        return part >= CONNECT_IB && !(part >= OLD_MLX4 && part <= LAST_OLD_MLX4);
    }

    private static Provider conforming(String name, ThroughKernel throughKernel) {
        return new Provider(
                name, Verbs.IBV_WC_WITH_INV, false, Long.MAX_VALUE, false, throughKernel);
    }

    /** Whether the message of a successful receive invalidated a remote key. */
    public boolean invalidated(int flags) {
        return (flags & invalidatedFlags) != 0;
    }

    /**
     * Whether a successful receive carries more than the bytes of a message: the message
     * invalidated a remote key, or has immediate data.
     */
    public boolean special(int flags) {
        return (flags & (invalidatedFlags | Verbs.IBV_WC_WITH_IMM)) != 0;
    }

    /**
     * Whether this generic status means that a receive's message was too long, or that the local
     * memory of a send or write may not be used. The caller handles the standard statuses.
     */
    public boolean isLocalError(int status) {
        return reportsGenericErrors && status == Verbs.IBV_WC_LOC_QP_OP_ERR;
    }

    /**
     * Whether a receive's status means that its message named a bad remote key to invalidate. Other
     * providers report the same status for a message that is too long, so there the two cannot be
     * distinguished. The caller handles the standard statuses.
     */
    public boolean isBadTokenToInvalidate(int status) {
        return reportsGenericErrors && status == Verbs.IBV_WC_REM_INV_REQ_ERR;
    }
}
