package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.connect.Announcement;
import dev.verbena.internal.connect.PrivateData;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.Provider;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.Objects;

/**
 * What a device is and what it can do: NDK_ADAPTER_INFO, and what {@code ibv_query_device} says
 * beyond it. {@link Adapter#info} has it.
 *
 * <p>The limits of queue pairs hold together: a queue pair with all of them was made when this was
 * first asked for. What verbs says holds for each limit alone, and is often too much for the
 * others. The numbers of objects are the device's own, for all processes together.
 *
 * <p>Immutable. What is said of the same device with the same abilities is equal.
 */
@CheckReturnValue
public final class AdapterInfo {
    /** In {@link #flags}: data arrive in memory in order (NDK_ADAPTER_FLAG_IN_ORDER_DMA). */
    public static final int IN_ORDER_DMA = 0x1;

    /**
     * In {@link #flags}: memory that reads write into needs no right of its own
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
     * In {@link #flags}: a read can invalidate the token it writes with
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

    private static final int MOST_READS = 0xFF; // 8 bits in ibv_qp_attr

    /** What carries the operations over the wire: NDK_RDMA_TECHNOLOGY. */
    public enum Technology {
        /** iWARP: TCP. */
        IWARP,
        /** InfiniBand. */
        INFINIBAND,
        /**
         * RDMA over Converged Ethernet. Whether it is version 1 or 2 (NdkRoCE, NdkRoCEv2) is not
         * the device's: each GID has its own {@link Port.GidType}.
         */
        ROCE,
        /** Another, which has no reliable connections as this library needs them. */
        OTHER
    }

    /** Against whom atomics are atomic: {@code enum ibv_atomic_cap}. */
    public enum AtomicsLevel {
        /** There are no atomics. */
        NONE,
        /** Against other atomics of the same device (IBV_ATOMIC_HCA). */
        DEVICE,
        /** Against the processor and other devices, too (IBV_ATOMIC_GLOB). */
        GLOBAL
    }

    private final String name;
    private final DeviceAttributes device;
    private final String providerName;
    private final long maxWindowBytes;
    private final Technology technology;
    private final long maxTransferBytes;
    private final AdapterProbe.Found found;

    AdapterInfo(
            String name,
            DeviceAttributes device,
            Provider provider,
            List<Port> ports,
            AdapterProbe.Found found) {
        this.name = name;
        this.device = device;
        this.providerName = provider.name();
        this.maxWindowBytes =
                found.windows() ? Math.min(device.maxRegistration(), provider.maxWindowBytes()) : 0;
        this.technology = technology(device, ports);
        this.maxTransferBytes = ports.stream().mapToLong(Port::maxMessageBytes).max().orElse(0);
        this.found = found;
    }

    private static Technology technology(DeviceAttributes device, List<Port> ports) {
        if (device.iwarp()) {
            return Technology.IWARP;
        }
        if (!device.infiniband()) {
            return Technology.OTHER;
        }
        // A device may have ports of both kinds: the one that queue pairs get by themselves counts.
        return ports.stream()
                        .filter(Port::active)
                        .findFirst()
                        .or(() -> ports.stream().findFirst())
                        .filter(port -> port.linkLayer() == Port.LinkLayer.ETHERNET)
                        .isPresent()
                ? Technology.ROCE
                : Technology.INFINIBAND;
    }

    // ---- what it is

    /**
     * The device's name, as {@link Adapter#open} takes it.
     *
     * @return as {@code ibv_devices} prints it
     */
    public String name() {
        return name;
    }

    /**
     * Who made the device (VendorId).
     *
     * @return the vendor's OUI, most often; 0xFFFFFF for Soft-RoCE
     */
    public int vendorId() {
        return device.vendorId();
    }

    /**
     * Which model it is (DeviceId).
     *
     * @return the vendor's number
     */
    public int vendorPartId() {
        return device.vendorPartId();
    }

    /**
     * Which version of the model it is.
     *
     * @return the vendor's number
     */
    public int hardwareVersion() {
        return device.hardwareVersion();
    }

    /**
     * The version of the device's firmware.
     *
     * @return as the vendor writes it; may be empty
     */
    public String firmwareVersion() {
        return device.firmware();
    }

