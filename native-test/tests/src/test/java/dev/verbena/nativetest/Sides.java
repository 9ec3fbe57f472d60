package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.channel.Channel;
import dev.verbena.channel.ChannelOptions;
import dev.verbena.channel.ChannelServer;
import dev.verbena.channel.IdleStrategy;
import dev.verbena.channel.MessageHandler;
import dev.verbena.channel.Poller;

import java.net.InetSocketAddress;
import java.util.function.Consumer;

/** A device for either side of channels, the first and the last, and the server's poller. */
final class Sides implements AutoCloseable {
    final Adapter there = Adapter.open(RdmaDevices.active().getFirst());
    final Adapter here = Adapter.open(RdmaDevices.active().getLast());
    private final Poller far = Poller.start(there, IdleStrategy.events());

    /** An address of a device; the kernel chooses the port. */
    static InetSocketAddress anyPort(Adapter adapter) {
        return new InetSocketAddress(adapter.gid().gid().gid().toInetAddress(), 0);
    }

    ChannelServer listen(
            ChannelOptions options, int most, MessageHandler handler, Consumer<Channel> opened) {
        return ChannelServer.listen(far, anyPort(there), options, most, handler, opened);
    }

    @Override
    public void close() {
        far.close();
        here.close();
        there.close();
    }
}
