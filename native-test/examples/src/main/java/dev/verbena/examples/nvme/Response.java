package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/** The 16 bytes that answer a command. */
final class Response {
    static final int BYTES = 16;

    private Response() {}

    static void write(MemorySegment at, long result, int head, int queue, int command, int status) {
        Wire.put64(at, 0, result);
        Wire.put16(at, 8, head);
        Wire.put16(at, 10, queue);
        Wire.put16(at, 12, command);
        Wire.put16(at, 14, status << 1); // the lowest bit is for queues in memory
    }

    static long result(MemorySegment at) {
        return Wire.get64(at, 0);
    }

    static int command(MemorySegment at) {
        return Wire.get16(at, 12);
    }

    static int status(MemorySegment at) {
        return Wire.get16(at, 14) >>> 1;
    }
}
