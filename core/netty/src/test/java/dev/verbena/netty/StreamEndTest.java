package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.netty.Connected.Heard;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOption;
import io.netty.channel.DefaultFileRegion;
import io.netty.channel.SingleThreadIoEventLoop;
import io.netty.util.ReferenceCountUtil;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.SocketException;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** How streams end: one that is cut off does not look like one that was closed. */
@Timeout(120)
class StreamEndTest {
    private static ByteBuf bytes(int count) {
        return Unpooled.wrappedBuffer(new byte[count]);
    }

    /** Its servers read nothing until they are told to. */
    private static Connected unread(Consumer<Bootstrap> ofClient) {
        return new Connected(
                RdmaOptions.DEFAULTS,
                server -> server.childOption(ChannelOption.AUTO_READ, false),
                ofClient);
    }

    /** Until it takes no more, as its peer does not read. */
    private static List<ByteBuf> fill(RdmaChannel channel) throws InterruptedException {
        List<ByteBuf> written = new ArrayList<>();
        while (channel.isWritable()) {
            ByteBuf buffer = channel.alloc().directBuffer(5000).writeZero(5000);
            written.add(buffer);
            channel.writeAndFlush(buffer);
            channel.eventLoop().submit(() -> {}).sync();
        }
        return written;
    }

    private static void isCut(Heard at) throws InterruptedException {
        assertThat(at.next())
                .isInstanceOfSatisfying(
                        SocketException.class,
                        thrown ->
                                assertThat(thrown)
                                        .hasMessageStartingWith("Connection reset by peer: ")
                                        .hasMessageContaining("had not closed it")
                                        .cause()
                                        .isInstanceOfSatisfying(
                                                MessagingException.class,
                                                why ->
                                                        assertThat(why.status())
                                                                .isEqualTo(
                                                                        Status
                                                                                .CONNECTION_ABORTED)));
        assertThat(at.next()).isEqualTo("inactive");
    }

    /** The server reads nothing, and the client does not wait until it does. */
    @Test
    void aCloseThatDropsBytesCutsTheStream() throws Exception {
        try (Connected pair = unread(client -> client.option(ChannelOption.SO_LINGER, 0))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            fill(client);
            client.close().sync();
            isCut(atServer);
        }
    }

    /** As over TCP. */
    @Test
    void aCloseThatDoesNotLingerCutsTheStream() throws Exception {
        try (Connected pair = unread(client -> client.option(ChannelOption.SO_LINGER, 0))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            client.writeAndFlush(bytes(5000)).sync();
            client.close().sync();
            isCut(atServer);
        }
    }

