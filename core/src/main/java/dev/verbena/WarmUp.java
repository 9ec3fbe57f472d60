package dev.verbena;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Prepares a JVM that has just started for its first connection.
 *
 * <p>The first connection of a JVM loads and links classes and native functions, and its first
 * messages run in the interpreter: it takes ten to a hundred times as long as the second. A program
 * whose peers have little time for a step (Linux' NVMe initiator waits 3 s), or that measures,
 * should run this once after it has opened an adapter, and then listen or connect:
 *
 * <pre>{@code
 * WarmUp.run(adapter, Duration.ofSeconds(2));
 * Listener listener = adapter.listen(address, 0, this::serve);
 * }</pre>
 *
 * <p>It connects the device to itself, by its IP address where it has one, sends small messages,
 * and closes everything that it created. It does not replace an ahead-of-time cache of the JVM,
 * which makes the start itself shorter.
 */
public final class WarmUp {
    private static final int BYTES = 64;
    private static final int DEPTH = 16;

    /** Several times as many as the first compiler waits for. */
    private static final int MESSAGES = 1_000;

    private final Adapter adapter;
    private final byte[] secret =
            ByteBuffer.allocate(Long.BYTES).putLong(ThreadLocalRandom.current().nextLong()).array();
    private final long deadline;
    private final ConnectionOptions options;
    private final CompletableFuture<@Nullable Connector> accepted = new CompletableFuture<>();

    private WarmUp(Adapter adapter, Duration limit) {
        this.adapter = Arguments.notNull(adapter, "adapter");
        this.deadline =
                System.nanoTime() + TimeUnit.NANOSECONDS.convert(Arguments.notNull(limit, "limit"));
        this.options = ConnectionOptions.DEFAULTS.withDeadline(limit).withPrivateData(secret);
    }

    /**
     * Connects a device to itself, sends messages, and disconnects; blocks meanwhile. Never changes
     * the adapter. For a moment it listens on a port of the system's choice, where it rejects other
     * peers.
     *
     * @param adapter the device, with a port whose link is up
     * @param limit when to stop sending, and the deadline of each step of the connection
     * @return whether messages were sent; false if the device cannot be connected to itself or a
     *     step failed, although much is warm even then
     * @throws IllegalArgumentException if the limit is not positive
     * @throws IllegalStateException if the adapter is closed
     */
    public static boolean run(Adapter adapter, Duration limit) {
        return new WarmUp(adapter, limit).run();
    }

    private boolean run() {
        try (ProtectionDomain domain = adapter.createProtectionDomain();
                MemoryRegion region = domain.allocate(BYTES, Access.LOCAL_WRITE);
                CompletionQueue queue = adapter.createCompletionQueue(2 * DEPTH);
                QueuePair here = queuePair(domain, queue);
                QueuePair there = queuePair(domain, queue)) {
            BufferList buffers = new BufferList(1).add(region, 0, BYTES);
            InetAddress address = address();
            if (address == null) {
                here.connect(there.address());
                there.connect(here.address());
                return send(here, there, queue, buffers);
            }
            return connectAndSend(new InetSocketAddress(address, 0), here, there, queue, buffers);
        } catch (VerbenaException e) {
            return false; // the same failure will surface in the program's own call
        }
    }

    private static QueuePair queuePair(ProtectionDomain domain, CompletionQueue queue) {
        return domain.createQueuePair(queue, queue, QueuePairLimits.depths(DEPTH, DEPTH));
    }

    /** The IP address for connections of this device; null if it has none. */
    private @Nullable InetAddress address() {
        Port.GidEntry entry = adapter.gid().gid();
        return entry.type() == Port.GidType.ROCE_V2 && !entry.gid().isLinkLocal()
                ? entry.gid().toInetAddress()
                : null;
    }

    private boolean connectAndSend(
            InetSocketAddress address,
            QueuePair here,
            QueuePair there,
            CompletionQueue queue,
            BufferList buffers) {
        try (Listener listener = adapter.listen(address, 0, request -> answer(request, there));
                Connector connector = adapter.createConnector()) {
            connector.connect(here, listener.localAddress(), options.withLocalAddress(address));
            connector.completeConnect(options);
            boolean sent = send(here, there, queue, buffers);
            connector.disconnect(options);
            return sent;
        } finally {
            if (!accepted.complete(null)) { // else a late request is refused
                Objects.requireNonNull(accepted.join()).close();
            }
        }
    }

    private void answer(Connector request, QueuePair there) {
        if (!Arrays.equals(request.connectionData().privateData(), secret)
                || !accepted.complete(request)) {
            request.close(); // refuses it
            return;
        }
        try {
            var ignored = request.acceptAsync(there, options); // a failure is the other side's, too
        } catch (VerbenaException | IllegalStateException e) {
            return; // over meanwhile, and closed
        }
    }

    /** Sends messages one after the other until the deadline. Returns whether any was received. */
    private boolean send(
            QueuePair here, QueuePair there, CompletionQueue queue, BufferList buffers) {
        Completions completions = new Completions(2);
        int sent = 0;
        while (sent < MESSAGES
                && System.nanoTime() - deadline < 0
                && there.receive(sent, buffers).isAccepted()
                && here.send(sent, buffers, OpFlags.NONE).isAccepted()
                && bothEnded(queue, completions)) {
            sent++;
        }
        return sent > 0;
    }

    private boolean bothEnded(CompletionQueue queue, Completions completions) {
        int ended = 0;
        while (ended < 2 && System.nanoTime() - deadline < 0) {
            int count = queue.poll(completions);
            for (int i = 0; i < count; i++) {
                if (completions.status(i) != Status.SUCCESS) {
                    return false;
                }
            }
            ended += count;
        }
        return ended == 2;
    }
}
