package dev.verbena.bench;

import static java.util.concurrent.TimeUnit.SECONDS;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler.Sharable;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;

/**
 * What an idle channel of Netty takes over Verbena: of Java's heap and of the C heap ({@link
 * MemoryInUse}), without what the provider takes, which is the stand-in for libibverbs. All are
 * connected and stay open.
 */
public final class NettyIdle {
    private static final int FIRST = 100; // which load classes, and make what is made once

    private NettyIdle() {}

    /**
     * Measures.
     *
     * @param arguments options
     * @throws InterruptedException never
     */
    public static void main(String[] arguments) throws InterruptedException {
        Options options = new Options("NettyIdle [--count N]", 0, arguments, "--count");
        int count = options.number("--count", 1_000);
        NettyTransport transport = NettyTransport.named("verbena");
        EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, transport.loops());
        List<Channel> clients = new ArrayList<>((FIRST + count) / 2);
        try {
            Channel server =
                    new ServerBootstrap()
                            .group(group)
                            .channel(transport.server())
                            .childHandler(
                                    new ChannelInitializer<>() {
                                        @Override
                                        protected void initChannel(Channel accepted) {}
                                    })
                            .bind(new InetSocketAddress(transport.address(), 0))
                            .sync()
                            .channel();
            Bootstrap client =
                    new Bootstrap()
                            .group(group)
                            .channel(transport.client())
                            .handler(new Idle())
                            .remoteAddress(server.localAddress());
            connect(client, clients, FIRST / 2);
            MemoryInUse before = MemoryInUse.now().withoutProvider();
            connect(client, clients, count / 2);
            MemoryInUse.now().withoutProvider().print("netty-idle", before, count);
            for (Channel one : clients) { // until here, all are reachable
                if (!one.isActive()) {
                    throw new IllegalStateException(one + " has ended");
                }
            }
        } finally {
            group.shutdownGracefully(0, 30, SECONDS).sync();
        }
    }

    private static void connect(Bootstrap client, List<Channel> clients, int count)
            throws InterruptedException {
        for (int i = 0; i < count; i++) {
            clients.add(client.connect().sync().channel());
        }
    }

    /** Many channels have this one. */
    @Sharable
    private static final class Idle extends ChannelInboundHandlerAdapter {}
}
