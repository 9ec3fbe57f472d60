package dev.verbena;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_qp_attr;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.function.Consumer;

/** The structs that steps of connections have, with the options of a path, byte for byte. */
final class PathSteps {
    static final PathOptions NONE = PathOptions.DEFAULTS;
    static final QueuePairLimits SMALL = QueuePairLimits.depths(4, 4).withReads(3, 2);

    /** One of each, but for the partition. */
    static final PathOptions ALL =
            NONE.withTrafficClass(0xFE)
                    .withServiceLevel(5)
                    .withFlowLabel(0xABCDE)
                    .withMinRnrTimer(Duration.ofMillis(1))
                    .withAckTimeout(Duration.ofMillis(60))
                    .withRetries(3)
                    .withRnrRetries(2);

    /** What the step to ready-to-receive sets, without any options. */
    static final int MASK_TO_RECEIVE =
            Verbs.IBV_QP_STATE
                    | Verbs.IBV_QP_AV
                    | Verbs.IBV_QP_PATH_MTU
                    | Verbs.IBV_QP_DEST_QPN
                    | Verbs.IBV_QP_RQ_PSN
                    | Verbs.IBV_QP_MAX_DEST_RD_ATOMIC
                    | Verbs.IBV_QP_MIN_RNR_TIMER;

    static final int MASK_TO_SEND =
            Verbs.IBV_QP_STATE
                    | Verbs.IBV_QP_TIMEOUT
                    | Verbs.IBV_QP_RETRY_CNT
                    | Verbs.IBV_QP_RNR_RETRY
                    | Verbs.IBV_QP_SQ_PSN
                    | Verbs.IBV_QP_MAX_QP_RD_ATOMIC;

    private PathSteps() {}

    /** The same, on the struct of the step to ready-to-receive. */
    static void allToReceive(MemorySegment a) {
        trafficClass(a, 0xFE);
        ibv_ah_attr.sl(ibv_qp_attr.ah_attr(a), (byte) 5);
        ibv_global_route.flow_label(ibv_ah_attr.grh(ibv_qp_attr.ah_attr(a)), 0xABCDE);
        ibv_qp_attr.min_rnr_timer(a, (byte) 14); // 1.28 ms
    }

    static void allToSend(MemorySegment a) {
        ibv_qp_attr.timeout(a, (byte) 14); // 67 ms
        ibv_qp_attr.retry_cnt(a, (byte) 3);
        ibv_qp_attr.rnr_retry(a, (byte) 2);
    }

    static void trafficClass(MemorySegment a, int value) {
        ibv_global_route.traffic_class(ibv_ah_attr.grh(ibv_qp_attr.ah_attr(a)), (byte) value);
    }

    /** The bytes of a step: those of another, changed. */
    static byte[] changed(byte[] bytes, Consumer<MemorySegment> change) {
        byte[] copy = bytes.clone();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment a = ibv_qp_attr.allocate(arena);
            MemorySegment.copy(copy, 0, a, ValueLayout.JAVA_BYTE, 0, copy.length);
            change.accept(a);
            return a.toArray(ValueLayout.JAVA_BYTE);
        }
    }

    static byte[] made(Consumer<MemorySegment> change) {
        return changed(new byte[(int) ibv_qp_attr.sizeof()], change);
    }
}
