package dev.verbena.netty;

import dev.verbena.messaging.MessagingOptions;

import io.netty.channel.ChannelOption;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Options of TCP that services set out of habit. They keep what was set, and have no effect:
 * nothing is delayed, dead peers are always noticed, and there are no socket buffers.
 */
final class TcpOptions {
    private static final Map<ChannelOption<?>, Object> OF_SERVERS =
            Map.of(ChannelOption.SO_REUSEADDR, true, ChannelOption.SO_RCVBUF, usualBuffer());
    private static final Map<ChannelOption<?>, Object> OF_CHANNELS =
            Map.of(
                    ChannelOption.TCP_NODELAY, true,
                    ChannelOption.SO_KEEPALIVE, true,
                    ChannelOption.SO_REUSEADDR, true,
                    ChannelOption.SO_SNDBUF, usualBuffer(),
                    ChannelOption.SO_RCVBUF, usualBuffer());

    private volatile Map<ChannelOption<?>, Object> values; // immutable

    private TcpOptions(Map<ChannelOption<?>, Object> values) {
        this.values = values;
    }

    static TcpOptions ofChannel() {
        return new TcpOptions(OF_CHANNELS);
    }

    static TcpOptions ofServer() {
        return new TcpOptions(OF_SERVERS);
    }

    /** What a peer may send before this side reads. */
    private static int usualBuffer() {
        MessagingOptions messaging = RdmaOptions.DEFAULTS.messaging();
        return messaging.receives() * messaging.eagerLimit();
    }

    boolean contains(ChannelOption<?> option) {
        return values.containsKey(option);
    }

    ChannelOption<?>[] all() {
        return values.keySet().toArray(new ChannelOption<?>[0]);
    }

    @SuppressWarnings("unchecked")
    <T> T get(ChannelOption<T> option) {
        return (T) Objects.requireNonNull(values.get(option));
    }

    synchronized <T> void set(ChannelOption<T> option, T value) {
        if (value instanceof Integer bytes && bytes <= 0) {
            throw new IllegalArgumentException(
                    "%s is at least 1, not %,d".formatted(option.name(), bytes));
        }
        Map<ChannelOption<?>, Object> changed = new HashMap<>(values);
        changed.put(option, value);
        values = Map.copyOf(changed);
    }
}
