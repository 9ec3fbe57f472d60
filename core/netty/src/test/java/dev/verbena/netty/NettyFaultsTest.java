package dev.verbena.netty;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.trust.Trust;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.socket.ChannelInputShutdownEvent;
import io.netty.channel.socket.SocketChannel;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * Connections that end in each way, under load, and readers that are slow. Whatever happens, each
 * promise is done, each buffer is free, and no queue pair, identifier or memory is left.
 */
@Tag("trust")
@Timeout(600)
class NettyFaultsTest {
    private static final int CONNECTIONS = 1000;
    private static final int LISTENERS = 1;
    private static final int SECONDS = 60;
    private static final int FILLING = 50_000; // bytes of a write

    private final long seed = Trust.seed();
    private final Random random = new Random(seed);
    private final Leaks leaks = new Leaks();
    private Trust.@Nullable Row row;

    @AfterEach
    void nothingIsLost() {
        leaks.close();
        if (row != null) {
            row.write();
        }
    }

    /** Counts what comes, and answers an end with an end. */
    private static final class Side extends ChannelInboundHandlerAdapter {
        volatile long bytes;

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf buffer = (ByteBuf) message;
            bytes += buffer.readableBytes();
            buffer.release();
        }

        @Override
        public void userEventTriggered(ChannelHandlerContext context, Object event) {
            if (event == ChannelInputShutdownEvent.INSTANCE) {
                context.close();
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }

    /** Both ends of a connection, and what was written there. */
    private final class Two {
        final RdmaChannel client;
        final RdmaChannel server;
        final int queuePair; // of one of them
        final Queue<ChannelFuture> writes = new ConcurrentLinkedQueue<>();
        final Queue<ByteBuf> unpooled = new ConcurrentLinkedQueue<>(); // which nobody uses again

        Two(Connected pair, BlockingQueue<RdmaChannel> accepted) throws InterruptedException {
            client =
                    (RdmaChannel)
                            pair.client(new Side())
                                    .connect(FakeFabric.port(Connected.PORT))
                                    .sync()
                                    .channel();
            server = Until.next(accepted);
            queuePair = pair.fabric.device.lastQueuePairNumber();
        }

        /** Writes to both ends. */
        void write(int most) {
            for (Channel channel : List.of(client, server)) {
                writes.add(channel.writeAndFlush(buffer(channel, 1 + random.nextInt(most))));
            }
        }

        /** By event loops that may end: Netty loses a task that comes as its loop does. */
        void writeInLoop(int most) throws InterruptedException {
            for (Channel channel : List.of(client, server)) {
                int length = 1 + random.nextInt(most);
                try {
                    var _ =
                            channel.eventLoop()
                                    .submit(
                                            () ->
                                                    writes.add(
                                                            channel.writeAndFlush(
                                                                    buffer(channel, length))))
                                    .await(100, TimeUnit.MILLISECONDS);
                } catch (RejectedExecutionException e) {
                    return; // it has ended
                }
            }
        }

        /** Until the client's channel takes no more. */
        void fill() throws InterruptedException {
            while (client.isWritable()) {
                ByteBuf buffer = client.alloc().directBuffer(FILLING).writeZero(FILLING);
                writes.add(client.writeAndFlush(buffer));
                client.eventLoop().submit(() -> {}).sync();
            }
        }

        private ByteBuf buffer(Channel channel, int length) {
            return switch (random.nextInt(4)) {
                case 0 -> channel.alloc().directBuffer(length).writeZero(length);
                case 1 -> channel.alloc().heapBuffer(length).writeZero(length);
                case 2 -> {
                    ByteBuf buffer = Unpooled.buffer(length).writeZero(length);
                    unpooled.add(buffer);
                    yield buffer;
                }
                default -> {
                    CompositeByteBuf parts = channel.alloc().compositeBuffer();
                    for (int i = 0; i < 3; i++) {
                        parts.addComponent(
                                true, channel.alloc().directBuffer(length).writeZero(length / 3));
                    }
                    yield parts;
                }
            };
        }

        void isOver() throws InterruptedException {
            assertThat(client.closeFuture().await(SECONDS, TimeUnit.SECONDS)).isTrue();
            assertThat(server.closeFuture().await(SECONDS, TimeUnit.SECONDS)).isTrue();
            for (ChannelFuture write : writes) {
                assertThat(write.await(SECONDS, TimeUnit.SECONDS)).isTrue();
            }
            Until.holds(() -> unpooled.stream().allMatch(buffer -> buffer.refCnt() == 0));
        }
    }

    private final BlockingQueue<RdmaChannel> accepted = new LinkedBlockingQueue<>();

    private Connected connected(RdmaOptions options) {
        return new Connected(
                options,
                server ->
                        server.childOption(ChannelOption.ALLOW_HALF_CLOSURE, true)
                                .childHandler(
                                        new ChannelInitializer<SocketChannel>() {
                                            @Override
                                            protected void initChannel(SocketChannel channel) {
                                                channel.pipeline().addLast(new Side());
                                                accepted.add((RdmaChannel) channel);
                                            }
                                        }),
                client -> {});
    }

    /** A peer that the fake device does not report as broken has so long to answer. */
    private Connected connected(long millis) {
        Duration timeout = Duration.ofMillis(millis);
        return connected(
                RdmaOptions.DEFAULTS
                        .withIdle(IdleStrategy.events())
                        .withMessaging(
                                RdmaOptions.DEFAULTS
                                        .messaging()
                                        .withTimeout(timeout)
                                        .withKeepAlive(timeout)));
    }

    private List<Two> twenty(Connected pair) throws InterruptedException {
        List<Two> all = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            all.add(new Two(pair, accepted));
        }
        return all;
    }

