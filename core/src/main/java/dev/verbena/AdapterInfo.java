package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.connect.Announcement;
import dev.verbena.internal.connect.PrivateData;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.ExtendedAttributes;

import org.jspecify.annotations.Nullable;

import java.time.Duration;

/**
 * The identity, limits and abilities of a device: NDK_ADAPTER_INFO and further fields of {@code
 * ibv_query_device}. {@link Adapter#info} returns it.
 *
 * <p>The limits of queue pairs hold together: a queue pair with all of them was created on the
 * first call of {@link Adapter#info}. (The limits that verbs reports hold individually, and often
 * exclude each other.) The numbers of objects are for all processes together, as the device reports
 * them.
 *
 * <p>Immutable. Two objects are equal if they describe the same device with the same abilities.
 */
@CheckReturnValue
public final class AdapterInfo {
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

    private static final int MOST_READS = 0xFF; // the field of ibv_qp_attr has 8 bits

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

    private final AdapterFacts facts;
    private final DeviceAttributes device;
    private final AdapterProbe.Found found;

    AdapterInfo(AdapterFacts facts) {
        this.facts = facts;
        this.device = facts.device();
        this.found = facts.found();
    }

    AdapterInfo with(ExtendedAttributes attributes) {
        return new AdapterInfo(facts.with(attributes));
    }

    // ---- identity

    /**
     * The device's name, as {@link Adapter#open} takes it.
     *
     * @return the name that {@code ibv_devices} prints
     */
    public String name() {
        return facts.name();
    }

    /**
     * The vendor (VendorId).
     *
     * @return usually the vendor's OUI; 0xFFFFFF for Soft-RoCE
     */
    public int vendorId() {
        return device.vendorId();
    }

    /**
     * The model (DeviceId).
     *
     * @return the vendor's number
     */
    public int vendorPartId() {
        return device.vendorPartId();
    }

    /**
     * The revision of the model.
     *
     * @return the vendor's number
     */
    public int hardwareVersion() {
        return device.hardwareVersion();
    }

    /**
     * The version of the device's firmware.
     *
     * @return in the vendor's format; may be empty
     */
    public String firmwareVersion() {
        return device.firmware();
    }

    /**
     * The node GUID of the device: a globally unique EUI-64.
     *
     * @return the GUID as a big-endian number; {@link #toString} prints it as {@code ibv_devinfo}
     *     does
     */
    public long nodeGuid() {
        return device.nodeGuid();
    }

    /**
     * The RDMA technology (RdmaTechnology). For a device with ports of different kinds, that of its
     * first active port, which queue pairs use unless {@link Adapter#useGid} was called.
     *
     * @return InfiniBand, RoCE or iWARP
     */
    public Technology technology() {
        return facts.technology();
    }

    /**
     * The rdma-core provider that drives the device, if this library treats it specially.
     *
     * @return for example {@code mlx5} or {@code rxe}; {@code other} for all that need no special
     *     treatment
     */
    public String providerName() {
        return facts.providerName();
    }

    /**
     * How many ports it has; {@link Adapter#ports} describes them.
     *
     * @return 1 or more
     */
    public int portCount() {
        return device.ports();
    }

    // ---- limits of requests and queues

    /**
     * The largest region (MaxRegistrationSize).
     *
     * @return in bytes
     */
    public long maxRegistrationBytes() {
        return device.maxRegistration();
    }

    /**
     * The largest window (MaxWindowSize).
     *
     * @return in bytes; 0 without windows
     */
    public long maxWindowBytes() {
        return facts.maxWindowBytes();
    }

    /**
     * The most buffers of a send queue request (MaxInitiatorRequestSge).
     *
     * @return the maximum for {@link QueuePairLimits#withBuffers}
     */
    public int maxInitiatorBuffers() {
        return found.maxBuffers();
    }

    /**
     * The most buffers of a receive (MaxReceiveRequestSge).
     *
     * @return the maximum for {@link QueuePairLimits#withBuffers}
     */
    public int maxReceiveBuffers() {
        return found.maxBuffers();
    }

    /**
     * The most buffers of a read (MaxReadRequestSge).
     *
     * @return at most {@link #maxInitiatorBuffers}
     */
    public int maxReadBuffers() {
        return device.maxReadSge() == 0
                ? found.maxBuffers()
                : Math.min(device.maxReadSge(), found.maxBuffers());
    }

