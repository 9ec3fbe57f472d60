package dev.verbena.netty;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessagingOptions;

import java.time.Duration;
import java.util.Objects;

/**
 * How event loops use RDMA. Start from {@link #DEFAULTS} and change what differs. Immutable.
 *
 * <p>The two sides of a connection need not have the same options.
 */
@CheckReturnValue
public final class RdmaOptions {
    /**
     * An event loop that has nothing to do polls for 20 microseconds, then sleeps. Up to 16,416
     * bytes are sent at once (a whole DATA frame of HTTP/2), more in messages of up to 1 MiB. A
     * connection has 32 receives, keeps up to 32 messages outstanding, and up to 16 MiB for large
     * ones. All connections together have up to 256 MiB of buffers from {@link
     * RegisteredByteBufAllocator}. A peer has 30 s to receive, and is asked every 30 s whether it
     * is there.
     */
    public static final RdmaOptions DEFAULTS =
            new RdmaOptions(
                    IdleStrategy.spinThenWait(Duration.ofNanos(20_000)),
                    MessagingOptions.DEFAULTS
                            .withMaxMessage(1 << 20)
                            .withEagerLimit(16_416)
                            .withReceives(32)
                            .withOutstanding(32)
                            .withExposures(0)
                            .withPeerExposures(0)
                            .withTimeout(Duration.ofSeconds(30))
                            .withKeepAlive(Duration.ofSeconds(30)),
                    256 << 20);

    private final IdleStrategy idle;
    private final MessagingOptions messaging;
    private final long registeredMemory;

    private RdmaOptions(IdleStrategy idle, MessagingOptions messaging, long registeredMemory) {
        this.idle = idle;
        this.messaging = messaging;
        this.registeredMemory = registeredMemory;
    }

    /**
     * Changes what an event loop does while it has nothing to do.
     *
     * @param strategy busy polling, polling for a time, or sleeping at once
     * @return a changed copy of these options
     */
    public RdmaOptions withIdle(IdleStrategy strategy) {
        return new RdmaOptions(
                Objects.requireNonNull(strategy, "strategy"), messaging, registeredMemory);
    }

    /**
     * Changes the options of the messages that carry the bytes: how long and how many they are,
     * deadlines, the memory of a connection, and how it is made. The deadline of a connect is that
     * of Netty's options, however, and so are the local address and the traffic class if they are
     * set there.
     *
     * @param options of each connection
     * @return a changed copy of these options
     */
    public RdmaOptions withMessaging(MessagingOptions options) {
        return new RdmaOptions(idle, Objects.requireNonNull(options, "options"), registeredMemory);
    }

    /**
     * Changes how much memory all connections of the factory's event loops register for buffers.
     * Beyond that, buffers are not registered, and their bytes are copied once when they are sent.
     *
     * @param bytes 0 or more
     * @return a changed copy of these options
     */
    public RdmaOptions withRegisteredMemory(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException(
                    "Buffers take 0 or more bytes of registered memory, not %,d".formatted(bytes));
        }
        return new RdmaOptions(idle, messaging, bytes);
    }

    IdleStrategy idle() {
        return idle;
    }

    /**
     * The options of the messages, of which {@link #withMessaging} takes a changed copy.
     *
     * @return those of each connection
     */
    public MessagingOptions messaging() {
        return messaging;
    }

    long registeredMemory() {
        return registeredMemory;
    }

    @Override
    public String toString() {
        return "RdmaOptions(%s, %s, %,d bytes of registered buffers)"
                .formatted(idle, messaging, registeredMemory);
    }
}
