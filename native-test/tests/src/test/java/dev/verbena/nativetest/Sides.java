package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.net.InetSocketAddress;
import java.util.function.Consumer;

/** A device for either side of channels, the first and the last, and the server's poller. */
final class Sides implements AutoCloseable {
    final Adapter there = Adapter.open(RdmaDevices.active().getFirst());
    final Adapter here = Adapter.open(RdmaDevices.active().getLast());
    final Poller far = Poller.start(there, IdleStrategy.events());

    /** An address of a device; the kernel chooses the port. */
    static InetSocketAddress anyPort(Adapter adapter) {
        return new InetSocketAddress(adapter.gid().gid().gid().toInetAddress(), 0);
    }

    MessageServer listen(
            MessagingOptions options,
            int most,
            MessageHandler handler,
            Consumer<MessageChannel> opened) {
        return MessageServer.listen(far, anyPort(there), options, most, handler, opened);
    }

    @Override
    public void close() {
        far.close();
        here.close();
        there.close();
    }
}
