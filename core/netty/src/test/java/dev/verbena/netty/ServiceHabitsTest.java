package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.ConnectionOptions;
import dev.verbena.PathOptions;
import dev.verbena.Until;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateChange.Attribute;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.netty.Connected.Heard;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelConfig;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelProgressiveFuture;
import io.netty.channel.ChannelProgressiveFutureListener;
import io.netty.channel.ChannelProgressivePromise;
import io.netty.channel.ChannelPromise;
import io.netty.channel.DefaultFileRegion;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.channel.IoEventLoop;
import io.netty.channel.IoRegistration;
import io.netty.channel.RecvByteBufAllocator;
import io.netty.channel.RecvByteBufAllocator.DelegatingHandle;
import io.netty.channel.socket.ServerSocketChannelConfig;
import io.netty.channel.socket.SocketChannelConfig;
import io.netty.handler.codec.ByteToMessageDecoder;
import io.netty.util.IllegalReferenceCountException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.nio.channels.AlreadyBoundException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.UnresolvedAddressException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/** What services do that were written for Netty's sockets, and what they rely on. */
@Timeout(120)
class ServiceHabitsTest {
    @Test
    void aPortThatIsTakenIsABindException() throws Exception {
        try (Connected pair = new Connected()) {
            assertThatThrownBy(
                            () ->
                                    new ServerBootstrap()
                                            .group(pair.group)
                                            .channel(RdmaServerChannel.class)
                                            .childHandler(new Heard())
                                            .bind(FakeFabric.port(Connected.PORT))
                                            .sync())
                    .isInstanceOf(BindException.class);
        }
    }

    /** Netty's NIO channels fail so, too. */
    @Test
    void aLocalAddressOfNobodyIsABindException() {
        try (Connected pair = new Connected()) {
            assertThatThrownBy(
                            () ->
                                    pair.client(new Heard())
                                            .connect(
                                                    FakeFabric.port(Connected.PORT),
                                                    new InetSocketAddress("192.0.2.1", 0))
                                            .sync())
                    .isInstanceOf(SocketException.class)
                    .hasCauseInstanceOf(BindException.class)
                    .hasMessageContaining("192.0.2.1 is not an address of this machine");
        }
    }

