package dev.verbena.trust;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;

/**
 * Registers memory and connects queue pairs again and again on the stand-in for libibverbs: memory,
 * descriptors and threads of the process return to where they were. {@link StandInTest} starts it.
 */
final class LeaksOnStandIn {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(8, 8);

    private LeaksOnStandIn() {}

    /** Arguments: how many registrations, queue pairs, and KiB that may be left; also of heap. */
    public static void main(String[] arguments) {
        int registrations = Integer.parseInt(arguments[0]);
        int queuePairs = Integer.parseInt(arguments[1]);
        long mostKibibytes = Long.parseLong(arguments[2]);
        long mostHeap = Long.parseLong(arguments[3]);
        Trust.Row row = Trust.row("leaks, stand-in").requests(queuePairs);
        use(registrations / 4, queuePairs / 4); // classes, code and pools are there after that
        Footprint before = Footprint.now();
        use(registrations, queuePairs);
        Footprint after = Footprint.now();
        int leaks = after.leaks(before, mostKibibytes, mostHeap);
        row.leaks(leaks).write();
        System.out.printf("before: %s, after: %s%n", before, after);
        System.exit(leaks > 0 ? 1 : 0);
    }

    private static void use(int registrations, int queuePairs) {
        int most = 1000; // for each adapter
        for (int left = Math.max(registrations, queuePairs); left > 0; left -= most) {
            try (Adapter adapter = Adapter.open("copy0");
                    ProtectionDomain domain = adapter.createProtectionDomain();
                    CompletionQueue queue = adapter.createCompletionQueue(64)) {
                for (int i = 0; i < most; i++) {
                    domain.allocate(4096, Access.REMOTE_WRITE).close();
                }
                int pairs = (int) ((long) most * queuePairs / registrations);
                for (int i = 0; i < pairs; i += 2) {
                    connect(domain, queue);
                }
            }
        }
    }

    /** Two queue pairs, a message, and their end. */
    private static void connect(ProtectionDomain domain, CompletionQueue queue) {
        try (MemoryRegion region = domain.allocate(64, Access.LOCAL_WRITE);
                QueuePair a = domain.createQueuePair(queue, queue, LIMITS);
                QueuePair b = domain.createQueuePair(queue, queue, LIMITS)) {
            a.connect(b.address());
            b.connect(a.address());
            BufferList buffers = new BufferList(1).add(region, 0, 64);
            b.receive(1, buffers).orThrow();
            b.receive(2, buffers).orThrow(); // is cancelled by the close
            a.send(3, buffers).orThrow();
            Completions completions = new Completions(4);
            if (queue.poll(completions) != 2) {
                throw new IllegalStateException("not two completions: " + completions);
            }
        }
        Completions completions = new Completions(4);
        while (queue.poll(completions) > 0) {
            continue;
        }
    }
}
