package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.nio.charset.StandardCharsets.US_ASCII;

import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.netty.Connected.Heard;

import io.netty.buffer.AbstractByteBufAllocator;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelProgressiveFuture;
import io.netty.channel.ChannelProgressiveFutureListener;
import io.netty.channel.ChannelProgressivePromise;
import io.netty.channel.ConnectTimeoutException;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.channel.socket.ChannelInputShutdownEvent;
import io.netty.channel.socket.ChannelInputShutdownReadComplete;
import io.netty.channel.socket.ChannelOutputShutdownEvent;
import io.netty.channel.socket.ChannelOutputShutdownException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.net.ConnectException;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What Netty's own suite does not look at. */
@Timeout(120)
class RdmaChannelTest {
    private static ByteBuf text(String text) {
        return Unpooled.copiedBuffer(text, US_ASCII);
    }

    /** Of each size up to the eager limit, around it, and large. */
    @ParameterizedTest
    @ValueSource(ints = {1024, 16_416, 16_417, 1 << 20, 3_000_001})
    void registeredMemoryIsSentAndReadWithoutACopy(int bytes) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            atServer.keeps = true;
            ByteBuf sent = client.alloc().directBuffer(bytes);
            for (int i = 0; i < bytes; i++) {
                sent.writeByte(i * 7);
            }
            client.writeAndFlush(sent.retainedSlice()).sync();
            Until.holds(() -> atServer.bytes == bytes);
            ByteBuf received = Unpooled.wrappedBuffer(atServer.kept.toArray(new ByteBuf[0]));
            assertThat(received).isEqualTo(sent);
            assertThat(client.copiedBytes()).isZero();
            assertThat(server.copiedBytes()).isZero();
            received.release();
            sent.release();
        }
    }

    /** HTTP/2 sends its frames as slices. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCompositeBufferIsSentInParts(boolean sliced) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            atServer.keeps = true;
            CompositeByteBuf composite = client.alloc().compositeDirectBuffer(64);
            for (int i = 0; i < 20; i++) {
                byte[] part = new byte[2000 + i];
                Arrays.fill(part, (byte) i);
                ByteBuf to =
                        i % 10 == 0 ? client.alloc().heapBuffer() : client.alloc().directBuffer();
                composite.addComponent(true, to.writeBytes(part));
            }
            composite.skipBytes(1500); // into the first part, which then is too short for one
            int bytes = composite.readableBytes();
            ByteBuf sent = sliced ? composite.readRetainedSlice(bytes) : composite.retain();
            client.writeAndFlush(sent).sync();
            Until.holds(() -> atServer.bytes == bytes);
            assertThat(client.copiedBytes()).isEqualTo(500 + 2010); // the heap's
            ByteBuf received = Unpooled.wrappedBuffer(atServer.kept.toArray(new ByteBuf[0]));
            assertThat(received).isEqualTo(composite.slice(1500, bytes));
            received.release();
            Until.holds(() -> composite.refCnt() == 1);
            composite.release();
        }
    }

    /**
     * So a decoder of frames, such as HTTP/2's, has whole ones and need not join two messages: a
     * short buffer is the header of what follows.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aMessageEndsWhereAFrameDoes(boolean registered) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            atServer.keeps = true;
            Set<Integer> ends = new HashSet<>();
            int bytes = 0;
            for (int i = 0; i < 200; i++) { // more than fit one message
                int frame = i % 2 == 0 ? 9 : 16_384;
                ByteBuf data = registered ? client.alloc().directBuffer() : Unpooled.buffer();
                client.write(data.writeBytes(new byte[frame]));
                bytes += frame;
                if (i % 2 == 1) {
                    ends.add(bytes);
                }
            }
            client.flush();
            int all = bytes;
            Until.holds(() -> atServer.bytes == all);
            int end = 0;
            for (ByteBuf message : atServer.kept) {
                end += message.readableBytes();
                assertThat(ends).contains(end);
                message.release();
            }
            assertThat(client.copiedBytes()).isEqualTo(registered ? 100 * 9 : all);
        }
    }

    @Test
    void otherMemoryIsCopiedOnce() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            client.write(Unpooled.wrappedBuffer(new byte[100_000]));
            client.writeAndFlush(text("x".repeat(50))).sync();
            Until.holds(() -> atServer.bytes == 100_050);
            assertThat(client.copiedBytes()).isEqualTo(100_050);
            assertThat(server.copiedBytes()).isZero();
        }
    }

    /** As long as registered memory lasts; without any, the channel copies as it sends. */
    @Test
    void withoutRegisteredMemoryBytesArriveAllTheSame() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS.withRegisteredMemory(0), server -> {}, client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            byte[] bytes = new byte[200_000];
            for (int i = 0; i < 400; i++) { // buffers for frames are registered
                client.writeAndFlush(Unpooled.wrappedBuffer(new byte[10_000]));
            }
            Until.holds(() -> atServer.bytes == 4_000_000);
            pair.fabric.device.controlError = 12; // ENOMEM: and no more can be registered
            client.writeAndFlush(client.alloc().directBuffer().writeBytes(bytes)).sync();
            client.writeAndFlush(Unpooled.wrappedBuffer(bytes)).sync();
            pair.fabric.device.controlError = 0;
            client.writeAndFlush(text("the end")).sync();
            Until.holds(() -> atServer.bytes == 4_400_007);
        }
    }

    @Test
    void aPipelineMayKeepMoreThanThereAreReceives() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            atServer.keeps = true;
            for (int i = 0; i < 200; i++) {
                client.writeAndFlush(text("message %03d".formatted(i))).sync();
            }
            for (int i = 0; i < 30; i++) {
                client.writeAndFlush(Unpooled.wrappedBuffer(new byte[1 << 20])).sync();
            }
            Until.holds(() -> atServer.bytes == 200 * 11 + (30L << 20));
            assertThat(server.copiedBytes()).isPositive();
            StringBuilder read = new StringBuilder();
            List<ByteBuf> kept = new ArrayList<>(atServer.kept);
            for (ByteBuf buffer : kept) {
                if (read.length() < 200 * 11) {
                    read.append(buffer.toString(US_ASCII));
                }
            }
            assertThat(read).startsWith("message 000message 001").contains("message 199");
            // By any thread.
            kept.forEach(ByteBuf::release);
            atServer.keeps = false;
            client.writeAndFlush(text("later")).sync();
            Until.holds(() -> atServer.text().equals("later"));
        }
    }

    @Test
    void aPeerThatDoesNotReadStallsTheWriter() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.childOption(ChannelOption.AUTO_READ, false),
                        client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            List<ChannelFuture> writes = new ArrayList<>();
            while (client.isWritable()) {
                writes.add(client.writeAndFlush(Unpooled.wrappedBuffer(new byte[5000])));
                client.eventLoop().submit(() -> {}).sync();
            }
            assertThat(atServer.bytes).isZero();
            assertThat(writes.getLast().isDone()).isFalse();
            server.config().setAutoRead(true);
            for (ChannelFuture write : writes) {
                write.sync();
            }
            Until.holds(() -> atServer.bytes == 5000L * writes.size());
            assertThat(client.isWritable()).isTrue();
        }
    }

    /** They hold more messages than their event loops have receives. */
    @Test
    void channelsThatDoNotReadStallNoOther() throws Exception {
        MessagingOptions fewReceives =
                RdmaOptions.DEFAULTS.messaging().withEagerLimit(1 << 18); // 256 for each loop
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withMessaging(fewReceives))) {
            List<RdmaChannel> servers = new ArrayList<>();
            for (int i = 0; i < 24; i++) {
                RdmaChannel client = pair.connect();
                RdmaChannel server = pair.accepted();
                server.config().setAutoRead(false);
                server.eventLoop().submit(() -> {}).sync();
                servers.add(server);
                for (int j = 0; j < 40; j++) {
                    client.writeAndFlush(text("message %02d of %02d;".formatted(j, i)));
                }
            }
            for (int i = 0; i < 2; i++) { // on each event loop
                RdmaChannel client = pair.connect();
                for (int j = 0; j < 40; j++) {
                    client.writeAndFlush(text("read")).sync();
                }
            }
            for (int i = 0; i < 24; i++) {
                RdmaChannel server = servers.get(i);
                server.config().setAutoRead(true);
                Until.holds(() -> heard(server).bytes == 40 * 17);
                assertThat(heard(server).text())
                        .startsWith("message 00 of %02d;message 01".formatted(i))
                        .endsWith("message 39 of %02d;".formatted(i));
            }
        }
    }

    @Test
    void whatWasFlushedArrivesBeforeTheClose() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            ChannelFuture first = client.write(Unpooled.wrappedBuffer(new byte[3 << 20]));
            ChannelFuture last = client.writeAndFlush(text("bye"));
            client.close().sync();
            assertThat(first.isSuccess()).isTrue();
            assertThat(last.isSuccess()).isTrue();
            assertThat(atServer.next()).isEqualTo("inactive");
            assertThat(atServer.bytes).isEqualTo((3 << 20) + 3);
            assertThatThrownBy(() -> client.writeAndFlush(text("x")).sync())
                    .isInstanceOf(ClosedChannelException.class);
        }
    }

    @Test
    void aHalfIsClosed() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.childOption(ChannelOption.ALLOW_HALF_CLOSURE, true),
                        client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            client.writeAndFlush(text("question"));
            client.shutdownOutput().sync();
            assertThat(client.isOutputShutdown()).isTrue();
            assertThatThrownBy(() -> client.writeAndFlush(text("x")).sync())
                    .isInstanceOfAny(
                            ClosedChannelException.class, ChannelOutputShutdownException.class);
            assertThat(atClient.next()).isSameAs(ChannelOutputShutdownEvent.INSTANCE);
            assertThat(atServer.next()).isSameAs(ChannelInputShutdownEvent.INSTANCE);
            assertThat(atServer.next()).isSameAs(ChannelInputShutdownReadComplete.INSTANCE);
            assertThat(atServer.text()).isEqualTo("question");
            assertThat(server.isInputShutdown()).isTrue();
            server.writeAndFlush(text("answer")).sync();
            server.shutdownOutput().sync();
            assertThat(atClient.next()).isEqualTo("inactive"); // it allows no half
            assertThat(atClient.text()).isEqualTo("answer");
            assertThat(atServer.next()).isSameAs(ChannelOutputShutdownEvent.INSTANCE);
            assertThat(atServer.next()).isEqualTo("inactive");
        }
    }

    @Test
    void aConnectThatNobodyAnswers() {
        try (Connected pair = new Connected()) {
            assertThatThrownBy(
                            () ->
                                    pair.client(new Connected.Heard())
                                            .connect(FakeFabric.port(9))
                                            .sync())
                    .isInstanceOf(ConnectException.class)
                    .hasMessageContaining("nobody listens");
        }
    }

    @Test
    void aConnectTakesTooLong() throws Exception {
        try (Connected pair = new Connected()) {
            ChannelFuture connect;
            try (var _ = fabricListens(pair)) {
                connect =
                        pair.client(new Connected.Heard())
                                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, 300)
                                .connect(FakeFabric.port(8));
                assertThatThrownBy(connect::sync)
                        .isInstanceOf(ConnectTimeoutException.class)
                        .hasMessageContaining("connection timed out after 300 ms");
            }
            connect.channel().closeFuture().sync();
        }
    }

    /** A listener that does not answer. */
    private static AutoCloseable fabricListens(Connected pair) {
        List<Connector> unanswered = Collections.synchronizedList(new ArrayList<>());
        Listener listener = pair.fabric.adapter.listen(FakeFabric.port(8), 0, unanswered::add);
        return () -> {
            listener.close();
            unanswered.forEach(Connector::close);
        };
    }

    @Test
    void aConnectIsCancelled() throws Exception {
        try (Connected pair = new Connected()) {
            try (var _ = fabricListens(pair)) {
                ChannelFuture connect =
                        pair.client(new Connected.Heard()).connect(FakeFabric.port(8));
                assertThat(connect.cancel(false)).isTrue();
                assertThatThrownBy(connect::sync).isInstanceOf(CancellationException.class);
                connect.channel().closeFuture().sync();
            }
        }
    }

    @Test
    void aPeerThatIsGoneIsAnException() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS
                                .withIdle(IdleStrategy.events())
                                .withMessaging(
                                        RdmaOptions.DEFAULTS
                                                .messaging()
                                                .withTimeout(Duration.ofMillis(500))),
                        server -> {},
                        client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            pair.accepted();
            pair.fabric.stall(true);
            ChannelFuture write = client.writeAndFlush(text("x"));
            ChannelFuture shut = client.shutdownOutput(); // waits for it
            Object heard = atClient.next();
            assertThat(heard).isInstanceOf(IOException.class);
            assertThat((IOException) heard)
                    .hasCauseInstanceOf(MessagingException.class)
                    .hasMessageContaining("500 ms");
            assertThat(atClient.next()).isEqualTo("inactive");
            assertThatThrownBy(write::sync).hasCauseInstanceOf(MessagingException.class);
            assertThatThrownBy(shut::sync).hasCauseInstanceOf(MessagingException.class);
            pair.fabric.stall(false);
        }
    }

    /** The output is not to look shut down for ever when the end is never sent. */
    @Test
    void aHalfThatIsBeingClosedCannotBeCancelled() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.childOption(ChannelOption.ALLOW_HALF_CLOSURE, true),
                        client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            ChannelFuture shut =
                    client.eventLoop()
                            .submit(
                                    () -> {
                                        client.writeAndFlush(text("x"));
                                        ChannelFuture waits = client.shutdownOutput();
                                        assertThat(waits.isDone()).isFalse();
                                        assertThat(waits.cancel(false)).isFalse();
                                        return waits;
                                    })
                            .get();
            shut.sync();
            assertThat(atServer.next()).isSameAs(ChannelInputShutdownEvent.INSTANCE);
        }
    }

    /** As over TCP: it is not one that has yet to connect. */
    @Test
    void noHalfOfAClosedChannelIsClosed() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            client.close().sync();
            for (ChannelFuture half :
                    List.of(client.shutdownInput(), client.shutdownOutput(), client.shutdown())) {
                assertThat(half.await(30, TimeUnit.SECONDS)).isTrue();
                assertThat(half.cause()).isInstanceOf(ClosedChannelException.class);
            }
        }
    }

    /** Promises with progress call their listeners while bytes are removed. */
    @Test
    void aListenerThatFlushesSendsNothingTwice() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            atServer.keeps = true;
            byte[] bytes = new byte[3_000_000];
            new Random(1).nextBytes(bytes);
            ChannelProgressivePromise promise = client.newProgressivePromise();
            AtomicInteger flushes = new AtomicInteger();
            promise.addListener(
                    new ChannelProgressiveFutureListener() {
                        @Override
                        public void operationProgressed(
                                ChannelProgressiveFuture future, long progress, long total) {
                            flushes.incrementAndGet();
                            client.writeAndFlush(text("+"));
                        }

                        @Override
                        public void operationComplete(ChannelProgressiveFuture future) {}
                    });
            client.writeAndFlush(Unpooled.wrappedBuffer(bytes), promise).sync();
            client.close().sync();
            assertThat(atServer.next()).isEqualTo("inactive");
            ByteBuf received = Unpooled.wrappedBuffer(atServer.kept.toArray(new ByteBuf[0]));
            String tail = "+".repeat(flushes.get());
            assertThat(flushes).hasPositiveValue();
            assertThat(received).isEqualTo(Unpooled.wrappedBuffer(bytes, tail.getBytes(US_ASCII)));
            received.release();
        }
    }

    /** What was flushed does not arrive then. */
    @Test
    void aHalfThatWaitsIsClosedWithTheRest() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.childOption(ChannelOption.AUTO_READ, false),
                        client -> client.option(ChannelOption.SO_LINGER, 0))) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            while (client.isWritable()) {
                client.writeAndFlush(Unpooled.wrappedBuffer(new byte[5000]));
                client.eventLoop().submit(() -> {}).sync();
            }
            ChannelFuture shut = client.shutdownOutput();
            ChannelFuture late = client.write(text("x"));
            client.eventLoop().submit(() -> {}).sync();
            assertThat(late.cause()).isInstanceOf(ClosedChannelException.class);
            client.close().sync();
            assertThat(shut.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(shut.cause()).isInstanceOf(ClosedChannelException.class);
        }
    }

    @Test
    void aHalfIsClosedTwice() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> server.childOption(ChannelOption.ALLOW_HALF_CLOSURE, true),
                        client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            ChannelFuture write = client.writeAndFlush(Unpooled.wrappedBuffer(new byte[5 << 20]));
            ChannelFuture first = client.shutdownOutput();
            ChannelFuture second = client.shutdownOutput();
            first.sync();
            second.sync();
            assertThat(write.isSuccess()).isTrue();
            assertThat(atServer.next()).isSameAs(ChannelInputShutdownEvent.INSTANCE);
            assertThat(atServer.bytes).isEqualTo(5 << 20);
        }
    }

    @Test
    void aPipelineWhoseBuffersCannotBeMadeEndsAlone() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server -> {},
                        client -> client.option(ChannelOption.ALLOCATOR, new NoMemory()))) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            RdmaChannel server = pair.accepted();
            RdmaChannel other = pair.connect();
            RdmaChannel atOther = pair.accepted();
            client.config().setRecvByteBufAllocator(new FixedRecvByteBufAllocator(100));
            server.writeAndFlush(text("x")).sync();
            Object heard = atClient.next();
            assertThat(heard).isInstanceOf(OutOfMemoryError.class);
            assertThat(atClient.next()).isEqualTo("inactive");
            Heard still = heard(other);
            atOther.writeAndFlush(text("still here")).sync();
            Until.holds(() -> still.text().equals("still here"));
        }
    }

    private static final class NoMemory extends AbstractByteBufAllocator {
        @Override
        protected ByteBuf newHeapBuffer(int initialCapacity, int maxCapacity) {
            throw new OutOfMemoryError("none");
        }

        @Override
        protected ByteBuf newDirectBuffer(int initialCapacity, int maxCapacity) {
            throw new OutOfMemoryError("none");
        }

        @Override
        public boolean isDirectBufferPooled() {
            return false;
        }
    }

    @Test
    void anEventLoopThatEndsItselfClosesItsChannels() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atClient = heard(client);
            pair.accepted();
            client.eventLoop()
                    .execute(() -> client.eventLoop().shutdownGracefully(0, 30, TimeUnit.SECONDS));
            assertThat(atClient.next()).isEqualTo("inactive");
            client.closeFuture().sync();
        }
    }

    @Test
    void eventLoopsThatEndUnderLoadLeaveNothing() throws Exception {
        try (Connected pair = new Connected()) {
            List<Heard> all = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                RdmaChannel client = pair.connect();
                RdmaChannel server = pair.accepted();
                all.add(heard(server));
                all.getLast().keeps = i % 2 == 0;
                for (int j = 0; j < 20; j++) {
                    client.writeAndFlush(Unpooled.wrappedBuffer(new byte[j * 5000]));
                    server.writeAndFlush(server.alloc().directBuffer().writeZero(3000));
                }
            }
            pair.group.shutdownGracefully(0, 30, TimeUnit.SECONDS).sync();
            all.forEach(heard -> heard.kept.forEach(ByteBuf::release)); // its event loop has ended
        }
    }
}
