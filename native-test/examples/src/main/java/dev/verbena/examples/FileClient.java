package dev.verbena.examples;

import static java.nio.channels.FileChannel.MapMode.READ_WRITE;
import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.messaging.Exposure;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** Fetches a file from a {@link FileServer}: into a mapping of a new file, without a copy. */
public final class FileClient {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private FileClient() {}

    /**
     * Fetches a file.
     *
     * @param arguments the server's address and port, the file's name there, that of the new file,
     *     and how many bytes it may have
     * @throws IOException when the server has no such file, or the new one cannot be made
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        InetSocketAddress server =
                new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        try (Adapter adapter = Adapter.forPeer(server.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                MessageChannel channel =
                        MessageChannel.connect(poller, server, MessagingOptions.DEFAULTS, null)) {
            fetch(
                    poller,
                    channel,
                    arguments[2],
                    Path.of(arguments[3]),
                    Long.parseLong(arguments[4]));
        }
    }

    /**
     * Fetches a file. If that fails, there is no new file.
     *
     * @param poller of the channel
     * @param channel to the server
     * @param name of the file in the server's folder
     * @param target the file that is made
     * @param most how many bytes it may have; the disk needs room for as many
     * @throws IOException when the server has no such file, or the new one cannot be made
     * @throws InterruptedException when it is interrupted
     * @throws MessagingException when the server is gone, or does not answer in time
     */
    public static void fetch(
            Poller poller, MessageChannel channel, String name, Path target, long most)
            throws IOException, InterruptedException {
        byte[] text = name.getBytes(StandardCharsets.UTF_8);
        byte[] request = new byte[RemoteMemory.MESSAGE_BYTES + text.length];
        System.arraycopy(text, 0, request, RemoteMemory.MESSAGE_BYTES, text.length);
        long length = -1;
        FileChannel file = FileChannel.open(target, CREATE_NEW, READ, WRITE);
        try (file) {
            try (Arena arena = Arena.ofShared()) {
                MemorySegment bytes = file.map(READ_WRITE, 0, most, arena);
                // @start region="fetch"
                MemoryRegion region = poller.domain().register(bytes, Access.LOCAL_WRITE);
                try (region;
                        Exposure exposure =
                                channel.ownMemory()
                                        .expose(region, OpFlags.ALLOW_REMOTE_WRITE, TIMEOUT)) {
                    MemorySegment message = MemorySegment.ofArray(request);
                    exposure.remoteMemory().writeTo(message, 0);
                    channel.send(message, TIMEOUT);
                    try (Message answer = exposure.await()) { // all is here
                        length = length(answer, most);
                    }
                }
                region.awaitClosed(TIMEOUT); // before its memory is unmapped
                // @end
            }
            file.truncate(length);
        } finally {
            if (length < 0) {
                Files.deleteIfExists(target);
            }
        }
    }

    private static long length(Message answer, long most) throws IOException {
        String text =
                new String(answer.data().toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
        if (!text.matches("[0-9]+")) {
            throw new FileNotFoundException(text);
        }
        if (Long.parseLong(text) > most) {
            throw new IOException("The file has %s bytes, not %,d at most".formatted(text, most));
        }
        return Long.parseLong(text);
    }
}
