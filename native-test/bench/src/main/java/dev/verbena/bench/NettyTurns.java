package dev.verbena.bench;

import static java.util.concurrent.TimeUnit.SECONDS;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import java.net.InetSocketAddress;
import java.util.concurrent.CompletableFuture;

/**
 * Processor time of a request of {@code --bytes} and its answer of 64 bytes through Netty, both
 * ends on one event loop: by Verbena on the stand-ins for rdma-core, or by TCP on the loopback
 * interface. The pipelines are the same: each end counts bytes, and has a buffer for each message
 * from its channel's allocator. Prints one line for each round, and what the loop allocated on the
 * heap. While it warms up, a client fills its messages: memory that was never written is one page
 * of zeros, which stays in the cache.
 */
public final class NettyTurns {
    private static final int ANSWER = 64;

    private NettyTurns() {}

    /**
     * Measures one of them.
     *
     * @param arguments {@code verbena|nio|epoll|io_uring}, and options
     * @throws Exception when the connection fails
     */
    public static void main(String[] arguments) throws Exception {
        Options options =
                new Options(
                        "NettyTurns verbena|nio|epoll|io_uring [--ms N] [--rounds N] [--bytes N]",
                        1,
                        arguments,
                        "--ms",
                        "--rounds",
                        "--bytes");
        String what = options.argument(0);
        Asking asking = new Asking(what, options.number("--bytes", ANSWER), options);
        NettyTransport transport = NettyTransport.named(what);
        EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, transport.loops());
        try {
            Channel server =
                    new ServerBootstrap()
                            .group(group)
                            .channel(transport.server())
                            .childOption(ChannelOption.TCP_NODELAY, true)
                            .childHandler(
                                    new ChannelInitializer<>() {
                                        @Override
                                        protected void initChannel(Channel accepted) {
                                            accepted.pipeline()
                                                    .addLast(new Answering(asking.bytes));
                                        }
                                    })
                            .bind(new InetSocketAddress(transport.address(), 0))
                            .sync()
                            .channel();
            Channel client =
                    new Bootstrap()
                            .group(group)
                            .channel(transport.client())
                            .option(ChannelOption.TCP_NODELAY, true)
                            .handler(asking)
                            .connect(server.localAddress())
                            .sync()
                            .channel();
            asking.over.get();
            client.close().sync();
            server.close().sync();
        } finally {
            group.shutdownGracefully(0, 10, SECONDS).sync();
        }
    }

    /** Takes messages of a length, and answers each by the next. */
    abstract static class End extends ChannelInboundHandlerAdapter {
        private final int expected;
        private int missing;

        End(int expected) {
            this.expected = expected;
            this.missing = expected;
        }

        abstract void whole(ChannelHandlerContext context);

        static void send(ChannelHandlerContext context, int bytes, boolean filled) {
            ByteBuf message = context.alloc().directBuffer(bytes, bytes);
            message = filled ? message.writeZero(bytes) : message.writerIndex(bytes);
            var _ = context.writeAndFlush(message, context.voidPromise());
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object read) {
            ByteBuf buffer = (ByteBuf) read;
            missing -= buffer.readableBytes();
            var _ = buffer.release();
            if (missing < 0) {
                throw new IllegalStateException(-missing + " bytes more than expected");
            }
            if (missing == 0) {
                missing = expected;
                whole(context);
            }
        }
    }

    static final class Answering extends End {
        Answering(int bytes) {
            super(bytes);
        }

        @Override
        void whole(ChannelHandlerContext context) {
            send(context, ANSWER, true);
        }
    }

    /** Asks, and measures. */
    private static final class Asking extends End {
        final CompletableFuture<Void> over = new CompletableFuture<>();
        private final int bytes;
        private final LoopRounds rounds;

        Asking(String what, int bytes, Options options) {
            super(ANSWER);
            this.bytes = bytes;
            String name = what + " bytes=" + bytes;
            this.rounds =
                    new LoopRounds(
                            options,
                            4,
                            ThreadClock.batch(bytes),
                            (nanos, heap) -> {
                                Results.print("netty", name, nanos, "ns");
                                if (bytes == ANSWER) {
                                    Results.print("netty-allocation", name, heap, "B");
                                }
                            });
        }

        @Override
        public void channelActive(ChannelHandlerContext context) {
            send(context, bytes, true);
        }

        @Override
        void whole(ChannelHandlerContext context) {
            if (rounds.goesOn()) {
                send(context, bytes, rounds.areWarmUps());
            } else {
                over.complete(null);
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable thrown) {
            over.completeExceptionally(thrown);
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            over.completeExceptionally(new IllegalStateException("The connection has ended"));
        }
    }
}
