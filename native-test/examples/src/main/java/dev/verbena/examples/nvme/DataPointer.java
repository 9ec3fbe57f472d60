package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/**
 * Where a command's data is: 16 bytes of the capsule (SGL descriptor 1).
 *
 * @param kind how it is named
 * @param address in the host's memory; of data in the capsule the offset behind the command
 * @param length in bytes
 * @param key the host's token (remote key) for this command's memory
 */
record DataPointer(Kind kind, long address, int length, int key) {
    private static final int TYPE_IN_CAPSULE = 0x01;
    private static final int TYPE_KEYED = 0x40;
    private static final int TYPE_KEYED_INVALIDATE = 0x4f;

    enum Kind {
        /** The command has no data. */
        NONE,
        /** By a key that stays valid. */
        KEYED,
        /** By a key that is valid for this command: the answer is to invalidate it. */
        KEYED_INVALIDATE,
        /** Behind the command. */
        IN_CAPSULE,
        /** Of a type that this target does not take. */
        UNKNOWN
    }

    static DataPointer read(MemorySegment at, long offset) {
        long address = Wire.get64(at, offset);
        int type = Wire.get8(at, offset + 15);
        if (type == TYPE_IN_CAPSULE) {
            return new DataPointer(Kind.IN_CAPSULE, address, Wire.get32(at, offset + 8), 0);
        }
        int length = Wire.get24(at, offset + 8);
        int key = Wire.get32(at, offset + 11);
        Kind kind =
                switch (type) {
                    case TYPE_KEYED_INVALIDATE -> length == 0 ? Kind.NONE : Kind.KEYED_INVALIDATE;
                    case TYPE_KEYED -> length == 0 ? Kind.NONE : Kind.KEYED;
                    default -> Kind.UNKNOWN;
                };
        return new DataPointer(kind, address, length, key);
    }

    /** For the initiator: memory that is a window of its own for this command. */
    static void writeKeyed(MemorySegment at, long offset, long address, int length, int key) {
        Wire.put64(at, offset, address);
        Wire.put24(at, offset + 8, length);
        Wire.put32(at, offset + 11, key);
        Wire.put8(at, offset + 15, length == 0 ? TYPE_KEYED : TYPE_KEYED_INVALIDATE);
    }
}