    /**
     * The GUID of the device, an EUI-64, which no other device has.
     *
     * @return its first byte on top; {@link #toString} prints it as {@code ibv_devinfo} does
     */
    public long nodeGuid() {
        return device.nodeGuid();
    }

    /**
     * What carries the operations (RdmaTechnology). For a device with ports of two kinds that of
     * the first active one, which queue pairs use unless {@link Adapter#useGid} was called.
     *
     * @return InfiniBand, RoCE or iWARP
     */
    public Technology technology() {
        return technology;
    }

    /**
     * Which of rdma-core's providers drives the device, as far as this library treats them
     * differently.
     *
     * @return {@code mlx5}, {@code rxe}…; {@code other} for one without peculiarities
     */
    public String providerName() {
        return providerName;
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
        return maxWindowBytes;
    }

    /**
     * The most buffers of an initiator request (MaxInitiatorRequestSge).
     *
     * @return for {@link QueuePairLimits#withBuffers}
     */
    public int maxInitiatorBuffers() {
        return found.maxBuffers();
    }

    /**
     * The most buffers of a receive (MaxReceiveRequestSge).
     *
     * @return for {@link QueuePairLimits#withBuffers}
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
        return maxTransferBytes;
    }

    /**
     * The most bytes inline (MaxInlineDataSize). Verbs cannot be asked for it, so it was found by
     * trying, up to 4096.
     *
     * @return for {@link QueuePairLimits#withInlineBytes}
     */
    public int maxInlineBytes() {
        return found.maxInlineBytes();
    }

    /**
     * The most reads and atomics of a peer that can be outstanding at once (MaxInboundReadLimit).
     *
     * @return for {@link QueuePairLimits#withReads}, 0 to 255
     */
    public int maxInboundReads() {
        return Math.min(device.maxInboundReads(), MOST_READS);
    }

    /**
     * The most reads and atomics of a queue pair that can be outstanding at once
     * (MaxOutboundReadLimit).
     *
     * @return for {@link QueuePairLimits#withReads}, 0 to 255
     */
    public int maxOutboundReads() {
        return Math.min(device.maxOutboundReads(), MOST_READS);
    }

    /**
     * The deepest send queue (MaxInitiatorQueueDepth).
     *
     * @return for {@link QueuePairLimits#depths}, at most 8192
     */
    public int maxInitiatorDepth() {
        return found.maxDepth();
    }

    /**
     * The deepest receive queue (MaxReceiveQueueDepth).
     *
     * @return for {@link QueuePairLimits#depths}, at most 8192
     */
    public int maxReceiveDepth() {
        return found.maxDepth();
    }

    /**
     * The deepest shared receive queue (MaxSrqDepth).
     *
     * @return at most 8192; 0 without any
     */
    public int maxSharedReceiveDepth() {
        return found.maxSharedReceives();
    }

    /**
     * The most buffers of a receive in a shared receive queue.
     *
     * @return 0 without any
     */
    public int maxSharedReceiveBuffers() {
        return found.maxSharedReceives() == 0 ? 0 : device.maxSharedSge();
    }

    /**
     * The deepest completion queue (MaxCqDepth): half of the device's, which leaves room for the
     * signals of silent requests.
     *
     * @return for {@link Adapter#createCompletionQueue(int)}
     */
    public int maxCompletionQueueDepth() {
        return found.maxCompletions();
    }

    // ---- how many objects the device has

    /**
     * How many queue pairs the device has for all programs together.
     *
     * @return as {@code ibv_query_device} says, which may be more than memory allows
     */
    public int maxQueuePairs() {
        return device.maxQueuePairs();
    }

    /**
     * How many completion queues the device has for all programs together.
     *
     * @return as {@code ibv_query_device} says, which may be more than memory allows
     */
    public int maxCompletionQueues() {
        return device.maxCompletionQueues();
    }

    /**
     * How many memory regions the device has for all programs together.
     *
     * @return as {@code ibv_query_device} says, which may be more than memory allows
     */
    public int maxMemoryRegions() {
        return device.maxRegions();
    }

    /**
     * How many protection domains the device has for all programs together.
     *
     * @return as {@code ibv_query_device} says, which may be more than memory allows
     */
    public int maxProtectionDomains() {
        return device.maxDomains();
    }

