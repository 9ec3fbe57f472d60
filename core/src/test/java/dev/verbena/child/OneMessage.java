package dev.verbena.child;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.internal.verbs.FakeDevice;

import java.time.Duration;

/** Registers, connects, sends, waits, and has a post refused and a request failed. */
public final class OneMessage {
    private OneMessage() {}

    public static void main(String[] arguments) {
        FakeDevice device = new FakeDevice();
        QueuePairLimits limits = QueuePairLimits.depths(4, 4);
        try (Adapter adapter = FakeAdapters.open(device);
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createCompletionQueue(32);
                QueuePair a = domain.createQueuePair(queue, queue, limits);
                QueuePair b = domain.createQueuePair(queue, queue, limits);
                MemoryRegion memory = domain.allocate(64, Access.LOCAL_WRITE)) {
            BufferList bytes = new BufferList(1).add(memory, 0, 8);
            a.connect(b.address());
            b.connect(a.address());
            b.receive(1, bytes).orThrow();
            boolean fired = queue.arm(NotifyType.ANY);
            a.send(2, bytes).orThrow();
            device.run();
            Status status = queue.await(Duration.ofSeconds(30));
            Completions completions = new Completions(8);
            int count = queue.poll(completions);
            Status refused = a.write(3, bytes, 0, 0, OpFlags.ALLOW_REMOTE_READ).status();
            a.send(4, bytes).orThrow(); // the peer has no receive
            count += queue.poll(completions);
            System.out.println(
                    "%s %s, %d completions, %s, %s"
                            .formatted(fired, status, count, refused.name(), a.state()));
        }
    }
}
