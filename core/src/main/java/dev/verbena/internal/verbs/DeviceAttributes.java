package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_device_attr;

import java.lang.foreign.MemorySegment;

/**
 * What {@code ibv_query_device} says: a copy of its {@code ibv_device_attr}, read where it is asked
 * for. Numbers whose top bit is set, as for "no limit", are capped.
 */
public final class DeviceAttributes {
    private final int error;
    private final MemorySegment attributes; // on the heap
    private final int transport;

    /**
     * Copies what the device said.
     *
     * @param error 0, or a negative errno and nothing else is valid
     * @param attributes an {@code ibv_device_attr}
     * @param transport {@code ibv_device.transport_type}
     */
    DeviceAttributes(int error, MemorySegment attributes, int transport) {
        this.error = error;
        long words = ibv_device_attr.sizeof() / Long.BYTES;
        this.attributes = MemorySegment.ofArray(new long[Math.toIntExact(words)]);
        this.attributes.copyFrom(attributes);
        this.transport = transport;
    }

    /**
     * Whether the device answered.
     *
     * @return 0, or a negative errno and nothing else is valid
     */
    public int error() {
        return error;
    }

    /**
     * The firmware's version.
     *
     * @return as the vendor writes it; may be empty
     */
    public String firmware() {
        return ibv_device_attr.fw_ver(attributes).getString(0);
    }

    /**
     * The node GUID.
     *
     * @return its first byte on top
     */
    public long nodeGuid() {
        return Long.reverseBytes(ibv_device_attr.node_guid(attributes));
    }

    /**
     * How many ports the device has.
     *
     * @return 1 or more
     */
    public int ports() {
        return Byte.toUnsignedInt(ibv_device_attr.phys_port_cnt(attributes));
    }

    /**
     * Who made it.
     *
     * @return an OUI, most often
     */
    public int vendorId() {
        return ibv_device_attr.vendor_id(attributes);
    }

    /**
     * Which model it is.
     *
     * @return the vendor's number
     */
    public int vendorPartId() {
        return ibv_device_attr.vendor_part_id(attributes);
    }

    /**
     * Which version of the model it is.
     *
     * @return the vendor's number
     */
    public int hardwareVersion() {
        return ibv_device_attr.hw_ver(attributes);
    }

    /**
     * How many queue pairs there can be.
     *
     * @return of the whole device
     */
    public int maxQueuePairs() {
        return ibv_device_attr.max_qp(attributes);
    }

    /**
     * How many completion queues there can be.
     *
     * @return of the whole device
     */
    public int maxCompletionQueues() {
        return ibv_device_attr.max_cq(attributes);
    }

    /**
     * How many memory regions there can be.
     *
     * @return of the whole device
     */
    public int maxRegions() {
        return ibv_device_attr.max_mr(attributes);
    }

    /**
     * How many protection domains there can be.
     *
     * @return of the whole device
     */
    public int maxDomains() {
        return ibv_device_attr.max_pd(attributes);
    }

    /**
     * How many memory windows there can be.
     *
     * @return of the whole device, of any type
     */
    public int maxWindows() {
        return ibv_device_attr.max_mw(attributes);
    }

    /**
     * How many shared receive queues there can be.
     *
     * @return of the whole device; 0 when it has none
     */
    public int maxSharedReceiveQueues() {
        return ibv_device_attr.max_srq(attributes);
    }

    /**
     * The deepest queue.
     *
     * @return for this limit alone
     */
    public int maxWorkRequests() {
        return ibv_device_attr.max_qp_wr(attributes);
    }

    /**
     * The longest scatter-gather list.
     *
     * @return for this limit alone
     */
    public int maxSge() {
        return ibv_device_attr.max_sge(attributes);
    }

    /**
     * The longest scatter-gather list of a read.
     *
     * @return 0 when it does not say
     */
    public int maxReadSge() {
        return ibv_device_attr.max_sge_rd(attributes);
    }

    /**
     * The deepest completion queue.
     *
     * @return for this limit alone
     */
    public int maxCompletions() {
        return ibv_device_attr.max_cqe(attributes);
    }

    /**
     * The deepest shared receive queue.
     *
     * @return 0 when it has none
     */
    public int maxSharedReceives() {
        return ibv_device_attr.max_srq_wr(attributes);
    }

    /**
     * The longest scatter-gather list in a shared receive queue.
     *
     * @return 0 when it has none
     */
    public int maxSharedSge() {
        return ibv_device_attr.max_srq_sge(attributes);
    }

    /**
     * The largest memory region.
     *
     * @return in bytes
     */
    public long maxRegistration() {
        long bytes = ibv_device_attr.max_mr_size(attributes);
        return bytes < 0 ? Long.MAX_VALUE : bytes; // rxe's "no limit" has the top bit
    }

    /**
     * How many reads of its peer a queue pair can serve at once.
     *
     * @return 0 or more
     */
    public int maxInboundReads() {
        return ibv_device_attr.max_qp_rd_atom(attributes);
    }

    /**
     * How many reads of a queue pair can be outstanding.
     *
     * @return 0 or more
     */
    public int maxOutboundReads() {
        return ibv_device_attr.max_qp_init_rd_atom(attributes);
    }

    /**
     * Whether it has the memory management extensions, and so sends with invalidate.
     *
     * @return by its capability flags
     */
    public boolean sendsWithInvalidate() {
        return has(Verbs.IBV_DEVICE_MEM_MGT_EXTENSIONS);
    }

    /**
     * Whether it has memory windows of type 2.
     *
     * @return by its capability flags
     */
    public boolean windows() {
        return maxWindows() > 0
                && has(Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2A | Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    }

    private boolean has(int oneOf) {
        return (ibv_device_attr.device_cap_flags(attributes) & oneOf) != 0;
    }

    /**
     * Whether it has atomic operations.
     *
     * @return true for any level of atomicity
     */
    public boolean atomics() {
        return ibv_device_attr.atomic_cap(attributes) != Verbs.IBV_ATOMIC_NONE;
    }

    /**
     * Whether its atomic operations are atomic against the processor and other devices, too.
     *
     * @return false where they are among its own only, and without any
     */
    public boolean globalAtomics() {
        return ibv_device_attr.atomic_cap(attributes) == Verbs.IBV_ATOMIC_GLOB;
    }

    /**
     * Whether its transport is iWARP.
     *
     * @return by {@code ibv_device.transport_type}
     */
    public boolean iwarp() {
        return transport == Verbs.IBV_TRANSPORT_IWARP;
    }

    /**
     * Whether its transport is InfiniBand's, which RoCE has too.
     *
     * @return by {@code ibv_device.transport_type}
     */
    public boolean infiniband() {
        return transport == Verbs.IBV_TRANSPORT_IB;
    }

    /** Whether the same was said, to the byte. */
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
