package dev.verbena.examples.nvme;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.Inet6Address;
import java.util.List;

/**
 * The page of the discovery subsystem that lists all others: a header of 1,024 bytes, and as many
 * for each entry.
 */
final class DiscoveryLog {
    private static final int ENTRY_BYTES = 1024;
    private static final int RDMA = 1;
    private static final int IPV4 = 1;
    private static final int IPV6 = 2;
    private static final int NVM_SUBSYSTEM = 2;
    private static final int ADMIN_QUEUE_SIZE = 32;
    private static final int ANY_CONTROLLER = 0xffff;
    private static final int RDMA_RELIABLE_CONNECTED = 1;
    private static final int RDMA_NO_PROVIDER = 1;
    private static final int RDMA_CM = 1;

    private DiscoveryLog() {}

    /** Writes the part that begins at an offset; the rest of the page stays as it is. */
    static void write(MemorySegment page, long offset, Subsystems subsystems) {
        List<Subsystem> served = subsystems.served();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment log = arena.allocate((1L + served.size()) * ENTRY_BYTES);
            Wire.put64(log, 0, 1); // the number of the last change: it never changes
            Wire.put64(log, 8, served.size());
            for (int i = 0; i < served.size(); i++) {
                entry(log.asSlice((i + 1L) * ENTRY_BYTES, ENTRY_BYTES), served.get(i), subsystems);
            }
            if (offset < log.byteSize()) {
                long length = Math.min(page.byteSize(), log.byteSize() - offset);
                MemorySegment.copy(log, offset, page, 0, length);
            }
        }
    }

    private static void entry(MemorySegment at, Subsystem subsystem, Subsystems subsystems) {
        Wire.put8(at, 0, RDMA);
        boolean six = subsystems.address().getAddress() instanceof Inet6Address;
        Wire.put8(at, 1, six ? IPV6 : IPV4);
        Wire.put8(at, 2, NVM_SUBSYSTEM);
        Wire.put16(at, 4, 1); // the port's number
        Wire.put16(at, 6, ANY_CONTROLLER);
        Wire.put16(at, 8, ADMIN_QUEUE_SIZE);
        Wire.putText(at, 32, 32, "" + subsystems.address().getPort(), ' ');
        Wire.putText(at, 256, 256, subsystem.name(), '\0');
        String address = subsystems.address().getAddress().getHostAddress();
        Wire.putText(at, 512, 256, address, ' ');
        Wire.put8(at, 768, RDMA_RELIABLE_CONNECTED);
        Wire.put8(at, 769, RDMA_NO_PROVIDER);
        Wire.put8(at, 770, RDMA_CM);
    }
}
