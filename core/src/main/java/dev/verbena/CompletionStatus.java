package dev.verbena;

/**
 * {@code enum ibv_wc_status} as NDK says it. NDK fixes SUCCESS and CANCELLED; the others follow
 * NetworkDirect's table and tests.
 */
final class CompletionStatus {
    private CompletionStatus() {}

    static Status of(int raw, boolean receive) {
        return switch (raw) {
            case 0 -> Status.SUCCESS; // IBV_WC_SUCCESS
            // 2, LOC_QP_OP_ERR, is INTERNAL_ERROR below. On rxe a receive also ends in it when its
            // message did not fit or could not be written (seen on 6.1): not to be told apart.
            case 1 -> receive ? Status.BUFFER_OVERFLOW : Status.DATA_OVERRUN; // LOC_LEN_ERR
            case 4 -> Status.ACCESS_VIOLATION; // LOC_PROT_ERR
            case 5 -> Status.CANCELLED; // WR_FLUSH_ERR
            case 8 -> Status.ACCESS_VIOLATION; // LOC_ACCESS_ERR
            case 9 -> receive ? Status.BUFFER_OVERFLOW : Status.REMOTE_RESOURCES; // REM_INV_REQ_ERR
            case 10 -> Status.ACCESS_VIOLATION; // REM_ACCESS_ERR
            case 11 -> Status.REMOTE_RESOURCES; // REM_OP_ERR
            case 12, 13 -> Status.IO_TIMEOUT; // RETRY_EXC_ERR, RNR_RETRY_EXC_ERR
            default -> Status.INTERNAL_ERROR;
        };
    }
}
