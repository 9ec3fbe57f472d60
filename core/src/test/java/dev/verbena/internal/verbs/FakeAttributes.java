package dev.verbena.internal.verbs;

import dev.verbena.AdapterInfo;
import dev.verbena.Port;
import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_cq_moderation_caps;
import dev.verbena.bindings.ibv_device_attr;
import dev.verbena.bindings.ibv_device_attr_ex;
import dev.verbena.bindings.ibv_odp_caps;
import dev.verbena.bindings.ibv_port_attr;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** What queries of a {@link FakeDevice} answer. */
final class FakeAttributes {
    private FakeAttributes() {}

    static AdapterInfo device(String name, FakeSettings of) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment all = ibv_device_attr_ex.allocate(call);
            MemorySegment a = ibv_device_attr_ex.orig_attr(all);
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
                            | (of.windows ? Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2B : 0)
                            | (of.sharedResizes ? Verbs.IBV_DEVICE_SRQ_RESIZE : 0));
            ibv_device_attr.atomic_cap(
                    a,
                    !of.atomics
                            ? Verbs.IBV_ATOMIC_NONE
                            : of.globalAtomics ? Verbs.IBV_ATOMIC_GLOB : Verbs.IBV_ATOMIC_HCA);
            MemorySegment paging = ibv_device_attr_ex.odp_caps(all);
            ibv_odp_caps.general_caps(paging, of.paging);
            ibv_odp_caps.per_transport_caps.rc_odp_caps(
                    ibv_odp_caps.per_transport_caps(paging), of.pagingOperations);
            MemorySegment moderation = ibv_device_attr_ex.cq_mod_caps(all);
            ibv_cq_moderation_caps.max_cq_count(moderation, (short) of.moderationCount);
            ibv_cq_moderation_caps.max_cq_period(moderation, (short) of.moderationCount);
            return DeviceAttributes.info(
                    name, of.iwarp ? Verbs.IBV_TRANSPORT_IWARP : of.transport, all.address());
        }
    }

    static long port(int number, FakeSettings of, List<Port> ports) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment a = call.allocate(128, Long.BYTES);
            ibv_port_attr.state(a, of.portUp ? 4 : 1);
            ibv_port_attr.max_mtu(a, 5);
            ibv_port_attr.active_mtu(a, 3);
            ibv_port_attr.gid_tbl_len(a, of.gids.size());
            ibv_port_attr.max_msg_sz(a, 1 << 23);
            ibv_port_attr.link_layer(a, (byte) (of.ethernet ? 2 : 1));
            a.set(ValueLayout.JAVA_INT, 52, of.speed); // active_speed_ex
            ibv_port_attr.active_width(a, (byte) of.width);
            return DeviceAttributes.port(number, a.address(), ports);
        }
    }
}
