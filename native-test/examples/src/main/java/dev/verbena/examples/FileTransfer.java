package dev.verbena.examples;

import static java.nio.channels.FileChannel.MapMode.*;
import static java.nio.file.StandardOpenOption.*;

import dev.verbena.*;

import java.io.IOException;
import java.lang.foreign.*;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.time.Duration;

/** Sends a file from its mapping into a mapping of the peer's: no byte is copied on either side. */
public final class FileTransfer {
    private static final long PART = 1 << 20; // of each write
    private static final int DEPTH = 16; // writes outstanding
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(DEPTH, 1);
    private static final Duration STUCK = Duration.ofSeconds(30); // one of them

    private FileTransfer() {}

    /** Sends a file, of at least one byte and no more than may be locked. */
    public static void send(Adapter adapter, Path file, InetSocketAddress receiver)
            throws IOException {
        try (FileChannel channel = FileChannel.open(file, READ);
                Arena arena = Arena.ofShared(); // closed after the region
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(DEPTH + 1);
                QueuePair pair = domain.createQueuePair(queue, queue, LIMITS);
                MemoryRegion source = source(domain, channel, arena);
                Connector connector = adapter.createConnector()) {
            byte[] size = ByteBuffer.allocate(Long.BYTES).putLong(source.bytes()).array();
            connector.connect(pair, receiver, ConnectionOptions.DEFAULTS.withPrivateData(size));
            byte[] answer = connector.connectionData().privateData();
            RemoteMemory target = RemoteMemory.readFrom(MemorySegment.ofArray(answer), 0);
            connector.completeConnect();
            BufferList part = new BufferList(1);
            int outstanding = 0;
            for (long at = 0; at < source.bytes() || outstanding > 0; ) {
                if (at < source.bytes() && outstanding < DEPTH) {
                    part.clear().add(source, at, Math.min(PART, source.bytes() - at));
                    pair.write(at, part, target, at, OpFlags.NONE).orThrow();
                    at += part.bytes();
                    outstanding++;
                } else {
                    await(queue, STUCK); // throws if the peer is gone
                    outstanding--;
                }
            }
            pair.send(0, part.clear()).orThrow(); // an empty message: all is there
            await(queue, STUCK);
        }
    }

    private static MemoryRegion source(ProtectionDomain domain, FileChannel file, Arena arena)
            throws IOException {
        try {
            return domain.register(file.map(READ_ONLY, 0, file.size(), arena));
        } catch (VerbenaException e) {
            // Linux before 6.2 pins memory as writable: then the kernel copies each page once.
            return domain.register(file.map(PRIVATE, 0, file.size(), arena));
        }
    }

    /** Accepts a file of at most so many bytes; deletes it if it does not arrive whole in time. */
    public static void receive(
            Adapter adapter, Connector request, Path file, long most, Duration within)
            throws IOException {
        try (request; // closing it refuses a request that was not accepted
                FileChannel channel = FileChannel.open(file, CREATE_NEW, READ, WRITE);
                Arena arena = Arena.ofShared()) {
            try (ProtectionDomain domain = adapter.createProtectionDomain();
                    CompletionQueue queue = adapter.createConfinedCompletionQueue(DEPTH + 1);
                    QueuePair pair = domain.createQueuePair(queue, queue, LIMITS);
                    MemoryRegion target = target(domain, request, channel, most, arena)) {
                byte[] answer = new byte[RemoteMemory.MESSAGE_BYTES];
                target.remoteMemory().writeTo(MemorySegment.ofArray(answer), 0);
                pair.receive(0, new BufferList(1)).orThrow(); // for the message at the end
                request.onDisconnect(status -> cancel(pair)); // a sender that has gone
                request.accept(pair, ConnectionOptions.DEFAULTS.withPrivateData(answer));
                await(queue, within);
                target.memory().force();
            } catch (IOException | RuntimeException e) {
                Files.delete(file);
                throw e;
            }
        }
    }

    private static MemoryRegion target(
            ProtectionDomain domain, Connector request, FileChannel file, long most, Arena arena)
            throws IOException {
        long bytes = ByteBuffer.wrap(request.connectionData().privateData()).getLong();
        if (bytes < 1 || bytes > most) {
            throw new IOException("A file of %,d bytes is not accepted".formatted(bytes));
        }
        // EFAULT where the disk is full: all pages are allocated here.
        return domain.register(file.map(READ_WRITE, 0, bytes, arena), Access.REMOTE_WRITE);
    }

    private static void cancel(QueuePair pair) {
        try {
            pair.flush(); // ends the receive, if there is one
        } catch (IllegalStateException e) { // closed: nobody waits
        }
    }

    private static void await(CompletionQueue queue, Duration timeout) {
        Completions completions = new Completions(1);
        while (queue.poll(completions) == 0) {
            queue.arm(NotifyType.ANY);
            queue.await(timeout).orThrow();
        }
        completions.status(0).orThrow();
    }
}
