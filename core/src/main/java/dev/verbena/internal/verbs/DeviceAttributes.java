package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.bindings.Verbs;

import java.lang.foreign.MemorySegment;

/**
 * The result of {@code ibv_query_device}: a copy of its {@code ibv_device_attr}, with an accessor
 * for each field that is used. A maximum region size whose top bit is set (rxe's "no limit") is
 * returned as {@link Long#MAX_VALUE}.
 */
public final class DeviceAttributes {
    private final int error;
    private final MemorySegment attributes; // on the heap
    private final int transport;

    /**
     * Copies the attributes.
     *
     * @param error 0, or a negative errno; then nothing else is valid
     */
    DeviceAttributes(int error, long attributes, int transport) {
        this.error = error;
        this.attributes = MemorySegment.ofArray(new byte[(int) Structs.IbvDeviceAttr.SIZE]);
        this.attributes.copyFrom(Native.at(attributes, Structs.IbvDeviceAttr.SIZE));
        this.transport = transport;
    }

    private int getInt(long offset) {
        return attributes.get(JAVA_INT_UNALIGNED, offset);
    }

    private long getLong(long offset) {
        return attributes.get(JAVA_LONG_UNALIGNED, offset);
    }

    /**
     * Whether {@code ibv_query_device} succeeded.
     *
     * @return 0, or a negative errno; then nothing else is valid
     */
    public int error() {
        return error;
    }

    /**
     * The firmware's version.
     *
     * @return in the vendor's format; may be empty
     */
    public String firmware() {
        return attributes.getString(Structs.IbvDeviceAttr.FW_VER);
    }

    /**
     * The node GUID.
     *
     * @return the GUID as a big-endian number
     */
    public long nodeGuid() {
        return Long.reverseBytes(getLong(Structs.IbvDeviceAttr.NODE_GUID));
    }

    /** How many ports the device has. */
    public int ports() {
        return Byte.toUnsignedInt(attributes.get(JAVA_BYTE, Structs.IbvDeviceAttr.PHYS_PORT_CNT));
    }

    /** The vendor ({@code vendor_id}). */
    public int vendorId() {
        return getInt(Structs.IbvDeviceAttr.VENDOR_ID);
    }

    /** The model ({@code vendor_part_id}). */
    public int vendorPartId() {
        return getInt(Structs.IbvDeviceAttr.VENDOR_PART_ID);
    }

    /** The revision of the model ({@code hw_ver}). */
    public int hardwareVersion() {
        return getInt(Structs.IbvDeviceAttr.HW_VER);
    }

    /** How many queue pairs there can be. */
    public int maxQueuePairs() {
        return getInt(Structs.IbvDeviceAttr.MAX_QP);
    }

    /** How many completion queues there can be. */
    public int maxCompletionQueues() {
        return getInt(Structs.IbvDeviceAttr.MAX_CQ);
    }

    /** How many memory regions there can be. */
    public int maxRegions() {
        return getInt(Structs.IbvDeviceAttr.MAX_MR);
    }

    /** How many protection domains there can be. */
    public int maxDomains() {
        return getInt(Structs.IbvDeviceAttr.MAX_PD);
    }

    /**
     * How many memory windows there can be.
     *
     * @return the limit of the device for all processes, for windows of all types
     */
    public int maxWindows() {
        return getInt(Structs.IbvDeviceAttr.MAX_MW);
    }

    /**
     * How many shared receive queues there can be.
     *
     * @return the limit of the device for all processes; 0 if it has none
     */
    public int maxSharedReceiveQueues() {
        return getInt(Structs.IbvDeviceAttr.MAX_SRQ);
    }

    /**
     * The most work requests in a send or receive queue.
     *
     * @return a limit that may not be available together with the others
     */
    public int maxWorkRequests() {
        return getInt(Structs.IbvDeviceAttr.MAX_QP_WR);
    }

    /**
     * The longest scatter-gather list.
     *
     * @return a limit that may not be available together with the others
     */
    public int maxSge() {
        return getInt(Structs.IbvDeviceAttr.MAX_SGE);
    }

    /**
     * The longest scatter-gather list of a read.
     *
     * @return the limit; 0 if the device does not report it
     */
    public int maxReadSge() {
        return getInt(Structs.IbvDeviceAttr.MAX_SGE_RD);
    }

    /**
     * The most entries of a completion queue.
     *
     * @return a limit that may not be available together with the others
     */
    public int maxCompletions() {
        return getInt(Structs.IbvDeviceAttr.MAX_CQE);
    }

    /**
     * The most receives in a shared receive queue.
     *
     * @return the limit; 0 if the device has no shared receive queues
     */
    public int maxSharedReceives() {
        return getInt(Structs.IbvDeviceAttr.MAX_SRQ_WR);
    }

    /**
     * The longest scatter-gather list in a shared receive queue.
     *
     * @return the limit; 0 if the device has no shared receive queues
     */
    public int maxSharedSge() {
        return getInt(Structs.IbvDeviceAttr.MAX_SRQ_SGE);
    }

    /** The largest memory region. */
    public long maxRegistration() {
        long bytes = getLong(Structs.IbvDeviceAttr.MAX_MR_SIZE);
        return bytes < 0 ? Long.MAX_VALUE : bytes; // rxe's "no limit" has the top bit set
    }

    /** How many reads and atomics of its peer a queue pair can serve at a time. */
    public int maxInboundReads() {
        return getInt(Structs.IbvDeviceAttr.MAX_QP_RD_ATOM);
    }

    /** How many reads and atomics a queue pair can have outstanding. */
    public int maxOutboundReads() {
        return getInt(Structs.IbvDeviceAttr.MAX_QP_INIT_RD_ATOM);
    }

    /** Whether it has the memory management extensions, which include send with invalidate. */
    public boolean sendsWithInvalidate() {
        return has(Verbs.IBV_DEVICE_MEM_MGT_EXTENSIONS);
    }

    /** Whether it has memory windows of type 2. */
    public boolean windows() {
        return maxWindows() > 0
                && has(Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2A | Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    }

    private boolean has(int oneOf) {
        return (getInt(Structs.IbvDeviceAttr.DEVICE_CAP_FLAGS) & oneOf) != 0;
    }

    /**
     * Whether it has atomic operations.
     *
     * @return true unless {@code atomic_cap} is IBV_ATOMIC_NONE
     */
    public boolean atomics() {
        return getInt(Structs.IbvDeviceAttr.ATOMIC_CAP) != Verbs.IBV_ATOMIC_NONE;
    }

    /**
     * Whether its atomic operations are also atomic with respect to the processor and other
     * devices.
     *
     * @return false if they are atomic only among themselves, and if there are none
     */
    public boolean globalAtomics() {
        return getInt(Structs.IbvDeviceAttr.ATOMIC_CAP) == Verbs.IBV_ATOMIC_GLOB;
    }

    /** Whether its transport is iWARP. */
    public boolean iwarp() {
        return transport == Verbs.IBV_TRANSPORT_IWARP;
    }

    /** Whether its transport is InfiniBand, which includes RoCE. */
    public boolean infiniband() {
        return transport == Verbs.IBV_TRANSPORT_IB;
    }

    /** Compares the attributes byte by byte. */
    @Override
    public boolean equals(Object other) {
        return other instanceof DeviceAttributes that
                && error == that.error
                && transport == that.transport
                && attributes.mismatch(that.attributes) == -1;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(nodeGuid()) * 31 + vendorPartId();
    }
}
