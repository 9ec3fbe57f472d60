package dev.verbena.internal.verbs;

/**
 * The exported functions of libibverbs.
 *
 * <p>Call {@link Libraries#problemWithVerbs} first: if it does not return "", initializing this
 * class fails.
 */
final class VerbsFunctions {
    static final NativeFunction GET_DEVICE_LIST = Libraries.verbs("ibv_get_device_list");
    static final NativeFunction FREE_DEVICE_LIST = Libraries.verbs("ibv_free_device_list");
    static final NativeFunction OPEN_DEVICE = Libraries.verbs("ibv_open_device");
    static final NativeFunction CLOSE_DEVICE = Libraries.verbs("ibv_close_device");
    static final NativeFunction QUERY_DEVICE = Libraries.verbs("ibv_query_device");
    static final NativeFunction QUERY_GID_TABLE = Libraries.verbs("_ibv_query_gid_table");
    static final NativeFunction QUERY_PORT = Libraries.verbs("ibv_query_port");
    static final NativeFunction ALLOC_PD = Libraries.verbs("ibv_alloc_pd");
    static final NativeFunction DEALLOC_PD = Libraries.verbs("ibv_dealloc_pd");
    static final NativeFunction REG_MR = Libraries.verbs("ibv_reg_mr");
    static final NativeFunction DEREG_MR = Libraries.verbs("ibv_dereg_mr");
    static final NativeFunction CREATE_CHANNEL = Libraries.verbs("ibv_create_comp_channel");
    static final NativeFunction DESTROY_CHANNEL = Libraries.verbs("ibv_destroy_comp_channel");
    static final NativeFunction CREATE_CQ = Libraries.verbs("ibv_create_cq");
    static final NativeFunction DESTROY_CQ = Libraries.verbs("ibv_destroy_cq");
    static final NativeFunction RESIZE_CQ = Libraries.verbs("ibv_resize_cq");
    static final NativeFunction GET_CQ_EVENT = Libraries.verbs("ibv_get_cq_event");
    static final NativeFunction ACK_CQ_EVENTS = Libraries.verbs("ibv_ack_cq_events");
    static final NativeFunction GET_ASYNC_EVENT = Libraries.verbs("ibv_get_async_event");
    static final NativeFunction ACK_ASYNC_EVENT = Libraries.verbs("ibv_ack_async_event");
    static final NativeFunction CREATE_QP = Libraries.verbs("ibv_create_qp");
    static final NativeFunction MODIFY_QP = Libraries.verbs("ibv_modify_qp");
    static final NativeFunction DESTROY_QP = Libraries.verbs("ibv_destroy_qp");
    static final NativeFunction QUERY_QP = Libraries.verbs("ibv_query_qp");
    static final NativeFunction CREATE_SRQ = Libraries.verbs("ibv_create_srq");
    static final NativeFunction MODIFY_SRQ = Libraries.verbs("ibv_modify_srq");
    static final NativeFunction DESTROY_SRQ = Libraries.verbs("ibv_destroy_srq");

    // In holder classes: older versions of libibverbs do not have them.

    static final class OptionalRights {
        static final NativeFunction REG_MR_IOVA2 = Libraries.verbs("ibv_reg_mr_iova2");

        private OptionalRights() {}
    }

    static final class DmaBufs {
        static final NativeFunction REG_DMABUF_MR = Libraries.verbs("ibv_reg_dmabuf_mr");

        private DmaBufs() {}
    }

    private VerbsFunctions() {}
}