    /**
     * The longest message, write or read (MaxTransferLength).
     *
     * @return in bytes
     */
    public long maxTransferBytes() {
        return facts.maxTransferBytes();
    }

    /**
     * The most bytes inline (MaxInlineDataSize). Verbs does not report it, so it was found by
     * creating queue pairs, up to 4096.
     *
     * @return the maximum for {@link QueuePairLimits#withInlineBytes}
     */
    public int maxInlineBytes() {
        return found.maxInlineBytes();
    }

    /**
     * The most reads and atomics of a peer that can be outstanding at once (MaxInboundReadLimit).
     *
     * @return the maximum for {@link QueuePairLimits#withReads}, 0 to 255
     */
    public int maxInboundReads() {
        return maxInboundReads(device);
    }

    /**
     * The most reads and atomics of a queue pair that can be outstanding at once
     * (MaxOutboundReadLimit).
     *
     * @return the maximum for {@link QueuePairLimits#withReads}, 0 to 255
     */
    public int maxOutboundReads() {
        return maxOutboundReads(device);
    }

    /** The same of a device that was not probed. */
    static int maxInboundReads(DeviceAttributes device) {
        return Math.min(device.maxInboundReads(), MOST_READS);
    }

    /** The same of a device that was not probed. */
    static int maxOutboundReads(DeviceAttributes device) {
        return Math.min(device.maxOutboundReads(), MOST_READS);
    }

    /**
     * The deepest send queue (NDK: initiator queue; MaxInitiatorQueueDepth).
     *
     * @return the maximum for {@link QueuePairLimits#depths}, at most 8192
     */
    public int maxInitiatorDepth() {
        return found.maxDepth();
    }

    /**
     * The deepest receive queue (MaxReceiveQueueDepth).
     *
     * @return the maximum for {@link QueuePairLimits#depths}, at most 8192
     */
    public int maxReceiveDepth() {
        return found.maxDepth();
    }

    /**
     * The deepest shared receive queue (MaxSrqDepth).
     *
     * @return at most 8192; 0 without shared receive queues
     */
    public int maxSharedReceiveDepth() {
        return found.maxSharedReceives();
    }

    /**
     * The most buffers of a receive in a shared receive queue.
     *
     * @return the maximum; 0 without shared receive queues
     */
    public int maxSharedReceiveBuffers() {
        return found.maxSharedReceives() == 0 ? 0 : device.maxSharedSge();
    }

    /**
     * The deepest completion queue (MaxCqDepth): half of the device's limit, which leaves space for
     * the internal signals of silent requests.
     *
     * @return the maximum for {@link Adapter#createCompletionQueue(int)}
     */
    public int maxCompletionQueueDepth() {
        return found.maxCompletions();
    }

    /**
     * Which operations can use memory that is registered {@link Access#ON_DEMAND}.
     *
     * @return the operations, none on a device without on-demand paging
     */
    public OnDemandPaging onDemandPaging() {
        return new OnDemandPaging(facts.extended().paging());
    }

    // ---- how many objects the device has

    /**
     * How many queue pairs the device has for all programs together.
     *
     * @return the number from {@code ibv_query_device}, which may be more than memory allows
     */
    public int maxQueuePairs() {
        return device.maxQueuePairs();
    }

    /**
     * How many completion queues the device has for all programs together.
     *
     * @return the number from {@code ibv_query_device}, which may be more than memory allows
     */
    public int maxCompletionQueues() {
        return device.maxCompletionQueues();
    }

    /**
     * How many memory regions the device has for all programs together.
     *
     * @return the number from {@code ibv_query_device}, which may be more than memory allows
     */
    public int maxMemoryRegions() {
        return device.maxRegions();
    }

    /**
     * How many protection domains the device has for all programs together.
     *
     * @return the number from {@code ibv_query_device}, which may be more than memory allows
     */
    public int maxProtectionDomains() {
        return device.maxDomains();
    }

    /**
     * How many memory windows the device has for all programs together.
     *
     * @return the number from {@code ibv_query_device}; 0 if creating a window failed
     */
    public int maxMemoryWindows() {
        return found.windows() ? device.maxWindows() : 0;
    }

    /**
     * How many shared receive queues the device has for all programs together.
     *
     * @return the number from {@code ibv_query_device}; 0 if the device has none
     */
    public int maxSharedReceiveQueues() {
        return found.maxSharedReceives() == 0 ? 0 : device.maxSharedReceiveQueues();
    }