    /** What the device has for the connections of these event loops is free again. */
    private static void only(Connected pair, int connections, int queues, int identifiers) {
        Until.holds(
                () ->
                        pair.handlers.stream().mapToInt(RdmaIoHandler::channels).sum()
                                == LISTENERS + 2 * connections);
        pair.fabric.device.until(() -> pair.fabric.device.queues() == queues + 2 * connections);
        Until.holds(() -> pair.fabric.identifiers() == identifiers + 2 * connections);
    }

    @Test
    void connectionsThatEndInEachWayLeaveNothing() throws Exception {
        Trust.Row figures = Trust.row("connections through Netty that end, fake device").seed(seed);
        List<Two> ended = new ArrayList<>();
        List<Two> open = new ArrayList<>();
        RegisteredByteBufAllocator allocator;
        try (Connected pair = connected(5000)) {
            List<Two> first = List.of(new Two(pair, accepted), new Two(pair, accepted));
            allocator = (RegisteredByteBufAllocator) first.getFirst().client.alloc();
            open.addAll(first); // on each event loop, which then have what they share
            int queues = pair.fabric.device.queues() - 2 * open.size();
            int identifiers = pair.fabric.identifiers() - 2 * open.size();
            for (int i = 0; i < CONNECTIONS; i++) {
                Two two = new Two(pair, accepted);
                two.write(random.nextInt(10) == 0 ? 2_000_000 : 20_000);
                int way = random.nextInt(8);
                (way == 7 ? open : ended).add(two);
                end(pair, two, way);
                two.write(20_000);
                open.get(random.nextInt(open.size())).write(20_000);
            }
            for (Two two : ended) {
                two.isOver();
            }
            only(pair, open.size(), queues, identifiers);
            open.forEach(two -> two.write(2_000_000));
            pair.group.shutdownGracefully(0, SECONDS, TimeUnit.SECONDS).sync();
            for (Two two : open) {
                two.isOver();
            }
        }
        assertThat(allocator.usedDirectMemory()).isZero();
        row =
                figures.messages(ended.stream().mapToInt(two -> two.writes.size()).sum())
                        .faults(CONNECTIONS)
                        .losses(0)
                        .leaks(0);
    }

