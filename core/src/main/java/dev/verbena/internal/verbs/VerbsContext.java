package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Objects;

/**
 * The data path of an opened device: calls through the provider's function pointers in {@code
 * ibv_context.ops}.
 *
 * <p>{@code ibv_post_send}, {@code ibv_poll_cq} and the others are inline functions in C, without
 * symbols. They call through that table, and so does this class. The pointers depend on the
 * provider, so they are read once for each opened device. The method handles are unbound and
 * shared, which the JIT compiles best, and all functions have one signature: see {@link
 * NativeFunction}.
 *
 * <p>Posts and polls exist in two forms. An ordinary downcall marks the thread as being in native
 * code, so that a safepoint need not wait for it; that costs about 7 ns. A {@linkplain
 * Linker.Option#critical critical} downcall does not. It is for functions that stay in user space,
 * return in well under a microsecond and do not call Java. {@link #withCriticalCalls} chooses the
 * form.
 */
@SuppressWarnings("ReferenceEquality") // First.FUNCTIONS is a constant where it is the same object
public final class VerbsContext {
    // In holder classes: most programs need only one of the two forms, and linking takes time.

    private static final class Ordinary {
        static final MethodHandle CALL = NativeFunction.withoutErrno();

        private Ordinary() {}
    }

    private static final class Critical {
        static final MethodHandle CALL = NativeFunction.withoutErrno(Linker.Option.critical(false));

        private Critical() {}
    }

    /** A provider's functions, and which of them are called by critical downcalls. */
    private record Functions(
            MemorySegment postSend,
            MemorySegment postReceive,
            MemorySegment postSharedReceive,
            MemorySegment pollCq,
            MemorySegment requestNotify,
            boolean criticalSends,
            boolean critical) { // receives and polls

        /** As a record's, whose first call would load a hundred classes of a JVM just started. */
        @Override
        public boolean equals(@Nullable Object other) {
            return other instanceof Functions that
                    && postSend.equals(that.postSend)
                    && postReceive.equals(that.postReceive)
                    && postSharedReceive.equals(that.postSharedReceive)
                    && pollCq.equals(that.pollCq)
                    && requestNotify.equals(that.requestNotify)
                    && criticalSends == that.criticalSends
                    && critical == that.critical;
        }

        @Override
        public int hashCode() {
            return Objects.hash(postSend, pollCq);
        }

        int postSend(long queuePair, long request, long refused) throws Throwable {
            return post(postSend, criticalSends, queuePair, request, refused);
        }

        int postReceive(long queuePair, long request, long refused) throws Throwable {
            return post(postReceive, critical, queuePair, request, refused);
        }

        int postSharedReceive(long queue, long request, long refused) throws Throwable {
            return post(postSharedReceive, critical, queue, request, refused);
        }

        private static int post(
                MemorySegment function, boolean critical, long queue, long request, long refused)
                throws Throwable {
            return critical
                    ? (int) Critical.CALL.invokeExact(function, queue, request, refused, 0L)
                    : (int) Ordinary.CALL.invokeExact(function, queue, request, refused, 0L);
        }

        int pollCq(long completionQueue, int count, long into) throws Throwable {
            return critical
                    ? (int)
                            Critical.CALL.invokeExact(
                                    pollCq, completionQueue, (long) count, into, 0L)
                    : (int)
                            Ordinary.CALL.invokeExact(
                                    pollCq, completionQueue, (long) count, into, 0L);
        }
    }

    /**
     * The functions of the device on which a queue was created first; most programs use only one
     * provider. As constants: the JIT then knows each segment to be a valid native address, while
     * for a segment in a field every call checks it (11 instructions; for a post and its poll, an
     * eighth of the time of both calls).
     */
    private static final class First {
        static final Functions FUNCTIONS = candidate;

        private First() {}
    }

    /**
     * The value that {@link First#FUNCTIONS} gets when the constructor below first reads it. If two
     * devices are opened at the same time, it is that of either. Null before: a context made by the
     * public constructor may initialize {@link First} with null, which then equals no functions and
     * is never called.
     */
    @SuppressWarnings("NullAway.Init")
    private static volatile Functions candidate;

    private final Functions functions;

    /**
     * Reads the function pointers of an opened device. All calls are ordinary downcalls, so the
     * functions may block, and may call Java, as those of tests do.
     */
    public VerbsContext(long context) {
        this.functions =
                new Functions(
                        function(context, Structs.IbvContext.OPS_POST_SEND),
                        function(context, Structs.IbvContext.OPS_POST_RECV),
                        function(context, Structs.IbvContext.OPS_POST_SRQ_RECV),
                        function(context, Structs.IbvContext.OPS_POLL_CQ),
                        function(context, Structs.IbvContext.OPS_REQ_NOTIFY_CQ),
                        false,
                        false);
    }

