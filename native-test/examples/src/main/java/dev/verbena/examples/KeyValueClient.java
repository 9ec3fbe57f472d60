package dev.verbena.examples;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferPool;
import dev.verbena.BufferPoolOptions;
import dev.verbena.OpFlags;
import dev.verbena.PooledBuffer;
import dev.verbena.RemoteMemory;
import dev.verbena.messaging.Exposure;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.NoSuchElementException;

/**
 * Asks a {@link KeyValueServer} for values, which that writes into memory of this side. May be used
 * by many threads at a time, virtual ones too.
 */
public final class KeyValueClient implements AutoCloseable {
    /** The longest value that it takes. */
    public static final int MOST_BYTES = 65_536;

    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final int AT_A_TIME = 16; // values that are asked for

    private final MessageChannel channel;
    private final BufferPool values;

    /**
     * Connects to a server.
     *
     * @param poller polls for it
     * @param server where the server listens
     */
    public KeyValueClient(Poller poller, InetSocketAddress server) {
        this.channel = MessageChannel.connect(poller, server, MessagingOptions.DEFAULTS, null);
        this.values =
                poller.domain()
                        .createBufferPool(
                                BufferPoolOptions.of(AT_A_TIME, MOST_BYTES), Access.LOCAL_WRITE);
    }

    /**
     * Prints the values of keys.
     *
     * @param arguments the server's address and port, and the keys
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress server =
                new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        try (Adapter adapter = Adapter.forPeer(server.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                KeyValueClient client = new KeyValueClient(poller, server)) {
            for (int i = 2; i < arguments.length; i++) {
                byte[] value = client.get(arguments[i]);
                System.out.println(new String(value, StandardCharsets.UTF_8));
            }
        }
    }

    /**
     * Gets a value.
     *
     * @param key its key
     * @return the value
     * @throws NoSuchElementException when there is none
     * @throws InterruptedException when the thread is interrupted
     * @throws MessagingException when the server is gone, or does not answer in time
     */
    public byte[] get(String key) throws InterruptedException {
        byte[] name = key.getBytes(StandardCharsets.UTF_8);
        // @start region="get"
        byte[] request = new byte[RemoteMemory.MESSAGE_BYTES + name.length]; // where to, which key
        System.arraycopy(name, 0, request, RemoteMemory.MESSAGE_BYTES, name.length);
        try (PooledBuffer value = values.take(TIMEOUT);
                Exposure exposure = channel.expose(value, OpFlags.ALLOW_REMOTE_WRITE, TIMEOUT)) {
            MemorySegment message = MemorySegment.ofArray(request);
            exposure.writeTo(message, 0);
            channel.send(message, TIMEOUT);
            try (Message answer = exposure.await()) { // that took the memory back
                long length = answer.data().get(ValueLayout.JAVA_LONG_UNALIGNED, 0);
                if (length < 0) {
                    throw new NoSuchElementException("No value for " + key);
                }
                if (length > MOST_BYTES) {
                    throw new IllegalStateException("A value of %,d bytes".formatted(length));
                }
                return value.memory().asSlice(0, length).toArray(ValueLayout.JAVA_BYTE);
            }
        } // whatever happened: the server can write into the buffer no more
        // @end
    }

    @Override
    public void close() {
        channel.close();
        values.close();
    }
}
