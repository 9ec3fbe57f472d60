package dev.verbena.nativetest;

import dev.verbena.Access;
import dev.verbena.BufferPoolOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.RegisteredArena;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.trust.Footprint;
import dev.verbena.trust.Trust;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * Takes all memory that this process may lock, and tries what needs some: each attempt fails with
 * the reason, and a channel that is open goes on meanwhile. The same succeeds when there is memory
 * again, and nothing is left locked. {@link FaultsTest} starts it.
 */
final class LittleLockedMemory {
    /** What its parent lets it lock. */
    static final int BYTES = 16 << 20;

    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static final int LARGE = 1 << 20;
    private static final MessagingOptions OPTIONS = FaultsTest.LONG.withMaxMessage(LARGE);

    private LittleLockedMemory() {}

    private interface Attempt {
        void run() throws Exception;
    }

    /** Takes no arguments. Prints what went wrong, as a list. */
    static void main() throws Exception {
        Trust.Row row = Trust.row("fault: locked memory runs out, devices");
        List<String> wrong = new ArrayList<>();
        int attempts;
        Footprint before;
        try (Sides sides = new Sides()) {
            before = Footprint.now();
            attempts = tryAll(sides, wrong);
        }
        // LargeMemory, slabs and shared receives were freed with their pollers.
        int leaks = Footprint.now().locked() > before.locked() ? 1 : 0;
        row.faults(attempts).losses(wrong.size()).leaks(leaks).write();
        if (leaks > 0) {
            wrong.add("locked: %s, before %s".formatted(Footprint.now(), before));
        }
        System.out.println(wrong);
    }

    private static int tryAll(Sides sides, List<String> wrong) throws Exception {
        int attempts = 0;
        try (MessageServer server = sides.listen(OPTIONS, 9, EchoProgram.ECHO, channel -> {});
                Poller poller = Poller.start(sides.here, IdleStrategy.events());
                ProtectionDomain domain = sides.here.createProtectionDomain();
                RegisteredArena arena = domain.createArena();
                MessageChannel works =
                        MessageChannel.connect(poller, server.localAddress(), OPTIONS, null)) {
            echo(works, 100);
            List<Attempt> all =
                    List.of(
                            () -> domain.allocate(LARGE, Access.LOCAL_WRITE).close(),
                            () -> arena.allocate(LARGE),
                            () -> domain.createBufferPool(BufferPoolOptions.of(4, LARGE)).close(),
                            () -> connect(sides, server),
                            () -> echo(works, LARGE));
            for (Attempt attempt : all) {
                Deque<MemoryRegion> taken = takeAll(domain);
                try {
                    attempt.run();
                    wrong.add("attempt %d succeeded without memory".formatted(attempts));
                } catch (VerbenaException e) {
                    if (!explains(e)) {
                        wrong.add("attempt %d: %s".formatted(attempts, e));
                    }
                }
                echo(works, 100);
                taken.forEach(MemoryRegion::close);
                attempt.run();
                attempts++;
            }
        }
        return attempts;
    }

    private static Deque<MemoryRegion> takeAll(ProtectionDomain domain) {
        Deque<MemoryRegion> taken = new ArrayDeque<>();
        for (int bytes = LARGE; bytes >= 4096; ) { // the last one is a page
            try {
                taken.push(domain.allocate(bytes, Access.LOCAL_WRITE));
            } catch (VerbenaException e) {
                bytes /= 2;
            }
        }
        return taken;
    }

    /** A poller of its own has no memory yet. */
    private static void connect(Sides sides, MessageServer server) throws InterruptedException {
        try (Poller poller = Poller.start(sides.here, IdleStrategy.events());
                MessageChannel channel =
                        MessageChannel.connect(poller, server.localAddress(), OPTIONS, null)) {
            echo(channel, 100);
        }
    }

    private static void echo(MessageChannel channel, int bytes) throws InterruptedException {
        byte[] sent = new byte[bytes];
        sent[bytes - 1] = (byte) bytes;
        channel.send(MemorySegment.ofArray(sent), TIMEOUT);
        try (Message back = channel.receive(TIMEOUT)) {
            if (back == null || back.data().mismatch(MemorySegment.ofArray(sent)) != -1) {
                throw new IllegalStateException("Came back on %s: %s".formatted(channel, back));
            }
        }
    }

    private static boolean explains(VerbenaException e) {
        if (e.status() != Status.INSUFFICIENT_RESOURCES) {
            return false;
        }
        for (Throwable one = e; one != null; one = one.getCause()) {
            if (one.getMessage()
                    .contains("may have %,d bytes in all (ulimit -l".formatted(BYTES))) {
                return true;
            }
        }
        return false;
    }
}