    private static MemorySegment function(long context, long offset) {
        return MemorySegment.ofAddress(Native.getLong(context, offset));
    }

    @SuppressWarnings("StaticAssignmentInConstructor") // the first device's become constants
    private VerbsContext(Functions functions) {
        candidate = functions;
        this.functions = functions.equals(First.FUNCTIONS) ? First.FUNCTIONS : functions;
    }

    /**
     * Returns a context of the same device that uses critical downcalls for the functions that stay
     * in user space. A safepoint must wait for the end of a critical downcall, so none may enter
     * the kernel: on Soft-RoCE, the kernel may execute the whole request before a post returns.
     *
     * @return the new context; except with ALL, only for real devices, because a critical downcall
     *     must not call Java
     */
    public VerbsContext withCriticalCalls(Provider.ThroughKernel throughKernel) {
        return new VerbsContext(
                new Functions(
                        functions.postSend,
                        functions.postReceive,
                        functions.postSharedReceive,
                        functions.pollCq,
                        functions.requestNotify,
                        throughKernel == Provider.ThroughKernel.NONE,
                        throughKernel != Provider.ThroughKernel.ALL));
    }

    /**
     * {@code ibv_post_send}.
     *
     * @param refused the address of a pointer, which receives the address of the first refused
     *     request ({@code bad_wr})
     * @return 0, or an errno, which some providers return as a negative number
     */
    public int postSend(long queuePair, long request, long refused) {
        try {
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.postSend(queuePair, request, refused)
                    : functions.postSend(queuePair, request, refused);
        } catch (Throwable t) {
            throw NativeFunction.unexpected(t);
        }
    }

    /**
     * {@code ibv_post_recv}.
     *
     * @param refused the address of a pointer, which receives the address of the first refused
     *     request ({@code bad_wr})
     * @return 0, or an errno, which some providers return as a negative number
     */
    public int postReceive(long queuePair, long request, long refused) {
        try {
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.postReceive(queuePair, request, refused)
                    : functions.postReceive(queuePair, request, refused);
        } catch (Throwable t) {
            throw NativeFunction.unexpected(t);
        }
    }

    /**
     * {@code ibv_post_srq_recv}.
     *
     * @param refused the address of a pointer, which receives the address of the first refused
     *     request ({@code bad_wr})
     * @return 0, or an errno, which some providers return as a negative number
     */
    public int postSharedReceive(long sharedQueue, long request, long refused) {
        try {
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.postSharedReceive(sharedQueue, request, refused)
                    : functions.postSharedReceive(sharedQueue, request, refused);
        } catch (Throwable t) {
            throw NativeFunction.unexpected(t);
        }
    }

    /**
     * {@code ibv_poll_cq}.
     *
     * @param completions receives them, from index 0 on
     * @return the number of completions, or a negative number if the queue has failed
     */
    public int pollCq(long completionQueue, int count, WorkCompletions completions) {
        try {
            long into = completions.address();
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.pollCq(completionQueue, count, into)
                    : functions.pollCq(completionQueue, count, into);
        } catch (Throwable t) {
            throw NativeFunction.unexpected(t);
        }
    }

    /**
     * {@code ibv_req_notify_cq}: requests one event for the next completion.
     *
     * @param solicitedOnly whether only solicited receives and failures count
     * @return 0, or an errno
     */
    public int requestNotify(long completionQueue, boolean solicitedOnly) {
        try {
            return (int)
                    Ordinary.CALL.invokeExact(
                            functions.requestNotify,
                            completionQueue,
                            solicitedOnly ? 1L : 0L,
                            0L,
                            0L);
        } catch (Throwable t) {
            throw NativeFunction.unexpected(t);
        }
    }

    /**
     * {@code enum ibv_mtu} in bytes.
     *
     * @return 256 to 4096
     */
    public static int mtuBytes(int mtu) {
        return 128 << mtu;
    }

    /**
     * The largest {@code enum ibv_mtu} of at most so many bytes.
     *
     * @param bytes 256 to 4096
     */
    public static int mtuOf(int bytes) {
        int mtu = Integer.numberOfTrailingZeros(Integer.highestOneBit(bytes)) - 7;
        return Math.clamp(mtu, Verbs.IBV_MTU_256, Verbs.IBV_MTU_4096);
    }
}
