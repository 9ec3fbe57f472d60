package dev.verbena.trust;

import dev.verbena.OperationType;

/** What a {@link Side} sends to its peer or does with the peer's memory. */
enum Kind {
    SEND(OperationType.SEND, OperationType.RECEIVE),
    SEND_WITH_IMMEDIATE(OperationType.SEND, OperationType.RECEIVE),
    SEND_AND_INVALIDATE(OperationType.SEND, OperationType.RECEIVE_AND_INVALIDATE),
    WRITE(OperationType.WRITE, null),
    WRITE_WITH_IMMEDIATE(OperationType.WRITE, OperationType.RECEIVE_OF_WRITE),
    READ(OperationType.READ, null),
    FETCH_AND_ADD(OperationType.FETCH_AND_ADD, null),
    COMPARE_AND_SWAP(OperationType.COMPARE_AND_SWAP, null);

    static final Kind[] ALL = values();

    /** What a batch may repeat: the others need other tokens or values each time. */
    static final Kind[] OF_BATCHES = {
        SEND, SEND_WITH_IMMEDIATE, WRITE, WRITE_WITH_IMMEDIATE, READ, FETCH_AND_ADD
    };

    final OperationType type;
    final OperationType arrives; // null: the peer gets no completion

    Kind(OperationType type, OperationType arrives) {
        this.type = type;
        this.arrives = arrives;
    }

    boolean isMessage() {
        return arrives != null;
    }

    boolean hasImmediate() {
        return this == SEND_WITH_IMMEDIATE || this == WRITE_WITH_IMMEDIATE;
    }

    boolean isAtomic() {
        return this == FETCH_AND_ADD || this == COMPARE_AND_SWAP;
    }

    /** Whether it brings something from the peer instead of carrying something there. */
    boolean brings() {
        return this == READ || isAtomic();
    }
}
