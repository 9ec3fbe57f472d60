package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import dev.verbena.QueuePairLimits;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;

/** A program calls functions of libibverbs that the library lacks, with its native handles. */
@NeedsDevices
@Timeout(60)
@SuppressWarnings("restricted") // that is the purpose
class NativeHandlesTest {
    private static final SymbolLookup LIBRARY =
            SymbolLookup.libraryLookup("libibverbs.so.1", Arena.global());

    private static final int QP_ATTR_BYTES = 144;
    private static final int QP_INIT_ATTR_BYTES = 64;
    private static final int IBV_QP_STATE = 1;
    private static final int IBV_QPS_INIT = 1;
    private static final int IBV_QPS_RTS = 3;
    private static final short DEFAULT_PARTITION_KEY = -1;

    private static MethodHandle find(String name, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(LIBRARY.findOrThrow(name), type);
    }

    private static int state(MemorySegment queuePair) throws Throwable {
        MethodHandle query =
                find(
                        "ibv_query_qp",
                        FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment attributes = arena.allocate(QP_ATTR_BYTES, Long.BYTES);
            MemorySegment initial = arena.allocate(QP_INIT_ATTR_BYTES, Long.BYTES);
            int error = (int) query.invokeExact(queuePair, attributes, IBV_QP_STATE, initial);
            assertThat(error).isZero();
            return attributes.get(JAVA_INT, 0);
        }
    }

    @Test
    void aQueuePairIsQueried() throws Throwable {
        try (Pair pair = new Pair(QueuePairLimits.depths(4, 4))) {
            assertThat(state(pair.left.queuePair.nativeHandle())).isEqualTo(IBV_QPS_INIT);
            pair.connect();
            assertThat(state(pair.left.queuePair.nativeHandle())).isEqualTo(IBV_QPS_RTS);
        }
    }

    @Test
    void aDeviceIsAskedForItsPartitionKey() throws Throwable {
        MethodHandle query =
                find(
                        "ibv_query_pkey",
                        FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_BYTE, JAVA_INT, ADDRESS));
        try (Pair pair = new Pair(QueuePairLimits.depths(4, 4));
                Arena arena = Arena.ofConfined()) {
            MemorySegment key = arena.allocate(JAVA_SHORT);
            int error = (int) query.invokeExact(pair.left.adapter.nativeHandle(), (byte) 1, 0, key);
            assertThat(error).isZero();
            assertThat(key.get(JAVA_SHORT, 0)).isEqualTo(DEFAULT_PARTITION_KEY);
        }
    }
}
