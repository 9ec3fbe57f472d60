package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.connect.Announcement;
import dev.verbena.internal.connect.PrivateData;

import java.time.Duration;

/**
 * The identity, limits and abilities of a device: NDK_ADAPTER_INFO and further fields of {@code
 * ibv_query_device}. {@link Adapter#info} returns it.
 *
 * <p>The limits of queue pairs hold together: a queue pair with all of them was created on the
 * first call of {@link Adapter#info}. (The limits that verbs reports hold individually, and often
 * exclude each other.) The numbers of objects are for all processes together, as the device reports
 * them, which may be more than memory allows.
 *
 * @param name the device's name, as {@link Adapter#open} takes it and {@code ibv_devices} prints it
 * @param vendorId the vendor (VendorId): usually the vendor's OUI; 0xFFFFFF for Soft-RoCE
 * @param vendorPartId the model (DeviceId): the vendor's number
 * @param hardwareVersion the revision of the model: the vendor's number
 * @param firmwareVersion the version of the device's firmware in the vendor's format; may be empty
 * @param nodeGuid the node GUID of the device, a globally unique EUI-64, as a big-endian number;
 *     {@link #toString} prints it as {@code ibv_devinfo} does
 * @param technology the RDMA technology (RdmaTechnology): InfiniBand, RoCE or iWARP. For a device
 *     with ports of different kinds, that of its first active port, which queue pairs use unless
 *     {@link Adapter#useGid} was called
 * @param providerName the rdma-core provider that drives the device, if this library treats it
 *     specially, for example {@code mlx5} or {@code rxe}; {@code other} for all that need no
 *     special treatment
 * @param portCount how many ports it has, 1 or more; {@link Adapter#ports} describes them
 * @param maxRegistrationBytes the largest region (MaxRegistrationSize), in bytes
 * @param maxWindowBytes the largest window (MaxWindowSize), in bytes; 0 without windows
 * @param maxInitiatorBuffers the most buffers of a send queue request (MaxInitiatorRequestSge): the
 *     maximum for {@link QueuePairLimits#withBuffers}
 * @param maxReadBuffers the most buffers of a read (MaxReadRequestSge): at most {@code
 *     maxInitiatorBuffers}
 * @param maxTransferBytes the longest message, write or read (MaxTransferLength), in bytes
 * @param maxInlineBytes the most bytes inline (MaxInlineDataSize): the maximum for {@link
 *     QueuePairLimits#withInlineBytes}. Verbs does not report it, so it was found by creating queue
 *     pairs, up to 4096
 * @param maxInboundReads the most reads and atomics of a peer that can be outstanding at once
 *     (MaxInboundReadLimit): the maximum for {@link QueuePairLimits#withReads}, 0 to 255
 * @param maxOutboundReads the most reads and atomics of a queue pair that can be outstanding at
 *     once (MaxOutboundReadLimit): the maximum for {@link QueuePairLimits#withReads}, 0 to 255
 * @param maxInitiatorDepth the deepest send queue (NDK: initiator queue; MaxInitiatorQueueDepth):
 *     the maximum for {@link QueuePairLimits#depths}, at most 8192
 * @param maxSharedReceiveDepth the deepest shared receive queue (MaxSrqDepth): at most 8192; 0
 *     without shared receive queues
 * @param maxSharedReceiveBuffers the most buffers of a receive in a shared receive queue; 0 without
 *     shared receive queues
 * @param maxCompletionQueueDepth the deepest completion queue (MaxCqDepth): half of the device's
 *     limit, which leaves space for the internal signals of silent requests. The maximum for {@link
 *     Adapter#createCompletionQueue(int)}
 * @param maxQueuePairs how many queue pairs the device has for all programs together
 * @param maxCompletionQueues how many completion queues the device has for all programs together
 * @param maxMemoryRegions how many memory regions the device has for all programs together
 * @param maxProtectionDomains how many protection domains the device has for all programs together
 * @param maxMemoryWindows how many memory windows the device has for all programs together; 0 if
 *     creating a window failed
 * @param maxSharedReceiveQueues how many shared receive queues the device has for all programs
 *     together; 0 if it has none
 * @param completionQueueResize whether {@link CompletionQueue#resize} works ({@link #CQ_RESIZE}),
 *     tested on the device
 * @param sharedReceiveResize whether {@link SharedReceiveQueue#resize} works, as the device reports
 * @param sendsWithInvalidate whether {@link QueuePair#sendAndInvalidate} works, if the peer
 *     supports it, too; false for a device without the memory management extensions
 * @param invalidatableWindows whether {@link ProtectionDomain#createMemoryWindow} works, and with
 *     it the send with invalidate of a peer; tested on the device
 * @param atomicsLevel beyond NDK: with respect to what atomics are atomic; {@link
 *     AtomicsLevel#NONE} without atomics
 * @param onDemandPaging which operations can use memory that is registered {@link
 *     Access#ON_DEMAND}; none on a device without on-demand paging
 * @param maxModerationCount the largest number of completions that {@link CompletionQueue#moderate}
 *     can set; 0 where it does not work, and where library or provider are too old to say
 * @param maxModerationInterval the longest interval that {@link CompletionQueue#moderate} can set;
 *     zero where it does not work, and where library or provider are too old to say
 */
