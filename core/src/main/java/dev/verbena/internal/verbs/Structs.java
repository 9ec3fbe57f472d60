package dev.verbena.internal.verbs;

/**
 * The offsets of the fields that this package reads and writes, and the sizes of the structs that
 * it makes, named as in C: {@code cap.max_send_wr} of {@code struct ibv_qp_init_attr} is {@code
 * IbvQpInitAttr.CAP_MAX_SEND_WR}. Unnamed unions have no part in a name.
 *
 * <p>The generated classes have them, too, but compute them from layouts when they are initialized,
 * which took 40 ms of a JVM's start. {@code StructsTest} compares each constant with them.
 */
final class Structs {
    /** The size of {@code pthread_mutex_t}, which the C library decides. */
    private static final long MUTEX = "aarch64".equals(System.getProperty("os.arch")) ? 48 : 40;

    private Structs() {}

    /** {@code struct ibv_device}. */
    static final class IbvDevice {
        static final long TRANSPORT_TYPE = 20;
        static final long NAME = 24;

        private IbvDevice() {}
    }

    /** {@code struct ibv_context}. */
    static final class IbvContext {
        static final long DEVICE = 0;
        static final long OPS_REQ_NOTIFY_CQ = 104;
        static final long OPS_ALLOC_MW = 64;
        static final long OPS_DEALLOC_MW = 80;
        static final long OPS_POLL_CQ = 96;
        static final long OPS_POST_SRQ_RECV = 168;
        static final long OPS_POST_SEND = 208;
        static final long OPS_POST_RECV = 216;
        static final long ASYNC_FD = 268;
        static final long NUM_COMP_VECTORS = 272;
        static final long ABI_COMPAT = 280 + MUTEX;

        private IbvContext() {}
    }

    /** {@code struct verbs_context}. */
    static final class VerbsContext {
        static final long SIZE = 608 + MUTEX;
        static final long QUERY_PORT = 0;
        static final long ADVISE_MR = 8;
        static final long MODIFY_CQ = 136;
        static final long QUERY_DEVICE_EX = 216;
        static final long SZ = 312;
        static final long CONTEXT = 320;

        private VerbsContext() {}
    }

    /** {@code struct ibv_device_attr}. */
    static final class IbvDeviceAttr {
        static final long SIZE = 232;
        static final long FW_VER = 0;
        static final long NODE_GUID = 64;
        static final long MAX_MR_SIZE = 80;
        static final long VENDOR_ID = 96;
        static final long VENDOR_PART_ID = 100;
        static final long HW_VER = 104;
        static final long MAX_QP = 108;
        static final long MAX_QP_WR = 112;
        static final long DEVICE_CAP_FLAGS = 116;
        static final long MAX_SGE = 120;
        static final long MAX_SGE_RD = 124;
        static final long MAX_CQ = 128;
        static final long MAX_CQE = 132;
        static final long MAX_MR = 136;
        static final long MAX_PD = 140;
        static final long MAX_QP_RD_ATOM = 144;
        static final long MAX_QP_INIT_RD_ATOM = 156;
        static final long ATOMIC_CAP = 164;
        static final long MAX_MW = 176;
        static final long MAX_SRQ = 212;
        static final long MAX_SRQ_WR = 216;
        static final long MAX_SRQ_SGE = 220;
        static final long PHYS_PORT_CNT = 227;

        private IbvDeviceAttr() {}
    }

    /** {@code struct ibv_device_attr_ex}. */
    static final class IbvDeviceAttrEx {
        static final long SIZE = 400;
        static final long ODP_CAPS_GENERAL_CAPS = 240;
        static final long ODP_CAPS_PER_TRANSPORT_CAPS_RC_ODP_CAPS = 248;
        static final long CQ_MOD_CAPS_MAX_CQ_COUNT = 368;
        static final long CQ_MOD_CAPS_MAX_CQ_PERIOD = 370;

        private IbvDeviceAttrEx() {}
    }

    /** {@code struct ibv_port_attr}. */
    static final class IbvPortAttr {
        static final long STATE = 0;
        static final long MAX_MTU = 4;
        static final long ACTIVE_MTU = 8;
        static final long GID_TBL_LEN = 12;
        static final long MAX_MSG_SZ = 20;
        static final long LID = 34;
        static final long ACTIVE_WIDTH = 43;
        static final long ACTIVE_SPEED = 44;
        static final long LINK_LAYER = 46;

