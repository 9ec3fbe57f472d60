package dev.verbena.netty;

import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.VerbenaException;

import io.netty.channel.AbstractServerChannel;
import io.netty.channel.ChannelPromise;
import io.netty.channel.EventLoop;
import io.netty.channel.IoEventLoop;
import io.netty.channel.IoRegistration;
import io.netty.channel.socket.ServerSocketChannel;
import io.netty.channel.socket.ServerSocketChannelConfig;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.channels.AlreadyBoundException;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Accepts {@link RdmaChannel}s, on event loops of {@link RdmaIoHandler}.
 *
 * <p>Binds an address of the device; the wildcard address binds all of them. Peers that connect
 * while the channel does not read wait, as many as {@link
 * io.netty.channel.ChannelOption#SO_BACKLOG}; further ones are refused.
 */
public final class RdmaServerChannel extends AbstractServerChannel implements ServerSocketChannel {
    /** Each holds a queue pair until its peer answers. */
    static final int MOST_ACCEPTING = 1024;

    private final AtomicInteger accepting = new AtomicInteger(); // children that do not stand yet
    private final RdmaServerChannelConfig config = new RdmaServerChannelConfig(this);
    final Queue<Connector> waiting = // while nobody reads
            new LinkedBlockingQueue<>(); // an add without enough memory changes nothing
    private volatile boolean open = true;
    private volatile @Nullable Listener listener; // once it is bound
    private volatile @Nullable InetSocketAddress address; // also when it is closed
    private @Nullable IoRegistration registration;
    private boolean readPending;

    /** A channel that is to be bound. */
    public RdmaServerChannel() {}

    private final class ServerUnsafe extends AbstractUnsafe implements RdmaHandle {
        @Override
        public void connect(
                SocketAddress remote, @Nullable SocketAddress local, ChannelPromise promise) {
            safeSetFailure(promise, new UnsupportedOperationException());
        }

        @Override
        public void close() {
            close(voidPromise());
        }
    }

    @Override
    protected AbstractUnsafe newUnsafe() {
        return new ServerUnsafe();
    }

    @Override
    protected boolean isCompatible(EventLoop loop) {
        return loop instanceof IoEventLoop one && one.isCompatible(ServerUnsafe.class);
    }

    @Override
    protected void doRegister(ChannelPromise promise) {
        ((IoEventLoop) eventLoop())
                .register((ServerUnsafe) unsafe())
                .addListener(
                        future -> {
                            if (future.isSuccess()) {
                                registration = (IoRegistration) future.getNow();
                                promise.setSuccess();
                            } else {
                                promise.setFailure(future.cause());
                            }
                        });
    }

    @Override
    protected void doDeregister() {
        IoRegistration last = registration;
        registration = null;
        if (last != null) {
            var _ = last.cancel();
        }
    }

    @Override
    protected void doBind(SocketAddress local) throws Exception {
        InetSocketAddress wanted = RdmaChannel.inet(local);
        if (listener != null) {
            throw new AlreadyBoundException();
        }
        RdmaIoHandler handler = Objects.requireNonNull(registration).attachment();
        try {
            Listener made =
                    handler.adapter()
                            .listen(
                                    wanted,
                                    config.getBacklog(),
                                    task -> eventLoop().execute(task),
                                    this::requested);
            listener = made;
            address = made.localAddress();
        } catch (VerbenaException e) {
            throw Exceptions.ofBind(e);
        }
    }

    /** A peer wants to connect. */
    private void requested(Connector connector) {
        if (open) {
            waiting.add(connector);
            // Also when it has waited too long for an answer.
            var _ = connector.closed().whenComplete((nothing, why) -> waiting.remove(connector));
            accept();
        } else {
            connector.close();
        }
    }

    @Override
    protected void doBeginRead() {
        readPending = true;
        if (!waiting.isEmpty()) {
            eventLoop().execute(this::accept);
        }
    }

    /** AUTO_READ was switched off: a read that has not begun does not take place. */
    void clearReadPending() {
        if (!isRegistered() || eventLoop().inEventLoop()) {
            readPending = false;
        } else {
            eventLoop().execute(() -> readPending = false);
        }
    }

    /** There is a child that is to be accepted. */
    void accepts() {
        var _ = accepting.incrementAndGet();
    }

    /** A child was accepted, or was not established. By any thread. */
    void accepted() {
        if (accepting.getAndDecrement() >= MOST_ACCEPTING && open) { // its event loop may be over
            eventLoop().execute(this::accept);
        }
    }

    private void accept() {
        if (!open || !readPending || waiting.isEmpty() || accepting.get() >= MOST_ACCEPTING) {
            return;
        }
        var round = unsafe().recvBufAllocHandle();
        round.reset(config);
        Connector next = waiting.poll();
        try {
            while (next != null) {
                readPending = false;
                try {
                    round.incMessagesRead(1);
                    pipeline().fireChannelRead(new RdmaChannel(this, next));
                } catch (Throwable t) { // out of memory: others are accepted all the same
                    next.close(); // refuses the peer
                    pipeline().fireExceptionCaught(t);
                }
                next =
                        round.continueReading() && accepting.get() < MOST_ACCEPTING
                                ? waiting.poll()
                                : null;
            }
        } finally {
            round.readComplete();
            pipeline().fireChannelReadComplete();
        }
    }

    @Override
    protected void doClose() {
        open = false;
        Listener last = listener;
        if (last != null) {
            last.close();
        }
        for (Connector one : waiting) {
            one.close(); // refuses the peer
        }
        waiting.clear();
    }

    @Override
    public boolean isOpen() {
        return open;
    }

    @Override
    public boolean isActive() {
        return open && listener != null;
    }

    @Override
    public ServerSocketChannelConfig config() {
        return config;
    }

    @Override
    public @Nullable InetSocketAddress localAddress() {
        return (InetSocketAddress) super.localAddress();
    }

    @Override
    public @Nullable InetSocketAddress remoteAddress() {
        return null;
    }

    @Override
    protected @Nullable SocketAddress localAddress0() {
        return address;
    }
}