    /**
     * How many memory windows the device has for all programs together.
     *
     * @return as {@code ibv_query_device} says; 0 without any that work here
     */
    public int maxMemoryWindows() {
        return found.windows() ? device.maxWindows() : 0;
    }

    /**
     * How many shared receive queues the device has for all programs together.
     *
     * @return as {@code ibv_query_device} says; 0 without any
     */
    public int maxSharedReceiveQueues() {
        return found.maxSharedReceives() == 0 ? 0 : device.maxSharedReceiveQueues();
    }

    // ---- connections

    /**
     * How many bytes of private data a request for a connection carries (MaxCallerData), see {@link
     * ConnectionOptions#withPrivateData}. {@link #announcementBytes} more {@linkplain
     * ConnectionOptions#withoutAnnouncement without an announcement}.
     *
     * @return 44
     */
    public int maxCallerDataBytes() {
        return PrivateData.REQUEST_BYTES - Announcement.BYTES;
    }

    /**
     * How many bytes of private data an accept carries (MaxCalleeData), see {@link
     * ConnectionOptions#withPrivateData}. {@link #announcementBytes} more {@linkplain
     * ConnectionOptions#withoutAnnouncement without an announcement}.
     *
     * @return 184
     */
    public int maxCalleeDataBytes() {
        return PrivateData.REPLY_BYTES - Announcement.BYTES;
    }

    /**
     * How many bytes of private data a refusal carries, see {@link Connector#reject}. NDK has one
     * number for it and for accepts, MaxCalleeData; here an accept carries more. {@link
     * #announcementBytes} more when the peer announced nothing.
     *
     * @return 136
     */
    public int maxRejectDataBytes() {
        return PrivateData.REJECT_BYTES - Announcement.BYTES;
    }

    /**
     * How many bytes of the transport's private data the announcement takes, by which two sides
     * with this library tell each other what they can do.
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
     * @return as tried
     */
    public boolean completionQueueResize() {
        return found.resizes();
    }

    /**
     * Whether {@link QueuePair#sendAndInvalidate} works, towards a peer that can take it.
     *
     * @return false for a device without the memory management extensions
     */
    public boolean sendsWithInvalidate() {
        return device.sendsWithInvalidate();
    }

    /**
     * Whether {@link ProtectionDomain#createMemoryWindow} works, and with it a peer's send with
     * invalidate.
     *
     * @return as tried
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
     * Beyond NDK: against whom atomics are atomic.
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
     * #RDMA_READ_SINK_NOT_REQUIRED} but for iWARP, and {@link #CQ_RESIZE} where it works. Never
     * {@link #IN_ORDER_DMA}, which verbs does not say, {@link #CQ_INTERRUPT_MODERATION}, {@link
     * #MULTI_ENGINE} and {@link #RDMA_READ_LOCAL_INVALIDATE}.
     *
     * @return the flags, joined
     */
    public int flags() {
        return (readSinkRequired() ? 0 : RDMA_READ_SINK_NOT_REQUIRED)
                | LOOPBACK_CONNECTIONS
                | (completionQueueResize() ? CQ_RESIZE : 0);
    }

    /**
     * How many pages a fast registration takes (FRMRPageCount).
     *
     * @return 0: programs cannot register by a request under verbs
     */
    public int fastRegistrationPages() {
        return 0;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof AdapterInfo that
                && name.equals(that.name)
                && device.equals(that.device)
                && providerName.equals(that.providerName)
                && maxWindowBytes == that.maxWindowBytes
                && technology == that.technology
                && maxTransferBytes == that.maxTransferBytes
                && found.equals(that.found);
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, device, found);
    }

    /** What it is, and the limits that programs meet first; one line. */
    @Override
    public String toString() {
        return "AdapterInfo(%s: %s, provider %s, vendor 0x%x, part 0x%x, hardware 0x%x, firmware %s, GUID %s, %d port%s; queues up to %d deep with %d buffers and %d inline bytes, completion queues up to %d; windows %s, sends with invalidate %s, atomics %s)"
                .formatted(
                        name,
                        technology,
                        providerName,
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