    @Test
    void aChannelIsBoundOnce() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            InetSocketAddress before = client.localAddress();
            for (Channel bound : new Channel[] {client, pair.accepted(), pair.listening}) {
                assertThatThrownBy(() -> bound.bind(FakeFabric.port(0)).sync())
                        .isInstanceOf(AlreadyBoundException.class);
            }
            assertThat(client.localAddress()).isEqualTo(before);
        }
    }

    /** A server that is bound to the wildcard address has this address, and clients take it. */
    @Test
    void theWildcardAddressIsThisMachine() throws Exception {
        try (Connected pair = new Connected()) {
            Channel server =
                    new ServerBootstrap()
                            .group(pair.group)
                            .channel(RdmaServerChannel.class)
                            .childHandler(new Heard())
                            .bind(0)
                            .sync()
                            .channel();
            Channel client =
                    pair.client(new Heard()).connect(server.localAddress()).sync().channel();
            assertThat(((InetSocketAddress) client.remoteAddress()).getAddress())
                    .isEqualTo(FakeFabric.HERE);
        }
    }

    /** As over TCP, where a read finds the end. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRoundOfReadsCompletesAtTheEndOfTheStream(boolean closesThen) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            server.pipeline()
                    .addFirst(
                            new ChannelInboundHandlerAdapter() {
                                @Override
                                public void channelReadComplete(ChannelHandlerContext context) {
                                    atServer.events.add("complete");
                                    if (closesThen) {
                                        context.close();
                                    }
                                }
                            });
            server.eventLoop().submit(() -> {}).sync(); // until then, nothing calls the handler
            client.close().sync();
            assertThat(atServer.next()).isEqualTo("complete");
            assertThat(atServer.next()).isEqualTo("inactive");
        }
    }

    @Test
    void anAddressThatIsNotResolvedIsRefused() {
        try (Connected pair = new Connected()) {
            InetSocketAddress unknown = InetSocketAddress.createUnresolved("x.invalid", 80);
            assertThatThrownBy(
                            () ->
                                    pair.client(new Heard())
                                            .disableResolver()
                                            .connect(unknown)
                                            .sync())
                    .isInstanceOf(UnresolvedAddressException.class);
        }
    }

    /** Its memory may be another buffer's: the peer must not get that. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aReleasedBufferFailsItsOwnWriteOnly(boolean direct) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            ByteBuf released = direct ? client.alloc().directBuffer() : Unpooled.buffer();
            released.writeZero(100).release();
            assertThatThrownBy(() -> client.writeAndFlush(released).sync())
                    .isInstanceOf(IllegalReferenceCountException.class);
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[10])).sync();
            Until.holds(() -> atServer.bytes == 10);
        }
    }

    /** It cannot move to another event loop. */
    @Test
    void aChannelThatIsDeregisteredCloses() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            Heard atServer = heard(pair.accepted());
            client.deregister().sync();
            assertThat(atClient.next()).isEqualTo("inactive");
            assertThat(atServer.next()).isEqualTo("inactive");
            client.eventLoop().submit(() -> {}).sync();
            assertThat(atClient.events).isEmpty();
        }
    }

    @Test
    void aConnectFailsWhenItsChannelIsDeregistered() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.option(ChannelOption.AUTO_READ, false),
                        client -> {})) {
            ChannelFuture connect =
                    pair.client(new Heard()).connect(FakeFabric.port(Connected.PORT));
            Until.holds(() -> pair.listening.waiting.size() == 1);
            connect.channel().deregister().sync();
            assertThat(connect.cause()).isInstanceOf(ClosedChannelException.class);
            assertThat(connect.channel().isOpen()).isFalse();
        }
    }

    /** A timer of the program may fail it. Nothing else would close the channel then. */
    @Test
    void aConnectWhosePromiseHasFailedClosesItsChannel() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.option(ChannelOption.AUTO_READ, false),
                        client -> {})) {
            Channel client = pair.client(new Heard()).register().sync().channel();
            ChannelPromise connect = client.newPromise();
            client.connect(FakeFabric.port(Connected.PORT), connect);
            Until.holds(() -> pair.listening.waiting.size() == 1);
            assertThat(connect.tryFailure(new IOException("took too long"))).isTrue();
            pair.listening.read();
            assertThat(client.closeFuture().await(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    /** Netty's contract allows each thread to cancel. */
    @Test
    void aRegistrationIsCancelledByAnyThread() throws Exception {
        try (Connected pair = new Connected()) {
            CompletableFuture<Boolean> unregistered = new CompletableFuture<>();
            IoEventLoop loop = (IoEventLoop) pair.group.next();
            RdmaHandle handle =
                    new RdmaHandle() {
                        @Override
                        public void close() {}

                        @Override
                        public void unregistered() {
                            unregistered.complete(loop.inEventLoop());
                        }
                    };
            IoRegistration registration = loop.register(handle).get();
            assertThat(registration.cancel()).isTrue();
            assertThat(unregistered.get(30, TimeUnit.SECONDS)).isTrue();
            assertThat(registration.cancel()).isFalse();
        }
    }

    /** Its channel ends, and the event loop goes on. */
    @Test
    @SuppressWarnings("deprecation") // no other handle delegates
    void aRoundOfReadsThatThrowsEndsItsChannel() throws Exception {
        RecvByteBufAllocator throwing =
                () ->
                        new DelegatingHandle(new FixedRecvByteBufAllocator(1).newHandle()) {
                            @Override
                            public void readComplete() {
                                throw new IllegalStateException("as if");
                            }
                        };
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            server.config().setRecvByteBufAllocator(throwing);
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[10])).sync();
            assertThat(atServer.next())
                    .isInstanceOfSatisfying(
                            IllegalStateException.class,
                            thrown -> assertThat(thrown).hasMessage("as if"));
            assertThat(atServer.next()).isEqualTo("inactive");
        }
    }

    /** Each is sent in several messages. */
    @Test
    void aWriteOfAFileIsDoneWhenThePeerHasAllOfIt(@TempDir Path folder) throws Exception {
        long bytes = 5 << 20;
        Path file = Files.write(folder.resolve("file"), new byte[(int) bytes]);
        List<Long> arrived = new CopyOnWriteArrayList<>();
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            for (int i = 0; i < 3; i++) {
                ChannelProgressivePromise write = client.newProgressivePromise();
                write.addListener(
                        new ChannelProgressiveFutureListener() {
                            private long last;

                            @Override
                            public void operationProgressed(
                                    ChannelProgressiveFuture future, long progress, long total) {
                                last = progress;
                            }

                            @Override
                            public void operationComplete(ChannelProgressiveFuture future) {
                                arrived.add(last);
                            }
                        });
                client.writeAndFlush(new DefaultFileRegion(file.toFile(), 0, bytes), write).sync();
            }
            Until.holds(() -> arrived.size() == 3);
            assertThat(arrived).containsOnly(bytes);
        }
    }

    // ---- options

    private static <T> void keeps(ChannelConfig config, ChannelOption<T> option, T value) {
        assertThat(config.setOption(option, value)).isTrue();
        assertThat(config.getOption(option)).isEqualTo(value);
        assertThat(config.getOptions()).containsEntry(option, value);
    }

    @Test
    @SuppressWarnings("deprecation") // options that services set
    void optionsSayWhatWasSet() {
        SocketChannelConfig client = new RdmaChannel().config();
        assertThat(client.getReceiveBufferSize()).isPositive();
        assertThat(client.getSendBufferSize()).isPositive();
        for (boolean value : new boolean[] {false, true}) {
            keeps(client, ChannelOption.TCP_NODELAY, value);
            keeps(client, ChannelOption.SO_KEEPALIVE, value);
            keeps(client, ChannelOption.SO_REUSEADDR, value);
            keeps(client, ChannelOption.ALLOW_HALF_CLOSURE, value);
        }
        keeps(client, ChannelOption.SO_RCVBUF, 4096);
        keeps(client, ChannelOption.SO_SNDBUF, 8192);
        keeps(client, ChannelOption.SO_LINGER, 3);
        keeps(client, ChannelOption.IP_TOS, 8);
        keeps(client, RdmaChannelOption.TRAFFIC_CLASS, 16);
        assertThat(client.getOption(ChannelOption.IP_TOS)).isEqualTo(16);
        keeps(client, ChannelOption.WRITE_BUFFER_HIGH_WATER_MARK, 64 << 10);
        assertThat(client.getWriteBufferLowWaterMark()).isEqualTo(32 << 10); // Netty's default
        client.setTcpNoDelay(false).setKeepAlive(false).setReuseAddress(false);
        client.setReceiveBufferSize(1).setSendBufferSize(2);
        assertThat(client.getOptions())
                .containsEntry(ChannelOption.TCP_NODELAY, client.isTcpNoDelay())
                .containsEntry(ChannelOption.SO_KEEPALIVE, client.isKeepAlive())
                .containsEntry(ChannelOption.SO_REUSEADDR, client.isReuseAddress())
                .containsEntry(ChannelOption.SO_RCVBUF, client.getReceiveBufferSize())
                .containsEntry(ChannelOption.SO_SNDBUF, client.getSendBufferSize())
                .containsEntry(ChannelOption.TCP_NODELAY, false)
                .containsEntry(ChannelOption.SO_RCVBUF, 1);

        ServerSocketChannelConfig server = new RdmaServerChannel().config();
        assertThat(server.getReceiveBufferSize()).isPositive();
        keeps(server, ChannelOption.SO_BACKLOG, 1024);
        keeps(server, ChannelOption.SO_REUSEADDR, false);
        keeps(server, ChannelOption.SO_RCVBUF, 4096);
        keeps(server, RdmaChannelOption.TRAFFIC_CLASS, 16);
    }

    /** Of the messages' options, too: Netty's change what they set. */
    @Test
    void aConnectionHasTheOptionsOfBoth() throws Exception {
        ConnectionOptions connection =
                ConnectionOptions.DEFAULTS.withPath(PathOptions.DEFAULTS.withRetries(1));
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS.withMessaging(
                                RdmaOptions.DEFAULTS.messaging().withConnection(connection)),
                        server -> server.option(RdmaChannelOption.TRAFFIC_CLASS, 16),
                        client -> client.option(RdmaChannelOption.TRAFFIC_CLASS, 8))) {
            pair.connect();
            pair.accepted();
            assertThat(pair.fabric.changed(StateChange.READY_TO_SEND, Attribute.RETRIES))
                    .containsExactly(1, 1);
            assertThat(pair.fabric.changed(StateChange.READY_TO_RECEIVE, Attribute.TRAFFIC_CLASS))
                    .containsExactlyInAnyOrder(8, 16);
        }
    }

    /** Netty's bootstraps log a warning. */
    @Test
    void otherOptionsOfTcpAreUnknown() {
        assertThat(new RdmaChannel().config().setOption(ChannelOption.TCP_FASTOPEN_CONNECT, true))
                .isFalse();
        ChannelConfig server = new RdmaServerChannel().config();
        assertThat(server.setOption(ChannelOption.TCP_NODELAY, true)).isFalse(); // of its children
        assertThat(server.getOption(ChannelOption.TCP_NODELAY)).isNull();
    }

    @Test
    void buffersOfNoBytesAreRefused() {
        for (var option : List.of(ChannelOption.SO_RCVBUF, ChannelOption.SO_SNDBUF)) {
            for (int bytes : new int[] {-1, 0}) {
                ChannelConfig config = new RdmaChannel().config();
                assertThatThrownBy(() -> config.setOption(option, bytes))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining(option.name());
            }
        }
    }

    // ---- what was read

    /** Appends to what it has read, in two steps, and sends it back. */
    private static final class Appender extends ChannelInboundHandlerAdapter {
        private final byte[] more;
        private final boolean sliced;

        Appender(byte[] more, boolean sliced) {
            this.more = more;
            this.sliced = sliced;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf buffer = (ByteBuf) message;
            buffer.writeBytes(more);
            if (sliced) { // its memory stays while the buffer moves away
                context.writeAndFlush(buffer.retainedSlice());
            }
            context.writeAndFlush(buffer.writeBytes(more));
        }
    }

    /** In the memory of the receive, and beyond. */
    @ParameterizedTest
    @ValueSource(ints = {10, 10_000, 100_000})
    void aPipelineMayAppendToWhatItHasRead(int more) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            atClient.keeps = true;
            RdmaChannel server = pair.accepted();
            byte[] suffix = new byte[more];
            new Random(more).nextBytes(suffix);
            for (boolean sliced : new boolean[] {false, true}) {
                Appender appender = new Appender(suffix, sliced);
                server.eventLoop().submit(() -> server.pipeline().addFirst(appender)).sync();
                for (int i = 0; i < 100; i++) { // the receives are used again
                    byte[] question = ("question " + i).getBytes(StandardCharsets.US_ASCII);
                    ByteBuf answer =
                            sliced
                                    ? Unpooled.wrappedBuffer(
                                            question, suffix, question, suffix, suffix)
                                    : Unpooled.wrappedBuffer(question, suffix, suffix);
                    long before = atClient.bytes;
                    client.writeAndFlush(Unpooled.wrappedBuffer(question)).sync();
                    Until.holds(() -> atClient.bytes == before + answer.readableBytes());
                    ByteBuf heard = Unpooled.wrappedBuffer(atClient.kept.toArray(new ByteBuf[0]));
                    assertThat(heard).isEqualTo(answer);
                    atClient.kept.clear();
                    heard.release();
                }
                server.pipeline().remove(appender);
            }
        }
    }

    /** Another reference may belong to a slice that the device is still sending. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void memoryThatABufferHasOutgrownIsFreeIfNobodyElseUsesIt(int references) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            atServer.keeps = true;
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[10])).sync();
            Until.holds(() -> atServer.bytes == 10);
            ByteBuf read = Objects.requireNonNull(atServer.kept.poll()).capacity(100_000);
            long outgrown = read.memoryAddress();
            if (references == 2) {
                read.retain();
            }
            read.capacity(200_000);
            ByteBuf next = client.alloc().directBuffer(100_000); // takes what was freed last
            assertThat(next.memoryAddress() == outgrown).isEqualTo(references == 1);
            next.release();
            read.release(references);
        }
    }

    /** A decoder that keeps a few bytes of a long message does not copy those that it has read. */
    @Test
    void joiningCopiesWhatIsUnreadOnly() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            atServer.keeps = true;
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[1 << 20])).sync();
            Until.holds(() -> atServer.bytes == 1 << 20);
            ByteBuf read = Objects.requireNonNull(atServer.kept.poll());
            ByteBuf rest = read.skipBytes(read.readableBytes() - 1);
            ByteBuf joined =
                    ByteToMessageDecoder.MERGE_CUMULATOR.cumulate(
                            client.alloc(), rest, Unpooled.wrappedBuffer(new byte[100_000]));
            assertThat(joined.readableBytes()).isEqualTo(100_001);
            assertThat(joined.capacity()).isLessThan(1 << 20);
            joined.release();
            atServer.kept.forEach(ByteBuf::release);
        }
    }
}
