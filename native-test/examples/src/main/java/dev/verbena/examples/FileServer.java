package dev.verbena.examples;

import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.RemoteMemory;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Serves the files of a folder to {@link FileClient}s: it maps them for reading, and the device
 * writes from the mapping into the client's memory. Nothing is copied.
 */
public final class FileServer implements AutoCloseable {
    private final Poller poller;
    private final Path folder;
    private final Arena arena = Arena.ofShared(); // closed after the regions
    private final Map<String, MemoryRegion> mapped = new HashMap<>(); // of the polling thread
    private final long part;
    private final MessageServer server;

    /**
     * Listens for clients.
     *
     * @param poller polls for them
     * @param address an address of the device; port 0 lets the kernel choose
     * @param folder whose files are served
     */
    public FileServer(Poller poller, InetSocketAddress address, Path folder) {
        this.poller = poller;
        this.folder = folder;
        this.part = Math.min(1 << 30, poller.adapter().info().maxTransferBytes());
        this.server =
                MessageServer.listen(
                        poller,
                        address,
                        MessagingOptions.DEFAULTS,
                        100,
                        this::answer,
                        channel -> {});
    }

    /**
     * Serves a folder.
     *
     * @param arguments an address of the device, a port, and the folder
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        var address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        try (Adapter adapter = Adapter.forAddress(address.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                FileServer server = new FileServer(poller, address, Path.of(arguments[2]))) {
            System.out.println("Listening on " + server.localAddress());
            Thread.currentThread().join();
        }
    }

    private void answer(MessageChannel channel, Message message) {
        // @start region="answer"
        MemorySegment request = message.data(); // on the polling thread
        RemoteMemory target = RemoteMemory.readFrom(request, 0);
        byte[] name = request.asSlice(RemoteMemory.MESSAGE_BYTES).toArray(ValueLayout.JAVA_BYTE);
        String answer;
        try {
            MemoryRegion file =
                    mapped.computeIfAbsent(new String(name, StandardCharsets.UTF_8), this::map);
            answer = Long.toString(file.bytes());
            for (long at = 0; at < file.bytes() && file.bytes() <= target.bytes(); at += part) {
                long length = Math.min(part, file.bytes() - at);
                BufferList bytes = new BufferList(1).add(file, at, length);
                var _ = channel.peerMemory().writeAsync(bytes, target.slice(at, length));
            }
        } catch (IllegalArgumentException | UncheckedIOException | VerbenaException e) {
            answer = "Not served: " + e.getMessage();
        }
        MemorySegment last = MemorySegment.ofArray(answer.getBytes(StandardCharsets.UTF_8));
        var _ =
                channel.peerMemory()
                        .sendAndInvalidateAsync(last, target) // arrives after what was written
                        .exceptionally(FileServer::notAnswered);
        // @end
    }

    private static Void notAnswered(Throwable thrown) { // the client has given up, or is gone
        System.out.println(thrown.getMessage());
        return null;
    }

    private MemoryRegion map(String name) {
        Path file = Path.of(name).getFileName(); // never a file outside of the folder
        if (file == null) {
            throw new IllegalArgumentException("%s is no name of a file".formatted(name));
        }
        try {
            return FileSender.source(poller.domain(), folder.resolve(file), arena);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** {@return the address, with the actual port} */
    public InetSocketAddress localAddress() {
        return server.localAddress();
    }

    @Override
    public void close() {
        server.close();
        mapped.values().forEach(MemoryRegion::close);
        arena.close();
    }
}