        private IbvPortAttr() {}
    }

    /** {@code struct ibv_gid_entry}. */
    static final class IbvGidEntry {
        static final long SIZE = 32;
        static final long GID = 0;
        static final long GID_INDEX = 16;
        static final long PORT_NUM = 20;
        static final long GID_TYPE = 24;
        static final long NDEV_IFINDEX = 28;

        private IbvGidEntry() {}
    }

    /** {@code struct ibv_mr}. */
    static final class IbvMr {
        static final long LKEY = 36;
        static final long RKEY = 40;

        private IbvMr() {}
    }

    /** {@code struct ibv_mw}. */
    static final class IbvMw {
        static final long RKEY = 16;

        private IbvMw() {}
    }

    /** {@code struct ibv_comp_channel}. */
    static final class IbvCompChannel {
        static final long FD = 8;

        private IbvCompChannel() {}
    }

    /** {@code struct ibv_modify_cq_attr}. */
    static final class IbvModifyCqAttr {
        static final long SIZE = 8;
        static final long ATTR_MASK = 0;
        static final long MODERATE_CQ_COUNT = 4;
        static final long MODERATE_CQ_PERIOD = 6;

        private IbvModifyCqAttr() {}
    }

    /** {@code struct ibv_srq_attr}. */
    static final class IbvSrqAttr {
        static final long SIZE = 12;
        static final long SRQ_LIMIT = 8;

        private IbvSrqAttr() {}
    }

    /** {@code struct ibv_srq_init_attr}. */
    static final class IbvSrqInitAttr {
        static final long SIZE = 24;
        static final long ATTR_MAX_WR = 8;
        static final long ATTR_MAX_SGE = 12;

        private IbvSrqInitAttr() {}
    }

    /** {@code struct ibv_qp}. */
    static final class IbvQp {
        static final long QP_NUM = 52;

        private IbvQp() {}
    }

    /** {@code struct ibv_qp_init_attr}. */
    static final class IbvQpInitAttr {
        static final long SIZE = 64;
        static final long SEND_CQ = 8;
        static final long RECV_CQ = 16;
        static final long SRQ = 24;
        static final long CAP_MAX_SEND_WR = 32;
        static final long CAP_MAX_RECV_WR = 36;
        static final long CAP_MAX_SEND_SGE = 40;
        static final long CAP_MAX_RECV_SGE = 44;
        static final long CAP_MAX_INLINE_DATA = 48;
        static final long QP_TYPE = 52;
        static final long SQ_SIG_ALL = 56;

        private IbvQpInitAttr() {}
    }

    /** {@code struct ibv_qp_attr}. */
    static final class IbvQpAttr {
        static final long SIZE = 144;
        static final long QP_STATE = 0;
        static final long PATH_MTU = 8;
        static final long RQ_PSN = 20;
        static final long SQ_PSN = 24;
        static final long DEST_QP_NUM = 28;
        static final long QP_ACCESS_FLAGS = 32;
        static final long AH_ATTR_GRH_DGID = 56;
        static final long AH_ATTR_GRH_FLOW_LABEL = 72;
        static final long AH_ATTR_GRH_SGID_INDEX = 76;
        static final long AH_ATTR_GRH_HOP_LIMIT = 77;
        static final long AH_ATTR_GRH_TRAFFIC_CLASS = 78;
        static final long AH_ATTR_DLID = 80;
        static final long AH_ATTR_SL = 82;
        static final long AH_ATTR_IS_GLOBAL = 85;
        static final long AH_ATTR_PORT_NUM = 86;
        static final long PKEY_INDEX = 120;
        static final long MAX_RD_ATOMIC = 126;
        static final long MAX_DEST_RD_ATOMIC = 127;
        static final long MIN_RNR_TIMER = 128;
        static final long PORT_NUM = 129;
        static final long TIMEOUT = 130;
        static final long RETRY_CNT = 131;
        static final long RNR_RETRY = 132;

        private IbvQpAttr() {}
    }

    /** {@code struct ibv_async_event}. */
    static final class IbvAsyncEvent {
        static final long SIZE = 16;
        static final long ELEMENT_QP = 0;
        static final long ELEMENT_PORT_NUM = 0;
        static final long EVENT_TYPE = 8;

        private IbvAsyncEvent() {}
    }

    /** {@code struct ibv_sge}. */
    static final class IbvSge {
        static final long SIZE = 16;
        static final long ADDR = 0;
        static final long LENGTH = 8;
        static final long LKEY = 12;

