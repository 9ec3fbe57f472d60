package dev.verbena.examples;

import static java.nio.channels.FileChannel.MapMode.READ_WRITE;
import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;

import dev.verbena.*;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** Receives a file into its mapping, without a copy: {@link FileSender} writes into that. */
public final class FileReceiver {
    private FileReceiver() {}

    /**
     * Receives a file, and deletes it again if it does not arrive whole.
     *
     * @param adapter the device
     * @param request the sender's, which is accepted and, at the end, closed
     * @param file a name that is free
     * @param most the longest file to accept, in bytes
     * @param within how long it may take
     * @throws IOException when the file cannot be made, or is too long
     */
    public static void receive(
            Adapter adapter, Connector request, Path file, long most, Duration within)
            throws IOException {
        try (request; // closing it refuses a request that was not accepted
                FileChannel channel = FileChannel.open(file, CREATE_NEW, READ, WRITE);
                Arena arena = Arena.ofShared()) {
            try (ProtectionDomain domain = adapter.createProtectionDomain();
                    CompletionQueue queue = adapter.createConfinedCompletionQueue(2);
                    QueuePair pair =
                            domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
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
        completions.orThrow(0);
    }
}
