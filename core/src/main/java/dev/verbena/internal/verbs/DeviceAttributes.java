package dev.verbena.internal.verbs;

import dev.verbena.AdapterInfo;
import dev.verbena.Gid;
import dev.verbena.OnDemandPaging;
import dev.verbena.Port;
import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvDeviceAttr;
import dev.verbena.internal.verbs.Structs.IbvDeviceAttrEx;
import dev.verbena.internal.verbs.Structs.IbvGidEntry;
import dev.verbena.internal.verbs.Structs.IbvPortAttr;

import java.time.Duration;
import java.util.List;

/** Reads what the queries of an opened device return: its limits and abilities, ports and GIDs. */
final class DeviceAttributes {
    // struct ibv_port_attr has grown since the version that the bindings are made from, and the
    // library clears what it does not know: active_speed_ex is 0 before it came.
    static final long PORT_BYTES = 128;
    private static final long ACTIVE_SPEED_EX = 52;

    private static final int MOST_READS = 0xFF; // the field of ibv_qp_attr has 8 bits

    private DeviceAttributes() {}

    /** Reads an {@code ibv_device_attr_ex}. */
    static AdapterInfo info(String name, int transport, long a) {
        int vendor = Native.getInt(a, IbvDeviceAttr.VENDOR_ID);
        int part = Native.getInt(a, IbvDeviceAttr.VENDOR_PART_ID);
        Provider provider = Provider.of(vendor, part);
        long region = Native.getLong(a, IbvDeviceAttr.MAX_MR_SIZE);
        region = region < 0 ? Long.MAX_VALUE : region; // rxe's "no limit" has the top bit set
        int abilities = Native.getInt(a, IbvDeviceAttr.DEVICE_CAP_FLAGS);
        int maxWindows = Native.getInt(a, IbvDeviceAttr.MAX_MW);
        int typeTwo = Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2A | Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2B;
        return new AdapterInfo(
                name,
                vendor,
                part,
                Native.getInt(a, IbvDeviceAttr.HW_VER),
                Native.getString(a, IbvDeviceAttr.FW_VER),
                Native.getBigEndian(a, IbvDeviceAttr.NODE_GUID),
                switch (transport) {
                    case Verbs.IBV_TRANSPORT_IWARP -> AdapterInfo.Technology.IWARP;
                    case Verbs.IBV_TRANSPORT_IB -> AdapterInfo.Technology.INFINIBAND;
                    default -> AdapterInfo.Technology.OTHER;
                },
                provider.name(),
                Native.getByte(a, IbvDeviceAttr.PHYS_PORT_CNT),
                region,
                Math.min(region, provider.maxWindowBytes()),
                Native.getInt(a, IbvDeviceAttr.MAX_SGE),
                Native.getInt(a, IbvDeviceAttr.MAX_SGE_RD),
                0,
                0,
                Math.min(MOST_READS, Native.getInt(a, IbvDeviceAttr.MAX_QP_RD_ATOM)),
                Math.min(MOST_READS, Native.getInt(a, IbvDeviceAttr.MAX_QP_INIT_RD_ATOM)),
                Native.getInt(a, IbvDeviceAttr.MAX_QP_WR),
                Native.getInt(a, IbvDeviceAttr.MAX_SRQ_WR),
                Native.getInt(a, IbvDeviceAttr.MAX_SRQ_SGE),
                Native.getInt(a, IbvDeviceAttr.MAX_CQE),
                Native.getInt(a, IbvDeviceAttr.MAX_QP),
                Native.getInt(a, IbvDeviceAttr.MAX_CQ),
                Native.getInt(a, IbvDeviceAttr.MAX_MR),
                Native.getInt(a, IbvDeviceAttr.MAX_PD),
                maxWindows,
                Native.getInt(a, IbvDeviceAttr.MAX_SRQ),
                false,
                (abilities & Verbs.IBV_DEVICE_SRQ_RESIZE) != 0,
                (abilities & Verbs.IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0,
                maxWindows > 0 && (abilities & typeTwo) != 0,
                switch (Native.getInt(a, IbvDeviceAttr.ATOMIC_CAP)) {
                    case Verbs.IBV_ATOMIC_NONE -> AdapterInfo.AtomicsLevel.NONE;
                    case Verbs.IBV_ATOMIC_GLOB -> AdapterInfo.AtomicsLevel.GLOBAL;
                    default -> AdapterInfo.AtomicsLevel.DEVICE;
                },
                paging(
                        Native.getLong(a, IbvDeviceAttrEx.ODP_CAPS_GENERAL_CAPS),
                        Native.getInt(a, IbvDeviceAttrEx.ODP_CAPS_PER_TRANSPORT_CAPS_RC_ODP_CAPS)),
                Native.getShort(a, IbvDeviceAttrEx.CQ_MOD_CAPS_MAX_CQ_COUNT),
                Duration.ofNanos(
                        1000L * Native.getShort(a, IbvDeviceAttrEx.CQ_MOD_CAPS_MAX_CQ_PERIOD)));
    }

    /** Decodes {@code enum ibv_odp_general_caps} and {@code ibv_odp_transport_cap_bits}. */
    private static OnDemandPaging paging(long general, int connected) {
        boolean supported = (general & 1) != 0;
        int operations = supported ? connected : 0;
        return new OnDemandPaging(
                supported,
                (general & 2) != 0,
                (operations & 1) != 0,
                (operations & 2) != 0,
                (operations & 32) != 0,
                (operations & 4) != 0,
                (operations & 8) != 0,
                (operations & 16) != 0);
    }

    /** Reads an {@code ibv_port_attr}; returns the length of the port's GID table. */
    static long port(int number, long a, List<Port> ports) {
        int extendedSpeed = Native.getInt(a, ACTIVE_SPEED_EX);
        boolean ethernet =
                Native.getByte(a, IbvPortAttr.LINK_LAYER) == Verbs.IBV_LINK_LAYER_ETHERNET;
        ports.add(
                new Port(
                        number,
                        Native.getInt(a, IbvPortAttr.STATE) == Verbs.IBV_PORT_ACTIVE,
                        ethernet ? Port.LinkLayer.ETHERNET : Port.LinkLayer.INFINIBAND,
                        VerbsContext.mtuBytes(Native.getInt(a, IbvPortAttr.MAX_MTU)),
                        VerbsContext.mtuBytes(Native.getInt(a, IbvPortAttr.ACTIVE_MTU)),
                        Integer.toUnsignedLong(Native.getInt(a, IbvPortAttr.MAX_MSG_SZ)),
                        Native.getShort(a, IbvPortAttr.LID),
                        speed(
                                extendedSpeed != 0
                                        ? extendedSpeed
                                        : Native.getByte(a, IbvPortAttr.ACTIVE_SPEED)),
                        lanes(Native.getByte(a, IbvPortAttr.ACTIVE_WIDTH)),
                        List.of()));
        return Native.getInt(a, IbvPortAttr.GID_TBL_LEN);
    }

    /** Decodes IB_SPEED_… of the kernel, for which verbs.h has no names. */
    private static Port.Speed speed(int code) {
        return switch (code) {
            case 1 -> Port.Speed.SDR;
            case 2 -> Port.Speed.DDR;
            case 4 -> Port.Speed.QDR;
            case 8 -> Port.Speed.FDR10;
            case 16 -> Port.Speed.FDR;
            case 32 -> Port.Speed.EDR;
            case 64 -> Port.Speed.HDR;
            case 128 -> Port.Speed.NDR;
            case 256 -> Port.Speed.XDR;
            default -> Port.Speed.UNKNOWN;
        };
    }

    /** Decodes IB_WIDTH_… of the kernel, for which verbs.h has no names. */
    private static int lanes(int code) {
        return switch (code) {
            case 1 -> 1;
            case 2 -> 4;
            case 4 -> 8;
            case 8 -> 12;
            case 16 -> 2;
            default -> 0;
        };
    }

    /** Reads an {@code ibv_gid_entry}. */
    static Port.GidEntry gid(long entry) {
        return new Port.GidEntry(
                Native.getInt(entry, IbvGidEntry.PORT_NUM),
                Native.getInt(entry, IbvGidEntry.GID_INDEX),
                new Gid(
                        Native.getBigEndian(entry, IbvGidEntry.GID),
                        Native.getBigEndian(entry, IbvGidEntry.GID + Long.BYTES)),
                switch (Native.getInt(entry, IbvGidEntry.GID_TYPE)) {
                    case Verbs.IBV_GID_TYPE_ROCE_V2 -> Port.GidType.ROCE_V2;
                    case Verbs.IBV_GID_TYPE_ROCE_V1 -> Port.GidType.ROCE_V1;
                    default -> Port.GidType.INFINIBAND;
                },
                Native.getInt(entry, IbvGidEntry.NDEV_IFINDEX));
    }
}
