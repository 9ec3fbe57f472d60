package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.TimeUnit;

/**
 * How long a JVM takes from its start to the first message that has arrived, stage by stage: each
 * line is the time since {@code main} began, the last that since the process began, which the
 * kernel knows in steps of 10 ms.
 */
public final class FirstMessage {
    private static final int BYTES = 64;
    private static final long DEADLINE = TimeUnit.SECONDS.toNanos(60);
    private static final String[] STAGES = {
        "opened", "registered", "connected", "sent", "completed"
    };

    private FirstMessage() {}

    /**
     * Sends the message.
     *
     * @param arguments the device to send from, and the one to send to; one alone is connected to
     *     itself
     */
    public static void main(String[] arguments) {
        long main = System.nanoTime();
        Instant mainAt = Instant.now();
        if (arguments.length < 1 || arguments.length > 2) {
            throw new IllegalArgumentException("usage: FirstMessage DEVICE [DEVICE]");
        }
        long[] reached = new long[STAGES.length];
        try (Arena arena = Arena.ofShared();
                Adapter sending = Adapter.open(arguments[0]);
                Adapter receiving = Adapter.open(arguments[arguments.length - 1])) {
            reached[0] = System.nanoTime();
            try (ProtectionDomain sendingDomain = sending.createProtectionDomain();
                    ProtectionDomain receivingDomain = receiving.createProtectionDomain();
                    MemoryRegion source = sendingDomain.register(arena.allocate(BYTES));
                    MemoryRegion target =
                            receivingDomain.register(arena.allocate(BYTES), Access.LOCAL_WRITE)) {
                reached[1] = System.nanoTime();
                try (CompletionQueue sent = sending.createConfinedCompletionQueue(2);
                        CompletionQueue received = receiving.createConfinedCompletionQueue(2);
                        QueuePair sender =
                                sendingDomain.createQueuePair(
                                        sent, sent, QueuePairLimits.depths(1, 1));
                        QueuePair receiver =
                                receivingDomain.createQueuePair(
                                        received, received, QueuePairLimits.depths(1, 1))) {
                    sender.connect(receiver.address());
                    receiver.connect(sender.address());
                    succeed(receiver.receive(2, new BufferList(1).add(target, 0, BYTES)).status());
                    reached[2] = System.nanoTime();
                    succeed(
                            sender.send(1, new BufferList(1).add(source, 0, BYTES), OpFlags.NONE)
                                    .status());
                    reached[3] = System.nanoTime();
                    Completions completions = new Completions(1);
                    await(received, completions);
                    await(sent, completions);
                    reached[4] = System.nanoTime();
                }
            }
        }
        for (int i = 0; i < STAGES.length; i++) {
            Results.print("first-message", STAGES[i], (reached[i] - main) / 1e6, "ms");
        }
        Duration before =
                Duration.between(
                        ProcessHandle.current().info().startInstant().orElseThrow(), mainAt);
        Results.print("first-message", "start to main", before.toNanos() / 1e6, "ms");
        Results.print(
                "first-message",
                "start to completed",
                (before.toNanos() + reached[4] - main) / 1e6,
                "ms");
    }

    private static void await(CompletionQueue queue, Completions completions) {
        long deadline = System.nanoTime() + DEADLINE;
        while (queue.poll(completions) == 0) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("No completion in time in " + queue);
            }
            Thread.onSpinWait();
        }
        succeed(completions.status(0));
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
