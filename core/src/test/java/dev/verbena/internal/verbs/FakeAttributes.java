package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_device_attr;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** What queries of a {@link FakeDevice} answer. */
final class FakeAttributes {
    private FakeAttributes() {}

    static DeviceAttributes device(FakeSettings of) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment a = ibv_device_attr.allocate(call);
            ibv_device_attr.fw_ver(a).setString(0, "1.0");
            ibv_device_attr.node_guid(a, Long.reverseBytes(FakeSettings.NODE_GUID));
            ibv_device_attr.phys_port_cnt(a, (byte) of.ports);
            ibv_device_attr.vendor_id(a, of.vendorId);
            ibv_device_attr.vendor_part_id(a, of.vendorPartId);
            ibv_device_attr.hw_ver(a, 3);
            ibv_device_attr.max_qp(a, 100);
            ibv_device_attr.max_cq(a, 101);
            ibv_device_attr.max_mr(a, 102);
            ibv_device_attr.max_pd(a, 103);
            ibv_device_attr.max_mw(a, of.windows ? 104 : 0);
            ibv_device_attr.max_srq(a, of.sharedQueues ? 105 : 0);
            ibv_device_attr.max_qp_wr(a, of.maxDepth);
            ibv_device_attr.max_sge(a, of.maxSge);
            ibv_device_attr.max_sge_rd(a, of.maxSge / 2);
            ibv_device_attr.max_cqe(a, 4 * of.maxDepth);
            ibv_device_attr.max_srq_wr(a, of.sharedQueues ? of.maxDepth : 0);
            ibv_device_attr.max_srq_sge(a, of.maxSge / 2);
            ibv_device_attr.max_mr_size(a, -1); // as rxe says that there is no limit
            ibv_device_attr.max_qp_rd_atom(a, 8);
            ibv_device_attr.max_qp_init_rd_atom(a, 4);
            ibv_device_attr.device_cap_flags(
                    a,
                    (of.invalidates ? Verbs.IBV_DEVICE_MEM_MGT_EXTENSIONS : 0)
                            | (of.windows ? Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2B : 0));
            ibv_device_attr.atomic_cap(
                    a,
                    !of.atomics
                            ? Verbs.IBV_ATOMIC_NONE
                            : of.globalAtomics ? Verbs.IBV_ATOMIC_GLOB : Verbs.IBV_ATOMIC_HCA);
            return new DeviceAttributes(
                    of.gone ? -Errno.EIO : 0,
                    a.address(),
                    of.iwarp ? Verbs.IBV_TRANSPORT_IWARP : of.transport);
        }
    }

    static PortAttributes port(FakeSettings of) {
        return new PortAttributes(
                -of.portError,
                of.portUp ? 4 : 1,
                5,
                3,
                of.gids.size(),
                1 << 23,
                0,
                of.ethernet ? 2 : 1,
                of.speed,
                of.width);
    }
}
