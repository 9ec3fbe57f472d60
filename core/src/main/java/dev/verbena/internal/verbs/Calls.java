package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.LibIbverbs;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Method handles for the exported functions of libibverbs. They capture errno, which the handles
 * that jextract generates do not.
 *
 * <p>Call {@link RdmaCore#problemWithVerbs} first: if it does not return "", initializing this
 * class fails.
 */
@SuppressWarnings("restricted") // making downcalls is what this module asks native access for
final class Calls {
    private static final Linker LINKER = Linker.nativeLinker();

    // In holder classes, so that a function is linked only when its group is first used: linking a
    // signature that is new to the JVM takes 12 ms (just after startup), and no program needs all
    // of them.

    static final class Devices {
        static final MethodHandle GET_DEVICE_LIST =
                capturing(
                        LibIbverbs.ibv_get_device_list$address(),
                        LibIbverbs.ibv_get_device_list$descriptor());

        static final MethodHandle FREE_DEVICE_LIST =
                capturing(
                        LibIbverbs.ibv_free_device_list$address(),
                        LibIbverbs.ibv_free_device_list$descriptor());

        static final MethodHandle OPEN_DEVICE =
                capturing(
                        LibIbverbs.ibv_open_device$address(),
                        LibIbverbs.ibv_open_device$descriptor());

        static final MethodHandle CLOSE_DEVICE =
                capturing(
                        LibIbverbs.ibv_close_device$address(),
                        LibIbverbs.ibv_close_device$descriptor());

        static final MethodHandle QUERY_DEVICE =
                capturing(
                        LibIbverbs.ibv_query_device$address(),
                        LibIbverbs.ibv_query_device$descriptor());

        static final MethodHandle QUERY_GID_TABLE =
                capturing(
                        LibIbverbs._ibv_query_gid_table$address(),
                        LibIbverbs._ibv_query_gid_table$descriptor());

        private Devices() {}
    }

    /** For devices whose context has no function to query a port. */
    static final class ExportedPorts {
        static final MethodHandle QUERY_PORT =
                capturing(
                        LibIbverbs.ibv_query_port$address(),
                        LibIbverbs.ibv_query_port$descriptor());

        private ExportedPorts() {}
    }

    static final class Domains {
        static final MethodHandle ALLOC_PD =
                capturing(LibIbverbs.ibv_alloc_pd$address(), LibIbverbs.ibv_alloc_pd$descriptor());

        static final MethodHandle DEALLOC_PD =
                capturing(
                        LibIbverbs.ibv_dealloc_pd$address(),
                        LibIbverbs.ibv_dealloc_pd$descriptor());

        private Domains() {}
    }

    static final class Regions {
        static final MethodHandle REG_MR =
                capturing(LibIbverbs.ibv_reg_mr$address(), LibIbverbs.ibv_reg_mr$descriptor());

        static final MethodHandle DEREG_MR =
                capturing(LibIbverbs.ibv_dereg_mr$address(), LibIbverbs.ibv_dereg_mr$descriptor());

        private Regions() {}
    }

    static final class OptionalRights {
        static final MethodHandle REG_MR_IOVA2 =
                capturing(
                        LibIbverbs.ibv_reg_mr_iova2$address(),
                        LibIbverbs.ibv_reg_mr_iova2$descriptor());

        private OptionalRights() {}
    }

    static final class DmaBufs {
        static final MethodHandle REG_DMABUF_MR =
                capturing(
                        LibIbverbs.ibv_reg_dmabuf_mr$address(),
                        LibIbverbs.ibv_reg_dmabuf_mr$descriptor());

        private DmaBufs() {}
    }

    static final class Channels {
        static final MethodHandle CREATE_CHANNEL =
                capturing(
                        LibIbverbs.ibv_create_comp_channel$address(),
                        LibIbverbs.ibv_create_comp_channel$descriptor());

        static final MethodHandle DESTROY_CHANNEL =
                capturing(
                        LibIbverbs.ibv_destroy_comp_channel$address(),
                        LibIbverbs.ibv_destroy_comp_channel$descriptor());

        private Channels() {}
    }

    static final class CompletionQueues {
        static final MethodHandle CREATE_CQ =
                capturing(
                        LibIbverbs.ibv_create_cq$address(), LibIbverbs.ibv_create_cq$descriptor());

        static final MethodHandle DESTROY_CQ =
                capturing(
                        LibIbverbs.ibv_destroy_cq$address(),
                        LibIbverbs.ibv_destroy_cq$descriptor());

        private CompletionQueues() {}
    }

    static final class Resizing {
        static final MethodHandle RESIZE_CQ =
                capturing(
                        LibIbverbs.ibv_resize_cq$address(), LibIbverbs.ibv_resize_cq$descriptor());

        private Resizing() {}
    }

    static final class Events {
        static final MethodHandle GET_CQ_EVENT =
                capturing(
                        LibIbverbs.ibv_get_cq_event$address(),
                        LibIbverbs.ibv_get_cq_event$descriptor());

        /** The same without capturing errno, for the path that runs on every event. */
        static final MethodHandle GET_CQ_EVENT_WITHOUT_ERRNO =
                withoutErrno(
                        LibIbverbs.ibv_get_cq_event$address(),
                        LibIbverbs.ibv_get_cq_event$descriptor());

        /**
         * Takes the address as a number: an event may be of any completion queue of its channel,
         * and a segment for each would be an allocation.
         */
        static final MethodHandle ACK_CQ_EVENTS =
                withoutErrno(
                        LibIbverbs.ibv_ack_cq_events$address(),
                        FunctionDescriptor.ofVoid(JAVA_LONG, JAVA_INT));

        private Events() {}
    }

    static final class AsyncEvents {
        static final MethodHandle GET_ASYNC_EVENT =
                capturing(
                        LibIbverbs.ibv_get_async_event$address(),
                        LibIbverbs.ibv_get_async_event$descriptor());

        static final MethodHandle ACK_ASYNC_EVENT =
                capturing(
                        LibIbverbs.ibv_ack_async_event$address(),
                        LibIbverbs.ibv_ack_async_event$descriptor());

        private AsyncEvents() {}
    }

    static final class QueuePairs {
        static final MethodHandle CREATE_QP =
                capturing(
                        LibIbverbs.ibv_create_qp$address(), LibIbverbs.ibv_create_qp$descriptor());

        static final MethodHandle MODIFY_QP =
                capturing(
                        LibIbverbs.ibv_modify_qp$address(), LibIbverbs.ibv_modify_qp$descriptor());

        static final MethodHandle DESTROY_QP =
                capturing(
                        LibIbverbs.ibv_destroy_qp$address(),
                        LibIbverbs.ibv_destroy_qp$descriptor());

        private QueuePairs() {}
    }

    static final class StateQueries {
        static final MethodHandle QUERY_QP =
                withoutErrno(
                        LibIbverbs.ibv_query_qp$address(), LibIbverbs.ibv_query_qp$descriptor());

        private StateQueries() {}
    }

    static final class SharedReceiveQueues {
        static final MethodHandle CREATE_SRQ =
                capturing(
                        LibIbverbs.ibv_create_srq$address(),
                        LibIbverbs.ibv_create_srq$descriptor());

        static final MethodHandle MODIFY_SRQ =
                capturing(
                        LibIbverbs.ibv_modify_srq$address(),
                        LibIbverbs.ibv_modify_srq$descriptor());

        static final MethodHandle DESTROY_SRQ =
                capturing(
                        LibIbverbs.ibv_destroy_srq$address(),
                        LibIbverbs.ibv_destroy_srq$descriptor());

        private SharedReceiveQueues() {}
    }

    private Calls() {}

    /**
     * A handle that does not capture errno, for calls on the data path: capturing it allocates an
     * object of 40 bytes per call (JDK 25, SharedUtils.checkCaptureSegment).
     */
    static MethodHandle withoutErrno(MemorySegment function, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(function, descriptor);
    }

    static MethodHandle capturing(MemorySegment function, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(function, descriptor, Linker.Option.captureCallState("errno"));
    }

    /**
     * Rethrows what a downcall threw. Unchecked exceptions reach the caller unchanged, for example
     * the one for memory whose arena was closed meanwhile. A downcall throws no checked exception,
     * so any other throwable becomes the AssertionError that this returns.
     */
    static AssertionError unexpected(Throwable t) {
        if (t instanceof RuntimeException e) {
            throw e;
        }
        if (t instanceof Error e) {
            throw e;
        }
        return new AssertionError("calling libibverbs", t);
    }
}
