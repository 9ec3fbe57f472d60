package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/**
 * A host's request for a queue: the private data of its connection request. Also has the private
 * data of the target's reply, which accepts or refuses.
 *
 * @param id 0 for the admin queue
 * @param receives how many responses the host takes at once (HRQSIZE)
 * @param size how many commands the host may have outstanding (HSQSIZE)
 */
record QueueRequest(int id, int receives, int size) {
    static final int BYTES = 32;

    /** Why a queue is refused. The host prints the code. */
    enum Refusal {
        INVALID_LENGTH(1),
        INVALID_FORMAT(2),
        INVALID_QUEUE_ID(3),
        INVALID_SUBMISSION_SIZE(4),
        INVALID_RECEIVE_SIZE(5),
        NO_RESOURCES(6);

        private final int code;

        Refusal(int code) {
            this.code = code;
        }

        byte[] toBytes() {
            byte[] bytes = new byte[4];
            Wire.put16(MemorySegment.ofArray(bytes), 2, code);
            return bytes;
        }

        static String describe(byte[] privateData) {
            if (privateData.length >= 4) {
                int code = Wire.get16(MemorySegment.ofArray(privateData), 2);
                for (Refusal refusal : values()) {
                    if (refusal.code == code) {
                        return refusal.name();
                    }
                }
            }
            return "no reason";
        }
    }

    /** The host's request cannot be served. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;
        private final Refusal refusal;

        Refused(Refusal refusal) {
            super("the queue is refused: " + refusal);
            this.refusal = refusal;
        }

        Refusal refusal() {
            return refusal;
        }
    }

    /** Reads a request. The transport may have padded it with zeros. */
    static QueueRequest read(byte[] privateData, int mostQueues, int mostCommands) throws Refused {
        if (privateData.length < BYTES) {
            throw new Refused(Refusal.INVALID_LENGTH);
        }
        MemorySegment at = MemorySegment.ofArray(privateData);
        if (Wire.get16(at, 0) != 0) {
            throw new Refused(Refusal.INVALID_FORMAT);
        }
        QueueRequest request =
                new QueueRequest(Wire.get16(at, 2), Wire.get16(at, 4), Wire.get16(at, 6) + 1);
        if (request.id > mostQueues) {
            throw new Refused(Refusal.INVALID_QUEUE_ID);
        }
        if (request.size < 2 || request.size > mostCommands) {
            throw new Refused(Refusal.INVALID_SUBMISSION_SIZE);
        }
        if (request.receives < request.size - 1) {
            throw new Refused(Refusal.INVALID_RECEIVE_SIZE);
        }
        return request;
    }

    /** The private data of the answer that accepts the queue. */
    byte[] acceptance() {
        byte[] bytes = new byte[BYTES];
        Wire.put16(MemorySegment.ofArray(bytes), 2, size);
        return bytes;
    }

    byte[] toBytes() {
        byte[] bytes = new byte[BYTES];
        MemorySegment at = MemorySegment.ofArray(bytes);
        Wire.put16(at, 2, id);
        Wire.put16(at, 4, receives);
        Wire.put16(at, 6, size - 1);
        return bytes;
    }
}
