package dev.verbena;

/** What a completion is the end of: NDK_OPERATION_TYPE. */
public enum OperationType {
    /** A receive. */
    RECEIVE(0x0001),
    /** A send. */
    SEND(0x0002);

    private final int value;

    OperationType(int value) {
        this.value = value;
    }

    /**
     * NDK's value.
     *
     * @return as in NDK_OPERATION_TYPE
     */
    public int value() {
        return value;
    }
}
