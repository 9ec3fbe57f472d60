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

    interface IbvDevice {
        long TRANSPORT_TYPE = 20;
        long NAME = 24;
    }

    interface IbvContext {
        long DEVICE = 0;
        long OPS_REQ_NOTIFY_CQ = 104;
        long OPS_ALLOC_MW = 64;
        long OPS_DEALLOC_MW = 80;
        long OPS_POLL_CQ = 96;
        long OPS_POST_SRQ_RECV = 168;
        long OPS_POST_SEND = 208;
        long OPS_POST_RECV = 216;
        long ASYNC_FD = 268;
        long NUM_COMP_VECTORS = 272;
        long ABI_COMPAT = 280 + MUTEX;
    }

    interface VerbsContext {
        long SIZE = 608 + MUTEX;
        long QUERY_PORT = 0;
        long ADVISE_MR = 8;
        long MODIFY_CQ = 136;
        long QUERY_DEVICE_EX = 216;
        long SZ = 312;
        long CONTEXT = 320;
    }

    interface IbvDeviceAttr {
        long SIZE = 232;
        long FW_VER = 0;
        long NODE_GUID = 64;
        long MAX_MR_SIZE = 80;
        long VENDOR_ID = 96;
        long VENDOR_PART_ID = 100;
        long HW_VER = 104;
        long MAX_QP = 108;
        long MAX_QP_WR = 112;
        long DEVICE_CAP_FLAGS = 116;
        long MAX_SGE = 120;
        long MAX_SGE_RD = 124;
        long MAX_CQ = 128;
        long MAX_CQE = 132;
        long MAX_MR = 136;
        long MAX_PD = 140;
        long MAX_QP_RD_ATOM = 144;
        long MAX_QP_INIT_RD_ATOM = 156;
        long ATOMIC_CAP = 164;
        long MAX_MW = 176;
        long MAX_SRQ = 212;
        long MAX_SRQ_WR = 216;
        long MAX_SRQ_SGE = 220;
        long PHYS_PORT_CNT = 227;
    }

    interface IbvDeviceAttrEx {
        long SIZE = 400;
        long ODP_CAPS_GENERAL_CAPS = 240;
        long ODP_CAPS_PER_TRANSPORT_CAPS_RC_ODP_CAPS = 248;
        long CQ_MOD_CAPS_MAX_CQ_COUNT = 368;
        long CQ_MOD_CAPS_MAX_CQ_PERIOD = 370;
    }

    interface IbvPortAttr {
        long STATE = 0;
        long MAX_MTU = 4;
        long ACTIVE_MTU = 8;
        long GID_TBL_LEN = 12;
        long MAX_MSG_SZ = 20;
        long LID = 34;
        long ACTIVE_WIDTH = 43;
        long ACTIVE_SPEED = 44;
        long LINK_LAYER = 46;
    }

    interface IbvGidEntry {
        long SIZE = 32;
        long GID = 0;
        long GID_INDEX = 16;
        long PORT_NUM = 20;
        long GID_TYPE = 24;
        long NDEV_IFINDEX = 28;
    }

    interface IbvMr {
        long LKEY = 36;
        long RKEY = 40;
    }

    interface IbvMw {
        long RKEY = 16;
    }

    interface IbvCompChannel {
        long FD = 8;
    }

    interface IbvModifyCqAttr {
        long SIZE = 8;
        long ATTR_MASK = 0;
        long MODERATE_CQ_COUNT = 4;
        long MODERATE_CQ_PERIOD = 6;
    }

    interface IbvSrqAttr {
        long SIZE = 12;
        long MAX_WR = 0;
        long SRQ_LIMIT = 8;
    }

    interface IbvSrqInitAttr {
        long SIZE = 24;
        long ATTR_MAX_WR = 8;
        long ATTR_MAX_SGE = 12;
    }

    interface IbvQp {
        long QP_NUM = 52;
    }

    interface IbvQpInitAttr {
        long SIZE = 64;
        long SEND_CQ = 8;
        long RECV_CQ = 16;
        long SRQ = 24;
        long CAP_MAX_SEND_WR = 32;
        long CAP_MAX_RECV_WR = 36;
        long CAP_MAX_SEND_SGE = 40;
        long CAP_MAX_RECV_SGE = 44;
        long CAP_MAX_INLINE_DATA = 48;
        long QP_TYPE = 52;
        long SQ_SIG_ALL = 56;
    }

    interface IbvQpAttr {
        long SIZE = 144;
        long QP_STATE = 0;
        long PATH_MTU = 8;
        long RQ_PSN = 20;
        long SQ_PSN = 24;
        long DEST_QP_NUM = 28;
        long QP_ACCESS_FLAGS = 32;
        long AH_ATTR_GRH_DGID = 56;
        long AH_ATTR_GRH_FLOW_LABEL = 72;
        long AH_ATTR_GRH_SGID_INDEX = 76;
        long AH_ATTR_GRH_HOP_LIMIT = 77;
        long AH_ATTR_GRH_TRAFFIC_CLASS = 78;
        long AH_ATTR_DLID = 80;
        long AH_ATTR_SL = 82;
        long AH_ATTR_IS_GLOBAL = 85;
        long AH_ATTR_PORT_NUM = 86;
        long PKEY_INDEX = 120;
        long MAX_RD_ATOMIC = 126;
        long MAX_DEST_RD_ATOMIC = 127;
        long MIN_RNR_TIMER = 128;
        long PORT_NUM = 129;
        long TIMEOUT = 130;
        long RETRY_CNT = 131;
        long RNR_RETRY = 132;
    }

    interface IbvAsyncEvent {
        long SIZE = 16;
        long ELEMENT_QP = 0;
        long ELEMENT_PORT_NUM = 0;
        long EVENT_TYPE = 8;
    }

    interface IbvSge {
        long SIZE = 16;
        long ADDR = 0;
        long LENGTH = 8;
        long LKEY = 12;
    }

    interface IbvSendWr {
        long SIZE = 128;
        long WR_ID = 0;
        long NEXT = 8;
        long SG_LIST = 16;
        long NUM_SGE = 24;
        long OPCODE = 28;
        long SEND_FLAGS = 32;
        long IMM_DATA = 36;
        long INVALIDATE_RKEY = 36;
        long WR_RDMA_REMOTE_ADDR = 40;
        long WR_RDMA_RKEY = 48;
        long WR_ATOMIC_REMOTE_ADDR = 40;
        long WR_ATOMIC_COMPARE_ADD = 48;
        long WR_ATOMIC_SWAP = 56;
        long WR_ATOMIC_RKEY = 64;
        long BIND_MW_MW = 80;
        long BIND_MW_RKEY = 88;
        long BIND_MW_BIND_INFO_MR = 96;
        long BIND_MW_BIND_INFO_ADDR = 104;
        long BIND_MW_BIND_INFO_LENGTH = 112;
        long BIND_MW_BIND_INFO_MW_ACCESS_FLAGS = 120;
    }

    interface IbvRecvWr {
        long SIZE = 32;
        long WR_ID = 0;
        long SG_LIST = 16;
        long NUM_SGE = 24;
    }

    interface IbvWc {
        long SIZE = 48;
        long WR_ID = 0;
        long STATUS = 8;
        long OPCODE = 12;
        long VENDOR_ERR = 16;
        long BYTE_LEN = 20;
        long IMM_DATA = 24;
        long INVALIDATED_RKEY = 24;
        long QP_NUM = 28;
        long WC_FLAGS = 36;
    }

    interface RdmaEventChannel {
        long FD = 0;
    }

    interface RdmaCmId {
        long VERBS = 0;
        long CONTEXT = 16;
        long ROUTE_ADDR_SRC_ADDR = 32;
        long ROUTE_ADDR_DST_ADDR = 160;
        long PORT_NUM = 348;
    }

    interface RdmaCmEvent {
        long ID = 0;
        long EVENT = 16;
        long STATUS = 20;
        long PARAM_CONN_PRIVATE_DATA = 24;
        long PARAM_CONN_PRIVATE_DATA_LEN = 32;
        long PARAM_CONN_RESPONDER_RESOURCES = 33;
        long PARAM_CONN_INITIATOR_DEPTH = 34;
    }

    interface RdmaConnParam {
        long SIZE = 24;
        long PRIVATE_DATA = 0;
        long PRIVATE_DATA_LEN = 8;
        long RESPONDER_RESOURCES = 9;
        long INITIATOR_DEPTH = 10;
        long FLOW_CONTROL = 11;
        long RETRY_COUNT = 12;
        long RNR_RETRY_COUNT = 13;
        long SRQ = 14;
        long QP_NUM = 16;
    }

    interface SockaddrIn {
        long SIZE = 16;
        long SIN_FAMILY = 0;
        long SIN_PORT = 2;
        long SIN_ADDR = 4;
    }

    interface SockaddrIn6 {
        long SIZE = 28;
        long SIN6_FAMILY = 0;
        long SIN6_PORT = 2;
        long SIN6_ADDR = 8;
        long SIN6_SCOPE_ID = 24;
    }
}
