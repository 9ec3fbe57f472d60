package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import dev.verbena.Until;
import dev.verbena.trust.Footprint;
import dev.verbena.trust.Trust;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Connections and messages over a fabric that does not exist leave nothing behind. {@link
 * ConnectionLeaksTest} starts it.
 */
final class LeaksOnFakeFabric {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int CONNECTIONS = Trust.size(200, 10_000);
    private static final int MESSAGES = Trust.size(100_000, 10_000_000) / CONNECTIONS; // of each
    private static final MemorySegment MESSAGE = MemorySegment.ofArray(new byte[20]);
    private static final MemorySegment NOT_INLINE = MemorySegment.ofArray(new byte[2000]);

    // The JVM itself grows by some MiB: by more than the connections of the part of each CI run
    // take.
    private static final long MOST_KIBIBYTES = Trust.WHOLE ? 16 << 10 : Long.MAX_VALUE;

    /** KiB: 8 or 1.6 bytes of each message, 4 or 1.6 KiB of each connection. */
    private static final long MOST_HEAP = Trust.size(800, 16 << 10);

    private final AtomicLong received = new AtomicLong();

    /** Takes no arguments. */
    public static void main(String[] arguments) throws Exception {
        System.exit(new LeaksOnFakeFabric().run() ? 0 : 1);
    }

    private boolean run() throws Exception {
        Trust.Row row = Trust.row("leaks, connections on a fake device");
        try (FakeFabric fabric = new FakeFabric();
                Poller far = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller near = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                far,
                                port(7472),
                                MessagingOptions.DEFAULTS,
                                9,
                                (channel, message) -> received.incrementAndGet(),
                                channel -> {})) {
            use(
                    fabric,
                    near,
                    server,
                    CONNECTIONS / 4); // classes, code and pools are there after that
            int objects = fabric.device.objects();
            Footprint before = Footprint.now();
            received.set(0);
            use(fabric, near, server, CONNECTIONS);
            // A thread of callbacks goes after some idle seconds.
            Until.holds(() -> Footprint.liveThreads() <= before.threads());
            Footprint after = Footprint.now();
            int leaks = after.leaks(before, MOST_KIBIBYTES, MOST_HEAP);
            leaks += fabric.device.objects() - objects;
            long sent = (long) CONNECTIONS * MESSAGES;
            row.requests(CONNECTIONS).messages(sent).losses(sent - received.get()).leaks(leaks);
            row.write();
            System.out.printf("before: %s, after: %s%n", before, after);
            return leaks == 0 && received.get() == sent;
        }
    }

    private void use(FakeFabric fabric, Poller poller, MessageServer server, int connections)
            throws Exception {
        for (int i = 0; i < connections; i++) {
            long all = received.get() + MESSAGES;
            try (MessageChannel channel =
                    MessageChannel.connect(
                            poller, server.localAddress(), MessagingOptions.DEFAULTS, null)) {
                for (int message = 0; message < MESSAGES; message++) {
                    channel.send(message % 100 == 0 ? NOT_INLINE : MESSAGE, LONG);
                }
                Until.holds(() -> received.get() == all);
            }
            // A queue pair is destroyed after its channel has ended; both pollers share receives.
            Until.holds(() -> server.channelCount() == 0 && fabric.device.queues() == 2);
            fabric.forgetNotes();
        }
    }
}
