package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.nio.charset.StandardCharsets.US_ASCII;

import dev.verbena.CompletionQueue;
import dev.verbena.Connector;
import dev.verbena.LoggedMessages;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.netty.Connected.Heard;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.RecvByteBufAllocator;
import io.netty.channel.RecvByteBufAllocator.DelegatingHandle;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.ConnectException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.LogRecord;

/** Peers that a server channel accepts, lets wait or refuses. */
@Timeout(120)
class RdmaServerChannelTest {
    private static ChannelFuture connect(Connected pair) {
        return pair.client(new Heard()).connect(FakeFabric.port(Connected.PORT));
    }

    /** However long: a peer that waits is not one that was forgotten. */
    @Test
    void peersWaitInTheBacklogWhileAnotherIsRefused() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server ->
                                server.option(ChannelOption.AUTO_READ, false)
                                        .option(ChannelOption.SO_BACKLOG, 2),
                        client -> {})) {
            List<ChannelFuture> waiting = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                waiting.add(connect(pair));
            }
            // No event says that a request would count as forgotten.
            new CompletableFuture<Void>()
                    .completeOnTimeout(null, 2100, TimeUnit.MILLISECONDS)
                    .join();
            ChannelFuture third = connect(pair);
            assertThat(third.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(third.cause()).isInstanceOf(ConnectException.class);
            assertThat(waiting).noneMatch(ChannelFuture::isDone);
            RdmaServerChannel server = pair.listening;
            server.config().setAutoRead(true);
            for (ChannelFuture one : waiting) {
                assertThat(one.await(30, TimeUnit.SECONDS)).isTrue();
                assertThat(one.isSuccess()).as("%s", one.cause()).isTrue();
            }
        }
    }

    /** As many as over TCP, where a peer that finds no room asks again. */
    @Test
    void aBurstOfPeersFindsRoom() throws Exception {
        int peers = 300;
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.option(ChannelOption.AUTO_READ, false),
                        client -> {})) {
            List<ChannelFuture> connects = new ArrayList<>();
            for (int i = 0; i < peers; i++) {
                connects.add(connect(pair));
            }
            Until.holds(() -> pair.listening.waiting.size() == peers);
            pair.listening.config().setAutoRead(true);
            for (ChannelFuture one : connects) {
                one.sync();
            }
        }
    }

    @Test
    void aPeerThatWasRefusedMeanwhileWaitsNoLonger() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.option(ChannelOption.AUTO_READ, false),
                        client -> {})) {
            ChannelFuture connects = connect(pair);
            Until.holds(() -> pair.listening.waiting.size() == 1);
            pair.listening.waiting.element().close(); // as its listener does after a while
            Until.holds(pair.listening.waiting::isEmpty);
            assertThat(connects.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(connects.cause()).isInstanceOf(ConnectException.class);
        }
    }

    /** As many children as are accepted at once are being accepted, and a peer waits. */
    @Test
    void aPeerThatWaitsIsAcceptedOnceAnotherIsEstablished() throws Exception {
        try (Connected pair = new Connected()) {
            for (int i = 0; i < RdmaServerChannel.MOST_ACCEPTING; i++) {
                pair.listening.accepts();
            }
            ChannelFuture connects = connect(pair);
            Until.holds(() -> pair.listening.waiting.size() == 1);
            pair.listening.eventLoop().submit(() -> {}).sync();
            assertThat(pair.listening.waiting).hasSize(1);
            pair.listening.accepted();
            connects.sync();
        }
    }

    /** As when its child finds no memory. Netty's bootstrap then accepts none for a second. */
    @Test
    @SuppressWarnings("deprecation") // no other handle delegates
    void aPeerThatCannotBeAcceptedKeepsNoOthersOut() throws Exception {
        AtomicBoolean full = new AtomicBoolean(true);
        RecvByteBufAllocator throwing =
                () ->
                        new DelegatingHandle(new FixedRecvByteBufAllocator(1).newHandle()) {
                            @Override
                            public void incMessagesRead(int count) {
                                if (full.getAndSet(false)) {
                                    throw new OutOfMemoryError("as if");
                                }
                                super.incMessagesRead(count);
                            }
                        };
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.option(ChannelOption.RECVBUF_ALLOCATOR, throwing),
                        client -> {})) {
            ChannelFuture first = connect(pair);
            assertThat(first.await(20, TimeUnit.SECONDS)).isTrue();
            assertThat(first.cause()).isInstanceOf(ConnectException.class);
            assertThat(pair.connect().isActive()).isTrue();
        }
    }

    /** Or peers that never answer would keep all others out for as long as a connect may take. */
    @Test
    void anAcceptTakesNoLongerThanItHasTo() {
        Duration most = Establishing.MOST_OF_ACCEPT;
        assertThat(Establishing.deadline(30_000, true)).isEqualTo(most);
        assertThat(Establishing.deadline(0, true)).isEqualTo(most);
        assertThat(Establishing.deadline(300, true)).isEqualTo(Duration.ofMillis(300));
        assertThat(Establishing.deadline(30_000, false)).isEqualTo(Duration.ofSeconds(30));
        assertThat(Establishing.deadline(0, false)).isGreaterThan(Duration.ofDays(1));
    }

    /** The event loops of children may be busy: those that are not registered yet count, too. */
    @Test
    void aChildCountsFromWhenItIsHandedOut() throws Exception {
        BlockingQueue<Channel> children = new LinkedBlockingQueue<>();
        ChannelInboundHandlerAdapter keeps =
                new ChannelInboundHandlerAdapter() {
                    @Override
                    public void channelRead(ChannelHandlerContext context, Object message) {
                        children.add((Channel) message);
                    }
                };
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.handler(keeps),
                        client -> client.option(ChannelOption.CONNECT_TIMEOUT_MILLIS, 0))) {
            for (int i = 1; i < RdmaServerChannel.MOST_ACCEPTING; i++) {
                pair.listening.accepts();
            }
            List<ChannelFuture> connects = List.of(connect(pair), connect(pair));
            Until.holds(() -> children.size() + pair.listening.waiting.size() == 2);
            pair.listening.eventLoop().submit(() -> {}).sync();
            assertThat(pair.listening.waiting).hasSize(1);
            Until.next(children).unsafe().closeForcibly();
            Until.next(children).unsafe().closeForcibly();
            for (ChannelFuture one : connects) {
                assertThat(one.await(30, TimeUnit.SECONDS)).isTrue();
                assertThat(one.cause()).isInstanceOf(ConnectException.class);
            }
        }
    }

    /** Also where more wait, and it may read them all. */
    @Test
    @SuppressWarnings("deprecation") // no other handle delegates
    void aRoundOfAcceptsEndsWithTheLimit() throws Exception {
        RecvByteBufAllocator endless =
                () ->
                        new DelegatingHandle(new FixedRecvByteBufAllocator(1).newHandle()) {
                            @Override
                            public boolean continueReading() {
                                return true;
                            }
                        };
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server ->
                                server.option(ChannelOption.AUTO_READ, false)
                                        .option(ChannelOption.RECVBUF_ALLOCATOR, endless),
                        client -> {})) {
            for (int i = 1; i < RdmaServerChannel.MOST_ACCEPTING; i++) {
                pair.listening.accepts();
            }
            for (int i = 0; i < 3; i++) {
                connect(pair);
            }
            Until.holds(() -> pair.listening.waiting.size() == 3);
            pair.listening.eventLoop().submit(pair.listening::read).sync();
            pair.listening.eventLoop().submit(() -> {}).sync();
            assertThat(pair.listening.waiting).hasSize(2);
        }
    }

    /** Its child's event loop goes on: what throws here leaves a connection without an owner. */
    @Test
    void aChildIsAcceptedAfterTheEventLoopOfItsServerHasEnded() throws Exception {
        try (Connected pair = new Connected()) {
            for (int i = 0; i < RdmaServerChannel.MOST_ACCEPTING; i++) {
                pair.listening.accepts();
            }
            end(pair.group);
            pair.listening.accepted();
        }
    }

    /** As a service does that has too many connections already. */
    @Test
    void aChildThatIsClosedBeforeItIsRegisteredRefusesItsPeer() throws Exception {
        ChannelInboundHandlerAdapter closes =
                new ChannelInboundHandlerAdapter() {
                    @Override
                    public void channelRead(ChannelHandlerContext context, Object message) {
                        ((Channel) message).unsafe().closeForcibly();
                    }
                };
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.handler(closes),
                        client -> client.option(ChannelOption.CONNECT_TIMEOUT_MILLIS, 0))) {
            ChannelFuture connects = connect(pair);
            assertThat(connects.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(connects.cause()).isInstanceOf(ConnectException.class);
        }
    }

    /**
     * The pipeline hears nothing of a peer that is no channel, nothing of it is kept, and the log
     * says why in a line.
     */
    @Test
    void aPeerThatIsRefusedLeavesNothing() throws Exception {
        try (LoggedMessages logged = new LoggedMessages(ServerBootstrap.class.getName());
                Connected pair = new Connected();
                ProtectionDomain domain = pair.fabric.adapter.createProtectionDomain();
                CompletionQueue queue = pair.fabric.adapter.createCompletionQueue(16)) {
            Until.holds(() -> registered(pair) == 1); // the server channel
            for (int i = 0; i < 3; i++) {
                try (QueuePair foreign =
                                domain.createQueuePair(queue, queue, QueuePairLimits.depths(4, 4));
                        Connector connector = pair.fabric.adapter.createConnector()) {
                    assertThatThrownBy(
                                    () ->
                                            connector.connect(
                                                    foreign, FakeFabric.port(Connected.PORT)))
                            .hasMessageContaining("refused");
                }
            }
            Until.holds(() -> registered(pair) == 1);
            assertThat(pair.accepted).isEmpty();
            assertThat(pair.connect().isActive()).isTrue();
            Until.holds(() -> logged.records().size() == 3);
            assertThat(logged.records())
                    .extracting(LogRecord::getThrown)
                    .allSatisfy(
                            thrown ->
                                    assertThat(thrown)
                                            .hasMessageContaining("0 bytes of private data")
                                            .hasNoCause()
                                            .extracting(Throwable::getStackTrace)
                                            .isEqualTo(new StackTraceElement[0]));
        }
    }

    private static int registered(Connected pair) {
        return pair.handlers.stream().mapToInt(RdmaIoHandler::channels).sum();
    }

    /** A service that starts again need not wait for the connections of the one before. */
    @Test
    void aPortIsFreeOnceItsServerChannelIsClosed() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            server.parent().close().sync();
            pair.listen();
            assertThat(pair.connect().isActive()).isTrue();
            pair.accepted();
            client.writeAndFlush(Unpooled.copiedBuffer("still here", US_ASCII)).sync();
            Until.holds(() -> atServer.text().equals("still here"));
        }
    }

    /** As services write it: a group that accepts and one that serves, with a factory each. */
    @Test
    void factoriesOfTheSameNameServeOneServer() throws Exception {
        try (FakeFabric fabric = new FakeFabric()) {
            AtomicInteger opened = new AtomicInteger();
            RdmaDevice.Named adapters =
                    new RdmaDevice.Named(
                            name -> {
                                opened.incrementAndGet();
                                return fabric.adapter;
                            });
            EventLoopGroup accepting = group(adapters);
            EventLoopGroup serving = group(adapters);
            BlockingQueue<Heard> served = new LinkedBlockingQueue<>();
            new ServerBootstrap()
                    .group(accepting, serving)
                    .channel(RdmaServerChannel.class)
                    .childHandler(
                            new ChannelInitializer<>() {
                                @Override
                                protected void initChannel(Channel child) {
                                    Heard heard = new Heard();
                                    child.pipeline().addLast(heard);
                                    served.add(heard);
                                }
                            })
                    .bind(FakeFabric.port(Connected.PORT))
                    .sync();
            EventLoopGroup clients = group(adapters);
            Channel client =
                    new Bootstrap()
                            .group(clients)
                            .channel(RdmaChannel.class)
                            .handler(new Heard())
                            .connect(FakeFabric.port(Connected.PORT))
                            .sync()
                            .channel();
            // A queue pair connects by its own adapter only.
            assertThat(opened).hasValue(1);
            end(accepting);
            client.writeAndFlush(Unpooled.copiedBuffer("still here", US_ASCII)).sync();
            Heard heard = Objects.requireNonNull(served.poll(30, TimeUnit.SECONDS));
            Until.holds(() -> heard.text().equals("still here"));
            end(serving);
            end(clients);
            assertThatThrownBy(fabric.adapter::createConnector)
                    .isInstanceOf(IllegalStateException.class);
        }
    }

    private static EventLoopGroup group(RdmaDevice.Named adapters) {
        return new MultiThreadIoEventLoopGroup(
                1,
                RdmaIoHandler.factory(RdmaDevice.named("fake0", RdmaOptions.DEFAULTS, adapters)));
    }

    private static void end(EventLoopGroup group) {
        group.shutdownGracefully(0, 30, TimeUnit.SECONDS).syncUninterruptibly();
    }
}
