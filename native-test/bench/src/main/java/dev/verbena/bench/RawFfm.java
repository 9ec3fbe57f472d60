package dev.verbena.bench;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * By the FFM API: critical calls of functions whose addresses are constants. A process opens one
 * device, so they can be.
 */
final class RawFfm extends RawCalls {
    private static final MethodHandle POST_SEND =
            critical(
                    ibv_context_ops.post_send(ibv_context.ops(RawDevice.context())),
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle POLL_CQ =
            critical(
                    ibv_context_ops.poll_cq(ibv_context.ops(RawDevice.context())),
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));

    @SuppressWarnings("restricted")
    private static MethodHandle critical(MemorySegment function, FunctionDescriptor descriptor) {
        return Linker.nativeLinker()
                .downcallHandle(function, descriptor, Linker.Option.critical(false));
    }

    @Override
    int postSend(long queuePair, long request, long refused) {
        try {
            return (int) POST_SEND.invokeExact(queuePair, request, refused);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    @Override
    int pollCq(long queue, int most, long completions) {
        try {
            return (int) POLL_CQ.invokeExact(queue, most, completions);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