    // ---- connections

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

    // ---- abilities

    /**
     * Whether {@link CompletionQueue#resize} works ({@link #CQ_RESIZE}).
     *
     * @return the result of a test on the device
     */
    public boolean completionQueueResize() {
        return found.resizes();
    }

    /**
     * Whether {@link QueuePair#sendAndInvalidate} works, if the peer supports it, too.
     *
     * @return false for a device without the memory management extensions
     */
    public boolean sendsWithInvalidate() {
        return device.sendsWithInvalidate();
    }

    /**
     * Whether {@link ProtectionDomain#createMemoryWindow} works, and with it the send with
     * invalidate of a peer.
     *
     * @return the result of a test on the device
     */
    public boolean invalidatableWindows() {
        return found.windows();
    }

    /**
     * Beyond NDK: whether {@link QueuePair#compareAndSwap} and {@link QueuePair#fetchAndAdd} work.
     *
     * @return false for {@link AtomicsLevel#NONE}
     */
    public boolean atomics() {
        return device.atomics();
    }

    /**
     * Beyond NDK: with respect to what atomics are atomic.
     *
     * @return {@link AtomicsLevel#NONE} without atomics
     */
    public AtomicsLevel atomicsLevel() {
        if (!device.atomics()) {
            return AtomicsLevel.NONE;
        }
        return device.globalAtomics() ? AtomicsLevel.GLOBAL : AtomicsLevel.DEVICE;
    }

    /**
     * Beyond NDK: whether {@link QueuePair#sendWithImmediate} and {@link
     * QueuePair#writeWithImmediate} work.
     *
     * @return false on iWARP, which has no immediate data
     */
    public boolean immediateData() {
        return !device.iwarp();
    }

    /**
     * Whether memory that reads write into has to be registered with {@link Access#RDMA_READ_SINK}.
     *
     * @return true on iWARP, where reads into memory without that right fail
     */
    public boolean readSinkRequired() {
        return device.iwarp();
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
                | (completionQueueResize() ? CQ_RESIZE : 0)
                | (maxModerationCount() > 0 ? CQ_INTERRUPT_MODERATION : 0);
    }

    /**
     * The largest number of completions that {@link CompletionQueue#moderate} can set.
     *
     * @return 0 where it does not work, and where library or provider are too old to say
     */
    public int maxModerationCount() {
        return facts.extended().moderationCount();
    }

    /**
     * The longest interval that {@link CompletionQueue#moderate} can set.
     *
     * @return zero where it does not work, and where library or provider are too old to say
     */
    public Duration maxModerationInterval() {
        return Duration.ofNanos(1000L * facts.extended().moderationMicroseconds());
    }

    /**
     * How many pages a fast registration takes (FRMRPageCount).
     *
     * @return 0, because verbs offers no fast registration to programs
     */
    public int fastRegistrationPages() {
        return 0;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof AdapterInfo that && facts.equals(that.facts);
    }

    @Override
    public int hashCode() {
        return facts.hashCode();
    }

    /** The identity and the most important limits, in one line. */
    @Override
    public String toString() {
        return "AdapterInfo(%s: %s, provider %s, vendor 0x%x, part 0x%x, hardware 0x%x, firmware %s, GUID %s, %d port%s; queues up to %d deep with %d buffers and %d inline bytes, completion queues up to %d; windows %s, sends with invalidate %s, atomics %s)"
                .formatted(
                        name(),
                        technology(),
                        providerName(),
                        vendorId(),
                        vendorPartId(),
                        hardwareVersion(),
                        firmwareVersion().isEmpty() ? "unknown" : firmwareVersion(),
                        guid(nodeGuid()),
                        portCount(),
                        portCount() == 1 ? "" : "s",
                        maxInitiatorDepth(),
                        maxInitiatorBuffers(),
                        maxInlineBytes(),
                        maxCompletionQueueDepth(),
                        invalidatableWindows() ? "yes" : "no",
                        sendsWithInvalidate() ? "yes" : "no",
                        atomicsLevel());
    }

    private static String guid(long guid) {
        return "%04x:%04x:%04x:%04x"
                .formatted(guid >>> 48, guid >>> 32 & 0xFFFF, guid >>> 16 & 0xFFFF, guid & 0xFFFF);
    }
}