    @Test
    void aCloseThatDropsNothingEndsTheStream() throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            client.writeAndFlush(bytes(5000)).sync();
            client.close().sync();
            server.config().setAutoRead(true);
            assertThat(atServer.next()).isEqualTo("inactive");
            assertThat(atServer.bytes).isEqualTo(5000);
        }
    }

    /** A file that is shorter than its region ends the channel that sends it. */
    @Test
    void aWriteThatFailsCutsTheStream(@TempDir Path folder) throws Exception {
        Path file = Files.write(folder.resolve("short"), new byte[1000]);
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            ChannelFuture write =
                    client.writeAndFlush(new DefaultFileRegion(file.toFile(), 0, 2000));
            assertThat(write.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(write.cause()).isInstanceOf(IOException.class);
            isCut(atServer);
        }
    }

    /** A file region that throws something else than an IOException. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aWriteThatThrowsCutsTheStream(boolean autoClose, @TempDir Path folder) throws Exception {
        Path file = Files.write(folder.resolve("file"), new byte[1000]);
        DefaultFileRegion broken =
                new DefaultFileRegion(file.toFile(), 0, 1000) {
                    @Override
                    public long transferTo(WritableByteChannel to, long position)
                            throws IOException {
                        if (autoClose) {
                            throw new IllegalStateException("broken");
                        }
                        throw new IOException("broken");
                    }
                };
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> {},
                        client -> client.option(ChannelOption.AUTO_CLOSE, autoClose))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            ChannelFuture write = client.writeAndFlush(broken);
            assertThat(write.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(write.cause()).hasRootCauseMessage("broken");
            isCut(atServer);
        }
    }

    /** On a device without inline data, which has no memory for the frame. */
    @Test
    void anEndThatCannotBeSentCutsTheStream() throws Exception {
        try (Connected pair = new Connected()) {
            pair.fabric.device.maxInline = 0; // nobody has asked for it yet
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            pair.fabric.device.controlError = 12; // ENOMEM
            client.shutdownOutput().sync();
            isCut(atServer);
        }
    }

    /** Netty calls neither close then: its buffer still has what was flushed. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCloseByForceCutsTheStream(boolean disconnects) throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            fill(client);
            ChannelFuture write = client.writeAndFlush(bytes(10));
            Until.holds(() -> registered(pair) == 3);
            client.eventLoop()
                    .submit(
                            () -> {
                                if (disconnects) {
                                    client.unsafe().disconnect(client.newPromise());
                                } else {
                                    client.unsafe().closeForcibly();
                                }
                            })
                    .sync();
            isCut(atServer);
            assertThat(write.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(write.isSuccess()).isFalse();
            Until.holds(() -> registered(pair) == 1); // the server channel
        }
    }

    private static int registered(Connected pair) {
        return pair.handlers.stream().mapToInt(RdmaIoHandler::channels).sum();
    }

    /** As when its process dies. */
    @Test
    void aPeerThatEndsWithoutAWordCutsTheStream() throws Exception {
        try (Connected pair = new Connected();
                Poller poller = Poller.start(pair.fabric.adapter, IdleStrategy.events());
                MessageChannel peer =
                        MessageChannel.connect(
                                poller,
                                FakeFabric.port(Connected.PORT),
                                MessagingOptions.DEFAULTS,
                                null)) {
            Heard atServer = heard(pair.accepted());
            peer.send(MemorySegment.ofArray(new byte[100]), Duration.ofSeconds(30));
            Until.holds(() -> atServer.bytes == 100);
            peer.abort("it was told to");
            isCut(atServer);
        }
    }

    /** Its peer has closed, which it may not know yet. */
    private static ChannelFuture writeUntilItFails(RdmaChannel channel)
            throws InterruptedException {
        ChannelFuture write;
        do {
            write = channel.writeAndFlush(bytes(10));
        } while (write.await(30, TimeUnit.SECONDS) && write.isSuccess());
        return write;
    }

    /** Nothing is left to be read then. */
    @Test
    void aChannelWhosePeerHasClosedEndsWithItsInput() throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            client.writeAndFlush(bytes(1000)).sync();
            client.close().sync();
            assertThat(writeUntilItFails(server).isDone()).isTrue();
            assertThat(server.isOpen()).isTrue();
            server.shutdownInput().sync();
            assertThat(server.closeFuture().await(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    /** Nor does it wait for ever, when the program reads again only once it is written. */
    @Test
    void aWriteFailsWhenThePeerHasClosedAndBytesWaitToBeRead() throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            client.writeAndFlush(bytes(1000)).sync();
            client.writeAndFlush(bytes(1000)).sync();
            client.close().sync();
            server.read();
            Until.holds(() -> atServer.bytes == 1000);
            assertThat(writeUntilItFails(server).cause())
                    .isInstanceOf(IOException.class)
                    .hasCauseInstanceOf(MessagingException.class);
            server.config().setAutoRead(true);
            assertThat(server.closeFuture().await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(atServer.bytes).isEqualTo(2000);
        }
    }

    @Test
    void aWriteFailsWithTheReasonWhenThePeerHasClosed() throws Exception {
        try (Connected pair = unread(client -> client.option(ChannelOption.AUTO_READ, false))) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            fill(server);
            ChannelFuture flushed = server.writeAndFlush(bytes(10));
            ChannelFuture written = server.write(bytes(10));
            server.eventLoop()
                    .submit(() -> {})
                    .sync(); // both are in its queue before the end comes
            client.close().sync();
            for (ChannelFuture write : List.of(flushed, written)) {
                assertThat(write.await(30, TimeUnit.SECONDS)).isTrue();
                assertThat(write.cause())
                        .isInstanceOf(IOException.class)
                        .hasStackTraceContaining(MessagingException.class.getName());
            }
        }
    }

    /** Not only once the program has read what waits, and closes the channel. */
    @Test
    void whatWaitsToBeSentIsReleasedWhenThePeerHasClosed() throws Exception {
        try (Connected pair = unread(client -> client.option(ChannelOption.AUTO_READ, false))) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            client.writeAndFlush(bytes(1000)).sync();
            List<ByteBuf> written = fill(server);
            client.close().sync();
            Until.holds(() -> written.stream().allMatch(buffer -> buffer.refCnt() == 0));
            assertThat(server.isOpen()).isTrue();
        }
    }

    @Test
    void aCloseThatWaitsIsDoneWhenAWriteFails(@TempDir Path folder) throws Exception {
        Path file = Files.write(folder.resolve("short"), new byte[1000]);
        try (Connected pair = unread(client -> client.option(ChannelOption.SO_LINGER, 3600))) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            fill(client);
            client.writeAndFlush(new DefaultFileRegion(file.toFile(), 0, 2000));
            ChannelFuture close = client.close();
            server.config().setAutoRead(true);
            assertThat(close.await(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    /** What was written cannot arrive, however long the close may take. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void noCloseWaitsForAPeerThatHasClosed(boolean begun) throws Exception {
        try (Connected pair = unread(client -> client.option(ChannelOption.AUTO_READ, false))) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            server.config().setSoLinger(3600);
            fill(server);
            if (begun) {
                client.writeAndFlush(bytes(1000)).sync(); // which the server does not read
                server.close();
            }
            client.close().sync();
            assertThat(server.closeFuture().await(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    @Test
    void aCloseThatWaitsReadsNothing() throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            fill(client);
            ChannelFuture close = client.close();
            client.eventLoop().submit(() -> {}).sync();
            server.writeAndFlush(bytes(10)).sync();
            server.config().setAutoRead(true);
            close.sync();
            assertThat(atClient.bytes).isZero();
        }
    }

    /** Nor what came before the close. */
    @Test
    void aCloseThatWaitsReadsNothingThatWaits() throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            AtomicInteger reads = new AtomicInteger();
            ChannelInboundHandlerAdapter first =
                    new ChannelInboundHandlerAdapter() {
                        @Override
                        public void channelRead(ChannelHandlerContext context, Object message) {
                            ReferenceCountUtil.release(message);
                            reads.incrementAndGet();
                            context.writeAndFlush(bytes(5000));
                            context.close();
                        }
                    };
            // By the loop: it is first also for the handlers that the activation adds.
            server.eventLoop().submit(() -> server.pipeline().addFirst(first)).sync();
            for (int i = 0; i < 5; i++) {
                client.writeAndFlush(bytes(1000)).sync();
            }
            server.config().setAutoRead(true);
            server.closeFuture().sync();
            assertThat(reads).hasValue(1);
        }
    }

    /** It has begun: nothing more is written or read. */
    @Test
    void aCloseThatWaitsGoesOnWhenItsPromiseIsCancelled() throws Exception {
        try (Connected pair = unread(client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            fill(client);
            ChannelFuture close = client.close();
            client.eventLoop().submit(() -> {}).sync();
            var _ = close.cancel(false);
            server.config().setAutoRead(true);
            assertThat(client.closeFuture().await(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    /** An event loop that says whether it has timers. */
    private static final class Loop extends SingleThreadIoEventLoop {
        Loop(Adapter adapter) {
            super(
                    null,
                    Thread.ofPlatform().factory(),
                    RdmaIoHandler.newFactory(adapter, RdmaOptions.DEFAULTS));
        }

        boolean hasTimers() {
            return nextScheduledTaskNano() != -1;
        }
    }

    /** Each would keep the closed channel for as long as the close might have taken. */
    @Test
    void closesLeaveNoTimers() throws Exception {
        try (Connected pair = new Connected()) {
            Loop loop = new Loop(pair.fabric.adapter);
            Channel client =
                    new Bootstrap()
                            .group(loop)
                            .channel(RdmaChannel.class)
                            .option(ChannelOption.SO_LINGER, 3600)
                            .handler(new Heard())
                            .connect(FakeFabric.port(Connected.PORT))
                            .sync()
                            .channel();
            ChannelFuture close =
                    loop.submit(
                                    () -> {
                                        client.writeAndFlush(bytes(1000));
                                        client.close(); // waits until that has arrived
                                        return client.close();
                                    })
                            .get();
            assertThat(close.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(loop.submit(loop::hasTimers).get()).isFalse();
            loop.shutdownGracefully(0, 30, TimeUnit.SECONDS).sync();
        }
    }
}
