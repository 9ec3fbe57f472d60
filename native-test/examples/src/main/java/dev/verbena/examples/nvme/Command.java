package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/**
 * The 64 bytes of a command: a copy, so that the receive it came in can be posted again while the
 * command is carried out.
 */
final class Command {
    static final int BYTES = 64;

    private static final int FLAGS = 1;
    private static final int FUSED_OR_DATA = 0xc3;
    private static final int BY_SGL = 0x40;
    private static final int ID = 2;
    private static final int NAMESPACE = 4; // or the type of a fabrics command
    private static final int DATA = 24;
    private static final int DWORD_10 = 40;

    private final MemorySegment at;
    private final DataPointer data;

    Command() {
        this(MemorySegment.ofArray(new byte[BYTES]));
    }

    /** For the initiator: a command in its own memory. */
    Command(MemorySegment at) {
        this.at = at;
        this.data = new DataPointer(at.asSlice(DATA, DataPointer.BYTES));
    }

    Command copyFrom(MemorySegment capsule) {
        MemorySegment.copy(capsule, 0, at, 0, BYTES);
        return this;
    }

    int opcode() {
        return Wire.get8(at, 0);
    }

    /** Not fused with another command, and with its data by SGL: what this target takes. */
    boolean isPlain() {
        return (Wire.get8(at, FLAGS) & FUSED_OR_DATA) == BY_SGL;
    }

    int id() {
        return Wire.get16(at, ID);
    }

    int namespace() {
        return Wire.get32(at, NAMESPACE);
    }

    int fabricsType() {
        return Wire.get8(at, NAMESPACE);
    }

    DataPointer data() {
        return data;
    }

    int dword(int number) {
        return Wire.get32(at, DWORD_10 + 4L * (number - 10));
    }

    /** Two dwords, the lower first. */
    long qword(int number) {
        return Wire.get64(at, DWORD_10 + 4L * (number - 10));
    }

    int get8(int offset) {
        return Wire.get8(at, offset);
    }

    int get16(int offset) {
        return Wire.get16(at, offset);
    }

    int get32(int offset) {
        return Wire.get32(at, offset);
    }

    /** The first block of reads, writes and write zeroes. */
    long firstBlock() {
        return qword(10);
    }

    /** How many blocks: 1 to 65,536. */
    int blocks() {
        return (dword(12) & 0xffff) + 1;
    }

    // ---- for the initiator

    Command begin(int opcode, int id, int namespace) {
        at.fill((byte) 0);
        Wire.put8(at, 0, opcode);
        Wire.put8(at, FLAGS, BY_SGL);
        Wire.put16(at, ID, id);
        Wire.put32(at, NAMESPACE, namespace);
        return withData(0, 0, 0);
    }

    Command with32(int offset, int value) {
        Wire.put32(at, offset, value);
        return this;
    }

    Command with64(int offset, long value) {
        Wire.put64(at, offset, value);
        return this;
    }

    Command withData(long address, int length, int key) {
        data.name(address, length, key);
        return this;
    }

    @Override
    public String toString() {
        return "command 0x%02x, id %d, namespace %d, %s"
                .formatted(opcode(), id(), namespace(), data);
    }
}
