package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.Status;
import dev.verbena.internal.verbs.Provider;

/**
 * {@code enum ibv_wc_status} as NDK says it. NDK fixes SUCCESS and CANCELLED; the others follow
 * NetworkDirect's table and tests.
 */
public final class CompletionStatus {
    /**
     * The status that the library gives a request whose completion the device has lost. No value of
     * {@code enum ibv_wc_status} is as high.
     */
    public static final int LOST = 0xFF;

    private static final String[] NAMES = {
        "SUCCESS",
        "LOC_LEN_ERR",
        "LOC_QP_OP_ERR",
        "LOC_EEC_OP_ERR",
        "LOC_PROT_ERR",
        "WR_FLUSH_ERR",
        "MW_BIND_ERR",
        "BAD_RESP_ERR",
        "LOC_ACCESS_ERR",
        "REM_INV_REQ_ERR",
        "REM_ACCESS_ERR",
        "REM_OP_ERR",
        "RETRY_EXC_ERR",
        "RNR_RETRY_EXC_ERR",
        "LOC_RDD_VIOL_ERR",
        "REM_INV_RD_REQ_ERR",
        "REM_ABORT_ERR",
        "INV_EECN_ERR",
        "INV_EEC_STATE_ERR",
        "FATAL_ERR",
        "RESP_TIMEOUT_ERR",
        "GENERAL_ERR",
        "TM_ERR",
        "TM_RNDV_INCOMPLETE"
    };

    private CompletionStatus() {}

    /**
     * The status of a completion.
     *
     * @param raw the provider's, or {@link #LOST}
     * @param provider some of which say more, or less, than verbs asks for
     */
    public static Status of(int raw, OperationType type, Provider provider) {
        if (type.isReceive() && provider.isLocalError(raw)) {
            return Status.BUFFER_OVERFLOW;
        }
        if (type.isReceive() && provider.isBadTokenToInvalidate(raw)) {
            return Status.ACCESS_VIOLATION;
        }
        boolean sends = type == OperationType.SEND || type == OperationType.WRITE;
        return sends && provider.isLocalError(raw) ? Status.ACCESS_VIOLATION : of(raw, type);
    }

    public static Status of(int raw, OperationType type) {
        boolean receive = type.isReceive();
        return switch (raw) {
            case 0 -> Status.SUCCESS; // IBV_WC_SUCCESS
            case 1 -> receive ? Status.BUFFER_OVERFLOW : Status.DATA_OVERRUN; // LOC_LEN_ERR
            case 2 -> // LOC_QP_OP_ERR
                    type == OperationType.BIND || type == OperationType.INVALIDATE
                            ? Status.INVALID_DEVICE_REQUEST
                            : Status.INTERNAL_ERROR;
            case 4 -> Status.ACCESS_VIOLATION; // LOC_PROT_ERR
            case 5 -> Status.CANCELLED; // WR_FLUSH_ERR
            case 6 -> Status.ACCESS_VIOLATION; // MW_BIND_ERR
            case 8 -> Status.ACCESS_VIOLATION; // LOC_ACCESS_ERR
            // For the receiver a message that is too long and a bad token to invalidate look the
            // same.
            case 9 -> receive ? Status.BUFFER_OVERFLOW : Status.REMOTE_RESOURCES; // REM_INV_REQ_ERR
            case 10 -> Status.ACCESS_VIOLATION; // REM_ACCESS_ERR
            case LOST -> Status.BUFFER_OVERFLOW; // of the completion queue
            case 11 -> Status.REMOTE_RESOURCES; // REM_OP_ERR
            case 12, 13 -> Status.IO_TIMEOUT; // RETRY_EXC_ERR, RNR_RETRY_EXC_ERR
            default -> Status.INTERNAL_ERROR; // 7 BAD_RESP, 16 REM_ABORT, 19 to 21, and new ones
        };
    }

    /** The name of a provider's status in verbs, for messages. */
    public static String verbsName(int raw) {
        if (raw == LOST) {
            return "nothing: its completion was lost";
        }
        return raw >= 0 && raw < NAMES.length
                ? "IBV_WC_%s (%d)".formatted(NAMES[raw], raw)
                : "the ibv_wc_status %d".formatted(raw);
    }

    /** What usually leads to a status, as a sentence followed by a space, or "". */
    public static String usualCause(int raw, OperationType type) {
        return switch (raw) {
            case 4 -> "Local memory is not registered any more, or not for this access. ";
            case 5 -> "An earlier request failed, or the queue pair was flushed or closed. ";
            case 9, 11 ->
                    switch (type) {
                        case SEND ->
                                "Most often the message is longer than the peer's receive, or the token to invalidate is not the peer's. ";
                        case READ, COMPARE_AND_SWAP, FETCH_AND_ADD ->
                                "Most often the peer's queue pair does not accept reads or atomics (QueuePairLimits.withReads). ";
                        case RECEIVE, RECEIVE_AND_INVALIDATE, RECEIVE_OF_WRITE ->
                                "The message is longer than the receive, or invalidates a token that is not of a bound window: that of a region cannot be invalidated. ";
                        default -> "";
                    };
            case 10 ->
                    "The peer's device refused it. In order of likelihood: the peer had revoked or invalidated the token; the range goes beyond the memory of the token; the token allows no such access (a read needs ALLOW_REMOTE_READ or REMOTE_READ, a write ALLOW_REMOTE_WRITE or REMOTE_WRITE); the peer's memory and queue pair are of different protection domains; the token is none of the peer's. The peer can tell them apart by its Flight Recorder events: dev.verbena.WindowBound has token, address and length, and dev.verbena.WindowInvalidated the end of a token. ";
            case 12 ->
                    "The peer did not acknowledge it: it or the network is gone, or its queue pair is. ";
            case 13 -> "The peer had no receive posted for it in time. ";
            default -> "";
        };
    }
}