@CheckReturnValue
public record AdapterInfo(
        String name,
        int vendorId,
        int vendorPartId,
        int hardwareVersion,
        String firmwareVersion,
        long nodeGuid,
        Technology technology,
        String providerName,
        int portCount,
        long maxRegistrationBytes,
        long maxWindowBytes,
        int maxInitiatorBuffers,
        int maxReadBuffers,
        long maxTransferBytes,
        int maxInlineBytes,
        int maxInboundReads,
        int maxOutboundReads,
        int maxInitiatorDepth,
        int maxSharedReceiveDepth,
        int maxSharedReceiveBuffers,
        int maxCompletionQueueDepth,
        int maxQueuePairs,
        int maxCompletionQueues,
        int maxMemoryRegions,
        int maxProtectionDomains,
        int maxMemoryWindows,
        int maxSharedReceiveQueues,
        boolean completionQueueResize,
        boolean sharedReceiveResize,
        boolean sendsWithInvalidate,
        boolean invalidatableWindows,
        AtomicsLevel atomicsLevel,
        OnDemandPaging onDemandPaging,
        int maxModerationCount,
        Duration maxModerationInterval) {
    /** In {@link #flags}: data arrive in memory in order (NDK_ADAPTER_FLAG_IN_ORDER_DMA). */
    public static final int IN_ORDER_DMA = 0x1;

    /**
     * In {@link #flags}: memory that reads write into needs no special right
     * (NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED); see {@link #readSinkRequired}.
     */
    public static final int RDMA_READ_SINK_NOT_REQUIRED = 0x2;

    /**
     * In {@link #flags}: completion queues can wait for several completions or some time before
     * they interrupt (NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION).
     */
    public static final int CQ_INTERRUPT_MODERATION = 0x4;

    /** In {@link #flags}: the device has several engines (NDK_ADAPTER_FLAG_MULTI_ENGINE). */
    public static final int MULTI_ENGINE = 0x8;

    /**
     * In {@link #flags}: a read can invalidate the local key (NDK: token) that it writes with
     * (NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE); see {@link
     * OpFlags#RDMA_READ_LOCAL_INVALIDATE}.
     */
    public static final int RDMA_READ_LOCAL_INVALIDATE = 0x10;

    /** In {@link #flags}: {@link CompletionQueue#resize} works (NDK_ADAPTER_FLAG_CQ_RESIZE). */
    public static final int CQ_RESIZE = 0x100;

    /**
     * In {@link #flags}: queue pairs of this device can be connected to each other
     * (NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS).
     */
    public static final int LOOPBACK_CONNECTIONS = 0x10000;

    /** What carries the operations over the wire: NDK_RDMA_TECHNOLOGY. */
    public enum Technology {
        /** iWARP: TCP. */
        IWARP,
        /** InfiniBand. */
        INFINIBAND,
        /**
         * RDMA over Converged Ethernet. Version 1 or 2 (NdkRoCE, NdkRoCEv2) is not a property of
         * the device, but of each GID: {@link Port.GidType}.
         */
        ROCE,
        /** Another, without the reliable connections that this library needs. */
        OTHER
    }

    /** With respect to what atomics are atomic: {@code enum ibv_atomic_cap}. */
    public enum AtomicsLevel {
        /** There are no atomics. */
        NONE,
        /** Other atomics of the same device (IBV_ATOMIC_HCA). */
        DEVICE,
        /** Also the processor and other devices (IBV_ATOMIC_GLOB). */
        GLOBAL
    }

    /**
     * The most buffers of a receive (MaxReceiveRequestSge).
     *
     * @return the maximum for {@link QueuePairLimits#withBuffers}
     */
    public int maxReceiveBuffers() {
        return maxInitiatorBuffers;
    }

    /**
     * The deepest receive queue (MaxReceiveQueueDepth).
     *
     * @return the maximum for {@link QueuePairLimits#depths}, at most 8192
     */
    public int maxReceiveDepth() {
        return maxInitiatorDepth;
    }

    /**
     * How many bytes of private data a request for a connection carries (MaxCallerData), see {@link
     * ConnectionOptions#withPrivateData}. It is larger by {@link #announcementBytes} {@linkplain
     * ConnectionOptions#withoutAnnouncement without an announcement}.
     *
     * @return 44
     */
    public int maxCallerDataBytes() {
        return PrivateData.REQUEST_BYTES - Announcement.BYTES;
    }

    /**
     * How many bytes of private data an accept carries (MaxCalleeData), see {@link
     * ConnectionOptions#withPrivateData}. It is larger by {@link #announcementBytes} {@linkplain
     * ConnectionOptions#withoutAnnouncement without an announcement}.
     *
     * @return 184
     */
    public int maxCalleeDataBytes() {
        return PrivateData.REPLY_BYTES - Announcement.BYTES;
    }

    /**
     * How many bytes of private data a reject carries, see {@link Connector#reject}. NDK has one
     * number for both rejects and accepts, MaxCalleeData; here an accept carries more. It is larger
     * by {@link #announcementBytes} if the peer sent no announcement.
     *
     * @return 136
     */
    public int maxRejectDataBytes() {
        return PrivateData.REJECT_BYTES - Announcement.BYTES;
    }

    /**
     * How many bytes of the transport's private data the announcement takes, in which both sides
     * describe their abilities if they use this library.
     *
     * @return 12
     */
    public int announcementBytes() {
        return Announcement.BYTES;
    }

    /**
     * Beyond NDK: whether {@link QueuePair#compareAndSwap} and {@link QueuePair#fetchAndAdd} work.
     *
     * @return false for {@link AtomicsLevel#NONE}
     */
    public boolean atomics() {
        return atomicsLevel != AtomicsLevel.NONE;
    }

    /**
     * Beyond NDK: whether {@link QueuePair#sendWithImmediate} and {@link
     * QueuePair#writeWithImmediate} work.
     *
     * @return false on iWARP, which has no immediate data
     */
    public boolean immediateData() {
        return technology != Technology.IWARP;
    }

    /**
     * Whether memory that reads write into has to be registered with {@link Access#RDMA_READ_SINK}.
     *
     * @return true on iWARP, where reads into memory without that right fail
     */
    public boolean readSinkRequired() {
        return technology == Technology.IWARP;
    }

    /**
     * The abilities as NDK_ADAPTER_FLAG_* (AdapterFlags): {@link #LOOPBACK_CONNECTIONS}, {@link
     * #RDMA_READ_SINK_NOT_REQUIRED} except on iWARP, and {@link #CQ_RESIZE} and {@link
     * #CQ_INTERRUPT_MODERATION} where they work. Never set are {@link #IN_ORDER_DMA}, which verbs
     * does not report, {@link #MULTI_ENGINE} and {@link #RDMA_READ_LOCAL_INVALIDATE}.
     *
     * @return the bits of the flags, combined
     */
    public int flags() {
        return (readSinkRequired() ? 0 : RDMA_READ_SINK_NOT_REQUIRED)
                | LOOPBACK_CONNECTIONS
                | (completionQueueResize ? CQ_RESIZE : 0)
                | (maxModerationCount > 0 ? CQ_INTERRUPT_MODERATION : 0);
    }

    /**
     * How many pages a fast registration takes (FRMRPageCount).
     *
     * @return 0, because verbs offers no fast registration to programs
     */
    public int fastRegistrationPages() {
        return 0;
    }

    /** The identity and the most important limits, in one line. */
    @Override
    public String toString() {
        return "AdapterInfo(%s: %s, provider %s, vendor 0x%x, part 0x%x, hardware 0x%x, firmware %s, GUID %s, %d port%s; queues up to %d deep with %d buffers and %d inline bytes, completion queues up to %d; windows %s, sends with invalidate %s, atomics %s)"
                .formatted(
                        name,
                        technology,
                        providerName,
                        vendorId,
                        vendorPartId,
                        hardwareVersion,
                        firmwareVersion.isEmpty() ? "unknown" : firmwareVersion,
                        guid(nodeGuid),
                        portCount,
                        portCount == 1 ? "" : "s",
                        maxInitiatorDepth,
                        maxInitiatorBuffers,
                        maxInlineBytes,
                        maxCompletionQueueDepth,
                        invalidatableWindows ? "yes" : "no",
                        sendsWithInvalidate ? "yes" : "no",
                        atomicsLevel);
    }

    private static String guid(long guid) {
        return "%04x:%04x:%04x:%04x"
                .formatted(guid >>> 48, guid >>> 32 & 0xFFFF, guid >>> 16 & 0xFFFF, guid & 0xFFFF);
    }
}
