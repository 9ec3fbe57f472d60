package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.UUID;

/**
 * The pages that Identify returns. Each number is the offset of a field in the NVMe base
 * specification, whose name stands beside it.
 */
final class Identify {
    private static final int NGUID_BYTES = 16;
    private static final int NGUID_TYPE = 2;
    private static final int NVM_CONTROLLER = 1;
    private static final int DISCOVERY_CONTROLLER = 2;
    private static final int CAPSULE_UNIT = 16;
    private static final int SGL_SUPPORTED = 1 | 1 << 2 | 1 << 20; // keyed, and in the capsule

    private Identify() {}

    static void controller(MemorySegment page, Controller controller) {
        Subsystem subsystem = controller.subsystem();
        Limits limits = controller.limits();
        boolean discovery = subsystem.isDiscovery();
        String serial = "%016x".formatted(id(subsystem.name()).getMostSignificantBits());
        Wire.putText(page, 4, 20, serial, ' '); // SN
        Wire.putText(page, 24, 40, "Verbena", ' '); // MN
        Wire.putText(page, 64, 8, "1", ' '); // FR
        Wire.put8(page, 76, 1 << 1); // CMIC: other hosts have controllers, too
        Wire.put8(page, 77, limits.transferShift()); // MDTS
        Wire.put16(page, 78, controller.id()); // CNTLID
        Wire.put32(page, 80, Controller.VERSION_1_3); // VER
        Wire.put8(page, 111, discovery ? DISCOVERY_CONTROLLER : NVM_CONTROLLER); // CNTRLTYPE
        Wire.put8(page, 258, 3); // ACL: aborts at a time, less 1
        Wire.put8(page, 259, Controller.MOST_ASYNC_EVENTS - 1); // AERL
        Wire.put8(page, 261, 1 << 2); // LPA: log pages may be read from an offset on
        Wire.put16(page, 320, 10); // KAS: the unit of keep-alives, 1 s
        Wire.put16(page, 514, limits.commands()); // MAXCMD
        if (!discovery) {
            Wire.put8(page, 512, 0x66); // SQES: commands of 2^6 bytes
            Wire.put8(page, 513, 0x44); // CQES: answers of 2^4 bytes
            Wire.put32(page, 516, subsystem.namespaces().size()); // NN
            Wire.put16(page, 520, 1 << 2 | 1 << 3); // ONCS: dataset management, write zeroes
            Wire.put8(page, 525, subsystem.hasCache() ? 1 : 0); // VWC
        }
        Wire.put32(page, 536, SGL_SUPPORTED); // SGLS
        Wire.putText(page, 768, 256, subsystem.name(), '\0'); // SUBNQN
        Wire.put32(
                page,
                1792,
                (Command.BYTES + (discovery ? 0 : limits.inCapsuleBytes()))
                        / CAPSULE_UNIT); // IOCCSZ
        Wire.put32(page, 1796, Response.BYTES / CAPSULE_UNIT); // IORCSZ
        Wire.put8(page, 1803, 1); // MSDBD: one descriptor for each command
    }

    static void namespace(MemorySegment page, Namespace disk) {
        Wire.put64(page, 0, disk.blocks()); // NSZE
        Wire.put64(page, 8, disk.blocks()); // NCAP
        Wire.put64(page, 16, disk.blocks()); // NUSE
        Wire.put8(page, 30, 1); // NMIC: other controllers have it, too
        Wire.put8(page, 33, 1); // DLFEAT: deallocated blocks read as zeros
        putId(page, 104, disk.id()); // NGUID
        Wire.put8(page, 130, Namespace.BLOCK_SHIFT); // LBADS of format 0
    }

    /** The numbers above a given one. */
    static void namespaceList(MemorySegment page, Subsystem subsystem, int above) {
        int entries = 0;
        for (int number = 1; number <= subsystem.namespaces().size(); number++) {
            if (Integer.compareUnsigned(number, above) > 0 && entries < Exchange.PAGE_BYTES / 4) {
                Wire.put32(page, 4L * entries++, number);
            }
        }
    }

    static void descriptors(MemorySegment page, Namespace disk) {
        Wire.put8(page, 0, NGUID_TYPE);
        Wire.put8(page, 1, NGUID_BYTES);
        putId(page, 4, disk.id());
    }

    private static void putId(MemorySegment page, long offset, UUID id) {
        MemorySegment bytes =
                MemorySegment.ofArray(
                        ByteBuffer.allocate(NGUID_BYTES)
                                .putLong(id.getMostSignificantBits())
                                .putLong(id.getLeastSignificantBits())
                                .array());
        MemorySegment.copy(bytes, 0, page, offset, NGUID_BYTES);
    }

    private static UUID id(String name) {
        return UUID.nameUUIDFromBytes(name.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }
}
