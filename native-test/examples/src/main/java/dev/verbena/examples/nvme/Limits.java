package dev.verbena.examples.nvme;

/**
 * What the target grants each host.
 *
 * @param queues how many I/O queues a controller may have
 * @param commands how many commands each queue may have outstanding
 * @param inCapsuleBytes the longest data behind a command, on I/O queues
 * @param transferShift the longest transfer, as 4,096 bytes times a power of two (MDTS)
 */
record Limits(int queues, int commands, int inCapsuleBytes, int transferShift) {
    static final Limits DEFAULTS = new Limits(8, 128, 4096, 8);

    long transferBytes() {
        return 4096L << transferShift;
    }
}
