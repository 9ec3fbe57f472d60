package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * The data path of an opened device: what {@code ibv_context.ops} points at.
 *
 * <p>{@code ibv_post_send}, {@code ibv_poll_cq} and their like are inline functions in C and no
 * symbols: they call through the table in {@code ibv_context.ops}, as is done here. The pointers
 * differ with the provider, so they are read once for each opened device; the method handles are
 * unbound and shared, which the JIT likes best.
 *
 * <p>Each comes in two forms. An ordinary downcall tells the JVM that the thread is away, so that a
 * safepoint need not wait for it, about 7 ns. A {@linkplain Linker.Option#critical critical} one
 * does not: for functions that stay in user space and are back in well under a microsecond, which
 * must not call Java. {@link #heeding} chooses.
 */
@SuppressWarnings("ReferenceEquality") // First.FUNCTIONS is a constant where it is the same object
public final class VerbsContext {
    // Apart from Calls, which opens the library: these need none.

    /**
     * {@code int post(struct ibv_… *, struct ibv_…_wr *, struct ibv_…_wr **)}: post_send, post_recv
     * and post_srq_recv, the pointer first.
     */
    private static final FunctionDescriptor POSTS =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);

    /** {@code int poll_cq(struct ibv_cq *, int, struct ibv_wc *)}, the pointer first. */
    private static final FunctionDescriptor POLLS =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG);

    /** {@code int req_notify_cq(struct ibv_cq *, int)}, the pointer first. */
    private static final MethodHandle REQUEST_NOTIFY =
            dataPath(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT));

    // In holders: most programs need only one of the two, and linking takes its time.

    private static final class Ordinary {
        static final MethodHandle POST = dataPath(POSTS);
        static final MethodHandle POLL_CQ = dataPath(POLLS);

        private Ordinary() {}
    }

    private static final class Brief {
        static final MethodHandle POST = dataPath(POSTS, Linker.Option.critical(false));
        static final MethodHandle POLL_CQ = dataPath(POLLS, Linker.Option.critical(false));

        private Brief() {}
    }

    /** A provider's functions, and which of them are brief. */
    private record Functions(
            MemorySegment postSend,
            MemorySegment postReceive,
            MemorySegment postSharedReceive,
            MemorySegment pollCq,
            MemorySegment requestNotify,
            boolean briefSends,
            boolean brief) { // receives and polls

        int postSend(long queuePair, long request, long refused) throws Throwable {
            return post(postSend, briefSends, queuePair, request, refused);
        }

        int postReceive(long queuePair, long request, long refused) throws Throwable {
            return post(postReceive, brief, queuePair, request, refused);
        }

        int postSharedReceive(long queue, long request, long refused) throws Throwable {
            return post(postSharedReceive, brief, queue, request, refused);
        }

        private static int post(
                MemorySegment function, boolean brief, long queue, long request, long refused)
                throws Throwable {
            return brief
                    ? (int) Brief.POST.invokeExact(function, queue, request, refused)
                    : (int) Ordinary.POST.invokeExact(function, queue, request, refused);
        }

        int pollCq(long completionQueue, int count, long into) throws Throwable {
            return brief
                    ? (int) Brief.POLL_CQ.invokeExact(pollCq, completionQueue, count, into)
                    : (int) Ordinary.POLL_CQ.invokeExact(pollCq, completionQueue, count, into);
        }
    }

    /**
     * The functions of the device whose queues were made first, and most often of all that follow:
     * one provider's. As constants, which the JIT knows to be native addresses of memory that
     * stays; of a field's segment each call makes sure (11 instructions; of both calls of a post
     * and its poll, an eighth of their time).
     */
    private static final class First {
        static final Functions FUNCTIONS = candidate;

        private First() {}
    }

    /**
     * What {@link First} takes over when it is initialised, by the constructor below; with two
     * devices at once, either's. Null until there is one: {@link First} is then compared with what
     * is not null, and never called.
     */
    @SuppressWarnings("NullAway.Init")
    private static volatile Functions candidate;

    private final Functions functions;

    /**
     * Takes over an opened device. Its calls may take their time, and may end in Java, as tests'
     * do.
     *
     * @param context the address that {@link DeviceList#open} gave
     */
    public VerbsContext(long context) {
        MemorySegment ops = ibv_context.ops(Native.at(context, ibv_context.sizeof()));
        this.functions =
                new Functions(
                        ibv_context_ops.post_send(ops),
                        ibv_context_ops.post_recv(ops),
                        ibv_context_ops.post_srq_recv(ops),
                        ibv_context_ops.poll_cq(ops),
                        ibv_context_ops.req_notify_cq(ops),
                        false,
                        false);
    }

    @SuppressWarnings("StaticAssignmentInConstructor") // the first device's become constants
    private VerbsContext(Functions functions) {
        candidate = functions;
        this.functions = functions.equals(First.FUNCTIONS) ? First.FUNCTIONS : functions;
    }

    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static MethodHandle dataPath(FunctionDescriptor descriptor, Linker.Option... options) {
        return Linker.nativeLinker().downcallHandle(descriptor, options);
    }

    /**
     * The same device, knowing which of its calls are brief: not those that are system calls. In
     * one of these a safepoint would wait for the kernel, which on Soft-RoCE may carry out the
     * whole request before it returns.
     *
     * @param throughKernel which calls of this provider are
     * @return other than with ALL, for a real device only: brief calls may not end in Java
     */
    public VerbsContext heeding(Provider.ThroughKernel throughKernel) {
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
     * @param queuePair the address of the {@code ibv_qp}
     * @param request the address of the first {@code ibv_send_wr}
     * @param refused where the address of the first refused request goes: a pointer's room
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postSend(long queuePair, long request, long refused) {
        try {
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.postSend(queuePair, request, refused)
                    : functions.postSend(queuePair, request, refused);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_post_recv}.
     *
     * @param queuePair the address of the {@code ibv_qp}
     * @param request the address of the first {@code ibv_recv_wr}
     * @param refused where the address of the first refused request goes: a pointer's room
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postReceive(long queuePair, long request, long refused) {
        try {
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.postReceive(queuePair, request, refused)
                    : functions.postReceive(queuePair, request, refused);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_post_srq_recv}.
     *
     * @param sharedQueue the address of the {@code ibv_srq}
     * @param request the address of the first {@code ibv_recv_wr}
     * @param refused where the address of the first refused request goes: a pointer's room
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postSharedReceive(long sharedQueue, long request, long refused) {
        try {
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.postSharedReceive(sharedQueue, request, refused)
                    : functions.postSharedReceive(sharedQueue, request, refused);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_poll_cq}.
     *
     * @param completionQueue the address of the {@code ibv_cq}
     * @param count how many at most
     * @param completions where they go, from its start
     * @return how many came, or a negative number when the queue is broken
     */
    public int pollCq(long completionQueue, int count, WorkCompletions completions) {
        try {
            long into = completions.address();
            return functions == First.FUNCTIONS
                    ? First.FUNCTIONS.pollCq(completionQueue, count, into)
                    : functions.pollCq(completionQueue, count, into);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_req_notify_cq}: asks for one event at the next completion.
     *
     * @param completionQueue the address of the {@code ibv_cq}
     * @param solicitedOnly whether only solicited receives and failures count
     * @return 0, or what the provider answered
     */
    public int requestNotify(long completionQueue, boolean solicitedOnly) {
        try {
            return (int)
                    REQUEST_NOTIFY.invokeExact(
                            functions.requestNotify, completionQueue, solicitedOnly ? 1 : 0);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code enum ibv_mtu} in bytes.
     *
     * @param mtu the enum's value
     * @return 256 to 4096
     */
    public static int mtuBytes(int mtu) {
        return 128 << mtu;
    }

    /**
     * Bytes as {@code enum ibv_mtu}.
     *
     * @param bytes 256 to 4096
     * @return the enum's value
     */
    public static int mtuOf(int bytes) {
        int mtu = Integer.numberOfTrailingZeros(Integer.highestOneBit(bytes)) - 7;
        return Math.clamp(mtu, Verbs.IBV_MTU_256, Verbs.IBV_MTU_4096);
    }
}