        private IbvSge() {}
    }

    /** {@code struct ibv_send_wr}. */
    static final class IbvSendWr {
        static final long SIZE = 128;
        static final long WR_ID = 0;
        static final long NEXT = 8;
        static final long SG_LIST = 16;
        static final long NUM_SGE = 24;
        static final long OPCODE = 28;
        static final long SEND_FLAGS = 32;
        static final long IMM_DATA = 36;
        static final long INVALIDATE_RKEY = 36;
        static final long WR_RDMA_REMOTE_ADDR = 40;
        static final long WR_RDMA_RKEY = 48;
        static final long WR_ATOMIC_REMOTE_ADDR = 40;
        static final long WR_ATOMIC_COMPARE_ADD = 48;
        static final long WR_ATOMIC_SWAP = 56;
        static final long WR_ATOMIC_RKEY = 64;
        static final long BIND_MW_MW = 80;
        static final long BIND_MW_RKEY = 88;
        static final long BIND_MW_BIND_INFO_MR = 96;
        static final long BIND_MW_BIND_INFO_ADDR = 104;
        static final long BIND_MW_BIND_INFO_LENGTH = 112;
        static final long BIND_MW_BIND_INFO_MW_ACCESS_FLAGS = 120;

        private IbvSendWr() {}
    }

    /** {@code struct ibv_recv_wr}. */
    static final class IbvRecvWr {
        static final long SIZE = 32;
        static final long WR_ID = 0;
        static final long SG_LIST = 16;
        static final long NUM_SGE = 24;

        private IbvRecvWr() {}
    }

    /** {@code struct ibv_wc}. */
    static final class IbvWc {
        static final long SIZE = 48;
        static final long WR_ID = 0;
        static final long STATUS = 8;
        static final long OPCODE = 12;
        static final long VENDOR_ERR = 16;
        static final long BYTE_LEN = 20;
        static final long IMM_DATA = 24;
        static final long INVALIDATED_RKEY = 24;
        static final long QP_NUM = 28;
        static final long WC_FLAGS = 36;

        private IbvWc() {}
    }

    /** {@code struct rdma_event_channel}. */
    static final class RdmaEventChannel {
        static final long FD = 0;

        private RdmaEventChannel() {}
    }

    /** {@code struct rdma_cm_id}. */
    static final class RdmaCmId {
        static final long VERBS = 0;
        static final long CONTEXT = 16;
        static final long ROUTE_ADDR_SRC_ADDR = 32;
        static final long ROUTE_ADDR_DST_ADDR = 160;
        static final long PORT_NUM = 348;

        private RdmaCmId() {}
    }

    /** {@code struct rdma_cm_event}. */
    static final class RdmaCmEvent {
        static final long ID = 0;
        static final long EVENT = 16;
        static final long STATUS = 20;
        static final long PARAM_CONN_PRIVATE_DATA = 24;
        static final long PARAM_CONN_PRIVATE_DATA_LEN = 32;
        static final long PARAM_CONN_RESPONDER_RESOURCES = 33;
        static final long PARAM_CONN_INITIATOR_DEPTH = 34;

        private RdmaCmEvent() {}
    }

    /** {@code struct rdma_conn_param}. */
    static final class RdmaConnParam {
        static final long SIZE = 24;
        static final long PRIVATE_DATA = 0;
        static final long PRIVATE_DATA_LEN = 8;
        static final long RESPONDER_RESOURCES = 9;
        static final long INITIATOR_DEPTH = 10;
        static final long FLOW_CONTROL = 11;
        static final long RETRY_COUNT = 12;
        static final long RNR_RETRY_COUNT = 13;
        static final long SRQ = 14;
        static final long QP_NUM = 16;

        private RdmaConnParam() {}
    }

    /** {@code struct sockaddr_in}. */
    static final class SockaddrIn {
        static final long SIZE = 16;
        static final long SIN_FAMILY = 0;
        static final long SIN_PORT = 2;
        static final long SIN_ADDR = 4;

        private SockaddrIn() {}
    }

    /** {@code struct sockaddr_in6}. */
    static final class SockaddrIn6 {
        static final long SIZE = 28;
        static final long SIN6_FAMILY = 0;
        static final long SIN6_PORT = 2;
        static final long SIN6_ADDR = 8;
        static final long SIN6_SCOPE_ID = 24;

        private SockaddrIn6() {}
    }
}
