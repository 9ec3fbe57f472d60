package dev.verbena.netty;

import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.IoHandler;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.socket.SocketChannel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Channels between event loops on a network that does not exist, and what their pipelines hear. */
final class Connected implements AutoCloseable {
    static final int PORT = 7000;

    /** What one channel has heard. */
    static final class Heard extends ChannelInboundHandlerAdapter {
        final BlockingQueue<Object> events = new LinkedBlockingQueue<>();
        final Queue<ByteBuf> kept = new ConcurrentLinkedQueue<>();
        volatile boolean keeps; // what it reads
        volatile long bytes;
        private final StringBuffer text = new StringBuffer();

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf buffer = (ByteBuf) message;
            int length = buffer.readableBytes();
            if (keeps) {
                kept.add(buffer);
            } else {
                if (text.length() < 10_000) {
                    text.append(buffer.toString(StandardCharsets.US_ASCII));
                }
                buffer.release();
            }
            bytes += length; // last: tests wait for it
        }

        String text() {
            return text.toString();
        }

        @Override
        public void userEventTriggered(ChannelHandlerContext context, Object event) {
            events.add(event);
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            events.add(cause);
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            events.add("inactive");
        }

        Object next() throws InterruptedException {
            Object event = events.poll(30, TimeUnit.SECONDS);
            if (event == null) {
                throw new AssertionError("Nothing has happened");
            }
            return event;
        }
    }

    final FakeFabric fabric = new FakeFabric();
    final EventLoopGroup group;
    final List<RdmaIoHandler> handlers = new ArrayList<>();
    final BlockingQueue<SocketChannel> accepted = new LinkedBlockingQueue<>();
    private final Consumer<Bootstrap> changes;
    private final ServerBootstrap server;
    RdmaServerChannel listening;

    Connected() {
        this(RdmaOptions.DEFAULTS.withIdle(IdleStrategy.events()), server -> {}, client -> {});
    }

    Connected(RdmaOptions options) {
        this(options, server -> {}, client -> {});
    }

    Connected(
            RdmaOptions options, Consumer<ServerBootstrap> ofServer, Consumer<Bootstrap> ofClient) {
        IoHandlerFactory factory = RdmaIoHandler.newFactory(fabric.adapter, options);
        group =
                new MultiThreadIoEventLoopGroup(
                        2,
                        executor -> {
                            IoHandler made = factory.newHandler(executor);
                            handlers.add((RdmaIoHandler) made);
                            return made;
                        });
        changes = ofClient;
        server =
                new ServerBootstrap()
                        .group(group)
                        .channel(RdmaServerChannel.class)
                        .childHandler(
                                new ChannelInitializer<SocketChannel>() {
                                    @Override
                                    protected void initChannel(SocketChannel channel) {
                                        channel.pipeline().addLast(new Heard());
                                        accepted.add(channel);
                                    }
                                });
        ofServer.accept(server);
        listen();
    }

    /** Binds the server's port. */
    void listen() {
        listening =
                (RdmaServerChannel)
                        server.bind(FakeFabric.port(PORT)).syncUninterruptibly().channel();
    }

    /** A client that does not connect yet. */
    Bootstrap client(ChannelHandler handler) {
        Bootstrap client = new Bootstrap().group(group).channel(RdmaChannel.class).handler(handler);
        changes.accept(client);
        return client;
    }

    RdmaChannel connect() throws InterruptedException {
        return (RdmaChannel) client(new Heard()).connect(FakeFabric.port(PORT)).sync().channel();
    }

    RdmaChannel accepted() throws InterruptedException {
        return (RdmaChannel) accepted.poll(30, TimeUnit.SECONDS);
    }

    static Heard heard(RdmaChannel channel) {
        return channel.pipeline().get(Heard.class);
    }

    /** Ends the event loops; nothing native is left then, which the fabric checks. */
    @Override
    public void close() {
        group.shutdownGracefully(0, 30, TimeUnit.SECONDS).syncUninterruptibly();
        fabric.close();
    }
}
