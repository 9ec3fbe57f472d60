package dev.verbena.examples.nvme;

/**
 * How a command ends: code, type &lt;&lt; 8, and 0x4000 where the host need not try again. The
 * names are those of the NVMe base and fabrics specifications.
 */
enum NvmeStatus {
    SUCCESS(0),
    INVALID_OPCODE(0x4001),
    INVALID_FIELD(0x4002),
    INTERNAL_ERROR(0x0006),
    ABORT_REQUESTED(0x0007),
    INVALID_NAMESPACE(0x400b),
    COMMAND_SEQUENCE_ERROR(0x400c),
    DATA_LENGTH_INVALID(0x400f),
    SGL_TYPE_INVALID(0x4011),
    SGL_OFFSET_INVALID(0x4016),
    LBA_OUT_OF_RANGE(0x4080),
    ASYNC_EVENT_LIMIT(0x4105),
    INVALID_LOG_PAGE(0x4109),
    CONNECT_INCOMPATIBLE_FORMAT(0x4180),
    CONNECT_INVALID_PARAMETERS(0x4182);

    private final int value;

    NvmeStatus(int value) {
        this.value = value;
    }

    int value() {
        return value;
    }

    static String describe(int value) {
        for (NvmeStatus status : values()) {
            if ((status.value & 0x7ff) == (value & 0x7ff)) {
                return status.name();
            }
        }
        return "status 0x%x".formatted(value);
    }
}
