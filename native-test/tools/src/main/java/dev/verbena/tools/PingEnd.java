package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.RawCallback;
import dev.verbena.messaging.RawConnection;
import dev.verbena.messaging.RawHandler;
import dev.verbena.messaging.RawMessage;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletionException;
import java.util.function.BooleanSupplier;

/** One side of Ping's connection: a channel without framing, and how to wait. For one thread. */
final class PingEnd implements AutoCloseable, RawHandler {
    private static final int DEPTH = 8; // one request and the messages before it; never filled
    private static final Duration CONFIRMED_WITHIN = Duration.ofSeconds(15); // a close takes 10

    private final PingOptions options;
    private final Poller poller;
    private final RawConnection channel;
    private final Deque<MemoryRegion> regions = new ArrayDeque<>();
    private final Deque<RemoteMemory> received = new ArrayDeque<>();
    private final RawCallback whenDone = (of, nothing, status) -> done = status.isSuccess();
    private boolean done; // the read or the write that is waited for
    private boolean ended;
    private boolean failed; // a wait for the peer

    PingEnd(Adapter adapter, PingOptions options) {
        this.options = options;
        poller =
                Poller.onThisThread(
                        adapter, options.spin ? IdleStrategy.busySpin() : IdleStrategy.events());
        try {
            QueuePairLimits limits = QueuePairLimits.depths(DEPTH, 1);
            channel = RawConnection.create(poller, limits, RpingMessage.BYTES, null, this);
        } catch (Throwable t) {
            poller.close();
            throw t;
        }
    }

    /** Connects to a server, and waits until it has accepted. */
    Connector connect(InetSocketAddress server, ConnectionOptions how) {
        channel.connect(server, how);
        return channel.connector().orElseThrow();
    }

    /** Accepts a client, and waits until it has completed the connection. */
    void accept(Connector request, ConnectionOptions how) {
        try {
            channel.acceptAsync(request, how).join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof VerbenaException failure) {
                throw failure;
            }
            throw e;
        }
    }

    /** Registers memory that is closed with this end. */
    MemoryRegion register(long bytes, Access... rights) {
        MemoryRegion region = poller.domain().allocate(bytes, rights);
        regions.push(region);
        return region;
    }

    /** Sends a message, without waiting; a failure shows at the next wait. */
    void send(BufferList message) {
        post(channel.send(message, OpFlags.SILENT_SUCCESS, null, null).status());
    }

    /** Reads the peer's memory, and waits until all of it is here. */
    void read(MemoryRegion into, RemoteMemory from) {
        BufferList buffer = new BufferList(1).add(into, 0, from.bytes());
        done = false;
        post(
                channel.read(buffer, from.address(), from.token(), OpFlags.NONE, whenDone, null)
                        .status());
        awaitDone("The read of the peer's data did not complete");
    }

    /** Writes into the peer's memory, and waits until it is done. */
    void write(MemoryRegion from, long bytes, RemoteMemory to) {
        BufferList buffer = new BufferList(1).add(from, 0, bytes);
        done = false;
        post(
                channel.write(buffer, to.address(), to.token(), OpFlags.NONE, whenDone, null)
                        .status());
        awaitDone("The write of the peer's data did not complete");
    }

    private void post(Status status) {
        if (status == Status.CONNECTION_INVALID) {
            awaitDone("The connection ended, but its reason was not reported");
        }
        status.orThrow();
    }

    private void awaitDone(String otherwise) {
        if (!await(otherwise, () -> done || !received.isEmpty())) {
            throw new ToolFailure("The peer disconnected in the middle of a round");
        }
        if (!received.isEmpty()) {
            throw new ToolFailure(
                    "The peer sent a message out of turn: does it speak rping's protocol?");
        }
    }

    /**
     * Waits for the peer's next message.
     *
     * @return what it says, or null when the peer left instead
     */
    RemoteMemory receive() {
        return await("The peer sent no message", () -> !received.isEmpty())
                ? received.remove()
                : null;
    }

    /**
     * Polls until a condition holds.
     *
     * @param otherwise what to report at the timeout
     * @return false when the peer disconnected before
     */
    private boolean await(String otherwise, BooleanSupplier condition) {
        long end = System.nanoTime() + options.timeout().toNanos();
        while (!condition.getAsBoolean()) {
            MessagingException why = channel.closeReason();
            long rest = end - System.nanoTime();
            if (ended && why != null) {
                if (why.status() == Status.CONNECTION_INVALID) {
                    return false;
                }
                failed = true;
                throw why;
            } else if (rest <= 0) {
                failed = true;
                throw new ToolFailure("%s within %d s (--timeout)", otherwise, options.seconds);
            }
            int ignored = poller.await(Duration.ofNanos(rest));
        }
        return true;
    }

    @Override
    public void received(RawConnection of, RawMessage message) {
        if (message.length() != RpingMessage.BYTES) {
            of.abort(
                    "the peer sent a message of %d bytes where rping sends %d: does it speak rping's protocol?"
                            .formatted(message.length(), RpingMessage.BYTES));
            return;
        }
        received.add(RpingMessage.read(message.buffer()));
        Status ignored = message.repost().status(); // refused when the connection has ended
    }

    @Override
    public void ended(RawConnection of, MessagingException reason) {
        ended = true;
    }

    /** Disconnects, and frees everything. */
    @Override
    public void close() {
        try {
            channel.close();
            long end = System.nanoTime() + options.timeout().toNanos();
            while (!ended && end - System.nanoTime() > 0) {
                int ignored = poller.await(Duration.ofNanos(end - System.nanoTime()));
            }
        } finally {
            poller.close();
            regions.forEach(MemoryRegion::close);
        }
        awaitConfirmed();
    }

    /**
     * Waits until the peer has confirmed the end, or this side has given up; not for a peer that
     * did not answer before. The program ends next, and the kernel does not repeat a lost message
     * for a process that is gone: the peer might never learn of the end.
     */
    private void awaitConfirmed() {
        Connector connector = channel.connector().orElse(null);
        if (connector == null || failed) {
            return;
        }
        connector.close();
        try {
            connector.awaitClosed(CONFIRMED_WITHIN);
        } catch (VerbenaException e) {
            if (e.status() != Status.IO_TIMEOUT) {
                throw e;
            }
        }
    }
}
