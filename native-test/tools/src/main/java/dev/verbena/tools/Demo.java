package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.Port;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

import java.io.PrintWriter;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/**
 * Sends 64 KiB from one RDMA device to another and prints each step. {@code ci/roce demo} runs it.
 *
 * <p>It uses the first two devices whose link is up, or one of them twice when there is only one.
 */
@Command(
        name = "demo",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description =
                "Sends one message of 64 KiB between the first two devices here whose link is up, or"
                        + " from one device to itself, and prints each step.")
final class Demo implements Callable<Integer> {
    private static final int BYTES = 64 * 1024;
    private static final long DEADLINE = TimeUnit.SECONDS.toNanos(30);

    @Spec private CommandSpec spec;

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        List<String> names = Adapter.names();
        out.printf("RDMA devices here: %s%n", names.isEmpty() ? "none" : String.join(", ", names));
        List<String> active = Adapter.activeNames();
        if (active.isEmpty()) {
            String none = Adapter.whyNone();
            throw new ToolFailure(
                    "%s. The demo needs one whose link is up; \"ci/roce demo\" creates two Soft-RoCE devices",
                    none.isEmpty() ? "The links of all are down" : none);
        }
        try (Adapter sending = Adapter.open(active.getFirst());
                Adapter receiving = Adapter.open(active.get(Math.min(1, active.size() - 1)))) {
            sendOneMessage(out, sending, receiving);
        }
        return 0;
    }

    private static void sendOneMessage(PrintWriter out, Adapter sending, Adapter receiving) {
        describe(out, "sender", sending);
        describe(out, "receiver", receiving);
        try (ProtectionDomain sendingDomain = sending.createProtectionDomain();
                ProtectionDomain receivingDomain = receiving.createProtectionDomain();
                CompletionQueue sent = sending.createConfinedCompletionQueue(2);
                CompletionQueue received = receiving.createConfinedCompletionQueue(2);
                QueuePair sender =
                        sendingDomain.createQueuePair(sent, sent, QueuePairLimits.depths(1, 1));
                QueuePair receiver =
                        receivingDomain.createQueuePair(
                                received, received, QueuePairLimits.depths(1, 1));
                MemoryRegion source = sendingDomain.allocate(BYTES);
                MemoryRegion target = receivingDomain.allocate(BYTES, Access.LOCAL_WRITE)) {
            out.printf(
                    "Registered %,d bytes of off-heap memory on each: the local keys are 0x%08x and 0x%08x%n",
                    BYTES, source.localToken(), target.localToken());

            sender.connect(receiver.address());
            receiver.connect(sender.address());
            out.printf(
                    "Connected %s of %s to %s of %s%n",
                    sender, sending.name(), receiver, receiving.name());

            fill(source.memory());
            post(out, receiving, "receive", receiver.receive(2, whole(target)).status());
            long start = System.nanoTime();
            post(out, sending, "send", sender.send(1, whole(source)).status());

            Completions completions = new Completions(1);
            Completions ofSend = new Completions(1);
            boolean ended = false;
            long deadline = start + DEADLINE;
            while (received.poll(completions) == 0) {
                ended = ended || hasEnded(sent, ofSend); // a failure says more than silence
                checkDeadline(deadline, receiving);
            }
            completions.orThrow(0);
            long micros = (System.nanoTime() - start) / 1_000;
            out.printf(
                    "%s received %,d bytes after %,d us%n",
                    receiving.name(), completions.bytes(0), micros);
            long got = completions.bytes(0);
            while (!ended) {
                ended = hasEnded(sent, ofSend);
                checkDeadline(deadline, sending);
            }
            out.printf("The send of %s is complete%n", sending.name());

            long difference = source.memory().mismatch(target.memory());
            if (got != BYTES) {
                throw new ToolFailure("Only %,d of %,d bytes arrived", got, BYTES);
            }
            if (difference != -1) {
                throw new ToolFailure(
                        "The data that arrived differs from the data sent, from byte %,d on",
                        difference);
            }
            out.printf("All %,d bytes arrived as they were sent.%n", BYTES);
        }
    }

    private static void describe(PrintWriter out, String role, Adapter adapter) {
        Port port = adapter.ports().stream().filter(Port::active).findFirst().orElseThrow();
        out.printf(
                "%-9s %s, port %d, %s, MTU %d%s%n",
                role + ":",
                adapter.name(),
                port.number(),
                port.linkLayer(),
                port.mtuBytes(),
                port.linkLayer() == Port.LinkLayer.ETHERNET
                        ? ", GID " + port.preferredGid()
                        : ", LID " + port.lid());
    }

    private static void fill(MemorySegment memory) {
        // No two of its 32-bit words are equal, so a lost, doubled or moved packet shows.
        for (long i = 0; i < memory.byteSize() / Integer.BYTES; i++) {
            memory.setAtIndex(ValueLayout.JAVA_INT, i, (int) (i * 0x9E3779B1L));
        }
    }

    private static BufferList whole(MemoryRegion region) {
        return new BufferList(1).add(region, 0, region.memory().byteSize());
    }

    private static void post(PrintWriter out, Adapter adapter, String what, Status status) {
        status.orThrow();
        out.printf("%s posted a %s of %,d bytes%n", adapter.name(), what, BYTES);
    }

    private static boolean hasEnded(CompletionQueue queue, Completions completions) {
        if (queue.poll(completions) == 0) {
            return false;
        }
        completions.orThrow(0);
        return true;
    }

    private static void checkDeadline(long deadline, Adapter adapter) {
        if (System.nanoTime() - deadline > 0) {
            throw new ToolFailure("No completion arrived on %s within 30 s", adapter.name());
        }
        Thread.onSpinWait();
    }
}
