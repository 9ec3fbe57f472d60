package dev.verbena.examples;

import static java.nio.channels.FileChannel.MapMode.READ_ONLY;
import static java.nio.channels.FileChannel.MapMode.READ_WRITE;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;

import dev.verbena.*;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.time.Duration;

/**
 * Sends a file from its mapping, without a copy: writes it into the mapping that {@link
 * FileReceiver} offers.
 */
public final class FileSender {
    private static final long PART = 1 << 20; // of each write
    private static final int DEPTH = 16; // writes outstanding
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(DEPTH, 1);
    private static final Duration STUCK = Duration.ofSeconds(30); // one of them

    private FileSender() {}

    /**
     * Sends a file.
     *
     * @param adapter the device
     * @param file at least one byte, and no more than may be locked
     * @param receiver where {@link FileReceiver} gets its requests from
     * @throws IOException when the file cannot be read
     */
    public static void send(Adapter adapter, Path file, InetSocketAddress receiver)
            throws IOException {
        try (Arena arena = Arena.ofShared(); // closed after the region
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(DEPTH + 1);
                QueuePair pair = domain.createQueuePair(queue, queue, LIMITS);
                MemoryRegion source = source(domain, file, arena);
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

    /** Maps a file for reading, and registers the mapping; the arena is closed after it. */
    static MemoryRegion source(ProtectionDomain domain, Path file, Arena arena) throws IOException {
        try (FileChannel channel = FileChannel.open(file, READ)) { // the mapping outlives it
            return domain.register(channel.map(READ_ONLY, 0, channel.size(), arena));
        } catch (VerbenaException e) {
            // Linux before 6.2 registers only what may be written to, also if nobody writes.
            try (FileChannel channel = FileChannel.open(file, READ, WRITE)) {
                return domain.register(channel.map(READ_WRITE, 0, channel.size(), arena));
            }
        }
    }

    private static void await(CompletionQueue queue, Duration timeout) {
        Completions completions = new Completions(1);
        while (queue.poll(completions) == 0) {
            queue.arm(NotifyType.ANY);
            queue.await(timeout).orThrow();
        }
        completions.orThrow(0);
    }
}