    private static void end(Connected pair, Two two, int way) {
        switch (way) {
            case 0 -> two.client.close();
            case 1 -> two.server.close();
            case 2 -> two.client.shutdownOutput();
            case 3 -> pair.fabric.device.failQueuePair(two.queuePair);
            case 4 -> two.client.deregister();
            case 5 -> {
                two.client.close();
                two.server.close();
            }
            case 6 -> {
                two.server.shutdownOutput();
                two.client.close();
            }
            default -> {
                // with its event loop
            }
        }
    }

    /** Half of the peers read only at the end, and one never. The others go on meanwhile. */
    @Test
    void slowReadersTakeBoundedMemory() throws Exception {
        MessagingOptions messaging = RdmaOptions.DEFAULTS.messaging();
        long most = messaging.largeMemory() + (long) messaging.receives() * messaging.eagerLimit();
        RegisteredByteBufAllocator allocator;
        try (Connected pair = connected(5000)) {
            List<Two> all = twenty(pair);
            allocator = (RegisteredByteBufAllocator) all.getFirst().client.alloc();
            List<Two> slow = all.subList(0, 10);
            List<Two> fast = all.subList(10, 20);
            Two never = slow.getFirst();
            never.client.config().setWriteBufferWaterMark(new WriteBufferWaterMark(1, 40 << 20));
            for (Two two : slow) {
                two.server.config().setAutoRead(false);
                two.server.eventLoop().submit(() -> {}).sync();
                two.fill();
            }
            for (int i = 0; i < 20; i++) {
                for (Two two : fast) {
                    two.client.writeAndFlush(two.buffer(two.client, 100_000)).sync();
                    two.server.writeAndFlush(two.buffer(two.server, 100)).sync();
                }
            }
            for (Two two : slow) {
                assertThat(side(two.server).bytes).isZero();
            }
            assertThat(never.writes.stream().filter(ChannelFuture::isSuccess).count())
                    .isBetween(1L, most / FILLING);
            for (Two two : slow.subList(1, 10)) {
                two.server.config().setAutoRead(true);
                for (ChannelFuture write : two.writes) {
                    write.sync();
                }
            }
            all.forEach(two -> two.client.close());
            never.server.close();
            for (Two two : all) {
                two.isOver();
            }
        }
        assertThat(allocator.usedDirectMemory()).isZero();
    }

    private static Side side(RdmaChannel channel) {
        return channel.pipeline().get(Side.class);
    }

    /** Of large messages in both directions: the queue pair breaks, or nobody answers any more. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aPeerThatDiesInTheMiddle(boolean silently) throws Exception {
        RegisteredByteBufAllocator allocator;
        try (Connected pair = connected(500)) {
            List<Two> all = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                Two two = new Two(pair, accepted);
                all.add(two);
                two.write(8_000_000);
            }
            allocator = (RegisteredByteBufAllocator) all.getFirst().client.alloc();
            for (Two two : all) {
                Until.holds(() -> side(two.server).bytes > 0 && side(two.client).bytes > 0);
                two.write(8_000_000);
                two.write(8_000_000);
                if (!silently) {
                    pair.fabric.device.failQueuePair(two.queuePair);
                }
            }
            pair.fabric.stall(silently);
            for (Two two : all) {
                two.isOver();
            }
            pair.fabric.stall(false);
        }
        assertThat(allocator.usedDirectMemory()).isZero();
    }

    /** At once, and after a time in which nothing was asked of them. */
    @ParameterizedTest
    @ValueSource(ints = {0, 200})
    void eventLoopsThatAreShutDownUnderLoad(int quietMillis) throws Exception {
        for (int round = 0; round < 5; round++) {
            RegisteredByteBufAllocator allocator;
            try (Connected pair = connected(5000)) {
                List<Two> all = twenty(pair);
                allocator = (RegisteredByteBufAllocator) all.getFirst().client.alloc();
                all.forEach(two -> two.write(1_000_000));
                var over = pair.group.shutdownGracefully(quietMillis, 500, TimeUnit.MILLISECONDS);
                while (!over.isDone()) {
                    all.get(random.nextInt(all.size())).writeInLoop(50_000);
                }
                for (Two two : all) {
                    two.isOver();
                }
            }
            assertThat(allocator.usedDirectMemory()).isZero();
        }
    }
}
