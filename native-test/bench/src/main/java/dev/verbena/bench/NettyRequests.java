package dev.verbena.bench;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.util.concurrent.TimeUnit.SECONDS;

import dev.verbena.messaging.IdleStrategy;
import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaIoHandler;
import dev.verbena.netty.RdmaOptions;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.bootstrap.AbstractBootstrap;
import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.unix.RawUnixChannelOption;
import io.netty.util.concurrent.FutureListener;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.ByteBuffer;
import java.nio.file.Path;

/**
 * Requests of 64 bytes and their answers through Netty, one after the other: between two RDMA
 * devices, or by epoll over TCP between the network devices with the same addresses. Event loops
 * sleep while they wait. The client runs {@code c/mark.c} when it is warm and after each round, so
 * that the emulator counts the requests of a round.
 */
public final class NettyRequests {
    private static final int BYTES = 64;
    private static final int SOL_SOCKET = 1;
    private static final int SO_BINDTODEVICE = 25;

    private NettyRequests() {}

    /**
     * Serves or asks.
     *
     * @param arguments "server" or "client" and the server's address, then options
     * @throws Exception when the connection fails
     */
    public static void main(String[] arguments) throws Exception {
        Options options =
                new Options(
                        "NettyRequests server|client ADDRESS --over verbena|epoll [--from ADDRESS] [--port N] [--mark LIBRARY] [--warmup N] [--count N] [--rounds N]",
                        2,
                        arguments,
                        "--over",
                        "--from",
                        "--port",
                        "--mark",
                        "--warmup",
                        "--count",
                        "--rounds");
        boolean verbena = options.is("--over", "verbena");
        InetAddress here = options.server() ? options.address().getAddress() : options.from();
        var group =
                new MultiThreadIoEventLoopGroup(
                        1,
                        verbena
                                ? RdmaIoHandler.newFactory(
                                        Options.adapterOf(here),
                                        RdmaOptions.DEFAULTS.withIdle(IdleStrategy.events()))
                                : EpollIoHandler.newFactory());
        group.submit(NettyRequests::pin).sync();
        if (options.server()) {
            var server =
                    new ServerBootstrap()
                            .group(group)
                            .channel(
                                    verbena
                                            ? RdmaServerChannel.class
                                            : EpollServerSocketChannel.class)
                            .childOption(ChannelOption.TCP_NODELAY, true)
                            .childHandler(
                                    new ChannelInitializer<>() {
                                        @Override
                                        protected void initChannel(Channel accepted) {
                                            endsWith(accepted);
                                            accepted.pipeline()
                                                    .addLast(new NettyTurns.Answering(BYTES));
                                        }
                                    });
            through(here, server, verbena).bind(options.address()).sync();
            System.out.println("LISTENING");
        } else {
            var client =
                    new Bootstrap()
                            .group(group)
                            .channel(verbena ? RdmaChannel.class : EpollSocketChannel.class)
                            .option(ChannelOption.TCP_NODELAY, true)
                            .handler(new Asking(options))
                            .localAddress(here, 0);
            endsWith(through(here, client, verbena).connect(options.address()).sync().channel());
        }
    }

    /**
     * Binds this thread to the first processor: on two, whichever side emulation delays keeps the
     * other in a spin lock of the kernel, for half of what is counted.
     */
    private static void pin() {
        MethodHandle set =
                function(
                        Linker.nativeLinker().defaultLookup(),
                        "sched_setaffinity",
                        FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS));
        try (Arena arena = Arena.ofConfined()) {
            if ((int) set.invokeExact(0, 8L, arena.allocateFrom(JAVA_LONG, 1)) != 0) {
                throw new IllegalStateException("This thread cannot be bound to a processor");
            }
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    @SuppressWarnings("restricted")
    private static MethodHandle function(
            SymbolLookup library, String name, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(library.findOrThrow(name), type);
    }

    /** When a channel closes, its event loop ends, and the process with it. */
    private static void endsWith(Channel channel) {
        EventLoopGroup group = channel.eventLoop().parent();
        FutureListener<Void> end =
                _ -> {
                    var _ = group.shutdownGracefully(0, 10, SECONDS);
                };
        var _ = channel.closeFuture().addListener(end);
    }

    /**
     * Has TCP use the network device with that address: both are of one machine, which would take
     * the loopback interface.
     */
    private static <B extends AbstractBootstrap<B, ?>> B through(
            InetAddress address, B bootstrap, boolean verbena) throws IOException {
        if (verbena) {
            return bootstrap;
        }
        byte[] name = NetworkInterface.getByInetAddress(address).getName().getBytes(US_ASCII);
        return bootstrap.option(
                new RawUnixChannelOption(
                        "SO_BINDTODEVICE", SOL_SOCKET, SO_BINDTODEVICE, name.length),
                ByteBuffer.wrap(name));
    }

    /** Asks, and marks the ends of rounds. */
    private static final class Asking extends NettyTurns.End {
        private final int warmup;
        private final int count;
        private final int last;
        private final MethodHandle mark;
        private int answers;

        @SuppressWarnings("restricted")
        Asking(Options options) {
            super(BYTES);
            warmup = options.number("--warmup", 20_000);
            count = options.number("--count", 2_000);
            last = warmup + options.number("--rounds", 5) * count;
            mark =
                    function(
                            SymbolLookup.libraryLookup(
                                    Path.of(options.text("--mark")), Arena.global()),
                            "main",
                            FunctionDescriptor.of(JAVA_INT));
        }

        @Override
        public void channelActive(ChannelHandlerContext context) {
            send(context, BYTES, false);
        }

        @Override
        void whole(ChannelHandlerContext context) {
            answers++;
            if (answers >= warmup && (answers - warmup) % count == 0) {
                mark();
            }
            if (answers < last) {
                send(context, BYTES, false);
            } else {
                var _ = context.close();
            }
        }

        private void mark() {
            try {
                int ignored = (int) mark.invokeExact();
            } catch (Throwable t) {
                throw new AssertionError(t);
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable thrown) {
            thrown.printStackTrace();
            System.exit(1);
        }
    }
}
