package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.testsuite.transport.TestsuitePermutation.BootstrapComboFactory;
import io.netty.testsuite.transport.socket.SocketFileRegionTest;
import io.netty.testsuite.transport.socket.SocketHalfClosedTest;
import io.netty.testsuite.transport.socket.SocketStringEchoTest;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.SocketAddress;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Netty's channels between two devices, and a part of Netty's own tests of sockets. */
@NeedsDevices
@Timeout(180)
class NettyTest {
    private static NettySides sides;

    @BeforeAll
    static void open() {
        sides = new NettySides(2);
    }

    @AfterAll
    static void close() {
        if (sides != null) {
            sides.close();
        }
    }

    /** Compares what comes back with what was sent. */
    private static final class Compares extends ChannelInboundHandlerAdapter {
        private final ByteBuf sent;
        private final CompletableFuture<String> equal = new CompletableFuture<>();
        private int at;

        Compares(ByteBuf sent) {
            this.sent = sent;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf part = (ByteBuf) message;
            int length = part.readableBytes();
            if (at + length > sent.capacity() || !part.equals(sent.slice(at, length))) {
                equal.complete("what came back differs after %,d bytes".formatted(at));
            }
            at += length;
            part.release();
            if (at == sent.capacity()) {
                equal.complete("equal");
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            equal.completeExceptionally(cause);
        }
    }

    @Test
    void bytesComeBackWithoutACopyByTheSender() throws Exception {
        var server = sides.echo();
        var client =
                (RdmaChannel)
                        new Bootstrap()
                                .group(sides.clients)
                                .channel(RdmaChannel.class)
                                .handler(new ChannelInboundHandlerAdapter())
                                .connect(server.localAddress())
                                .sync()
                                .channel();
        byte[] bytes = new byte[4_000_000];
        new Random(5).nextBytes(bytes);
        ByteBuf sent = client.alloc().directBuffer(bytes.length).writeBytes(bytes);
        Compares compares = new Compares(sent);
        client.pipeline().addLast(compares);
        Random lengths = new Random(6);
        for (int at = 0; at < bytes.length; ) {
            int length = Math.min(1024 + lengths.nextInt(100_000), bytes.length - at);
            client.writeAndFlush(sent.retainedSlice(at, length));
            at += length;
        }
        assertThat(compares.equal.get(150, TimeUnit.SECONDS)).isEqualTo("equal");
        assertThat(client.copiedBytes()).isLessThan(1024); // the last slice may be short
        client.close().sync();
        server.close().sync();
        sent.release();
    }

    private static List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> pairs() {
        return List.of(
                new BootstrapComboFactory<>() {
                    @Override
                    public ServerBootstrap newServerInstance() {
                        return new ServerBootstrap()
                                .group(sides.servers)
                                .channel(RdmaServerChannel.class);
                    }

                    @Override
                    public Bootstrap newClientInstance() {
                        return new Bootstrap().group(sides.clients).channel(RdmaChannel.class);
                    }
                });
    }

    @Nested
    class StringEcho extends SocketStringEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return sides.address;
        }
    }

    @Nested
    class HalfClosed extends SocketHalfClosedTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return sides.address;
        }
    }

    @Nested
    class FileRegion extends SocketFileRegionTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return sides.address;
        }
    }
}
