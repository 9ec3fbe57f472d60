package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/**
 * Where a command's data is: 16 bytes of the command (SGL descriptor 1). Reads and writes them in
 * place.
 */
final class DataPointer {
    static final int BYTES = 16;

    private static final int ADDRESS = 0;
    private static final int LENGTH = 8; // 4 bytes of data in the capsule, otherwise 3
    private static final int KEY = 11;
    private static final int TYPE = 15;

    private static final int TYPE_IN_CAPSULE = 0x01;
    private static final int TYPE_KEYED = 0x40;
    private static final int TYPE_KEYED_INVALIDATE = 0x4f;

    /** How the data is named. */
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

    private final MemorySegment at;

    DataPointer(MemorySegment at) {
        this.at = at;
    }

    Kind kind() {
        return switch (Wire.get8(at, TYPE)) {
            case TYPE_IN_CAPSULE -> Kind.IN_CAPSULE;
            case TYPE_KEYED_INVALIDATE -> length() == 0 ? Kind.NONE : Kind.KEYED_INVALIDATE;
            case TYPE_KEYED -> length() == 0 ? Kind.NONE : Kind.KEYED;
            default -> Kind.UNKNOWN;
        };
    }

    /** In the host's memory; of data in the capsule the offset behind the command. */
    long address() {
        return Wire.get64(at, ADDRESS);
    }

    /** In bytes. */
    int length() {
        return Wire.get8(at, TYPE) == TYPE_IN_CAPSULE
                ? Wire.get32(at, LENGTH)
                : Wire.get24(at, LENGTH);
    }

    /** The host's token (remote key) for this command's memory; of keyed data only. */
    int key() {
        return Wire.get32(at, KEY);
    }

    /** For the initiator: memory that has a window of its own for this command; or no data. */
    void name(long address, int length, int key) {
        Wire.put64(at, ADDRESS, address);
        Wire.put24(at, LENGTH, length);
        Wire.put32(at, KEY, key);
        Wire.put8(at, TYPE, length == 0 ? TYPE_KEYED : TYPE_KEYED_INVALIDATE);
    }

    @Override
    public String toString() {
        return "%d bytes at 0x%x (%s)".formatted(length(), address(), kind());
    }
}
