package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThat;

import static java.nio.charset.StandardCharsets.US_ASCII;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.Until;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.netty.Connected.Heard;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelProgressiveFuture;
import io.netty.channel.ChannelProgressiveFutureListener;
import io.netty.channel.ChannelProgressivePromise;
import io.netty.channel.DefaultFileRegion;
import io.netty.channel.EventLoop;
import io.netty.channel.FileRegion;
import io.netty.channel.FixedRecvByteBufAllocator;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** What a channel sends from, and what it reads into. */
@Timeout(60)
class ChannelBuffersTest {
    private static final int LARGE = 600_000; // bytes of a message
    private static final MessagingOptions MESSAGING =
            RdmaOptions.DEFAULTS.messaging().withLargeMemory(2_000_000); // half of it is lent

    private static Connected lending() {
        return new Connected(RdmaOptions.DEFAULTS.withMessaging(MESSAGING));
    }

    private static void send(RdmaChannel client, int bytes) throws InterruptedException {
        client.writeAndFlush(Unpooled.wrappedBuffer(new byte[bytes])).sync();
    }

    @Test
    void ofLargeMessagesNoMoreThanHalfOfTheMemoryIsLent() throws Exception {
        try (Connected pair = lending()) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            atServer.keeps = true;
            send(client, LARGE);
            send(client, LARGE);
            Until.holds(() -> atServer.bytes == 2 * LARGE);
            assertThat(server.copiedBytes()).isEqualTo(LARGE);
            atServer.kept.forEach(ByteBuf::release);
        }
    }

    /**
     * Each block is a quarter longer than its message: what is lent takes more than the messages.
     */
    @Test
    void theLongestMessageComesWhateverThePipelineKeeps() throws Exception {
        int longest = 1 << 20;
        int behindAPowerOfTwo = (1 << 17) + 1;
        MessagingOptions twice = MESSAGING.withLargeMemory(2L * longest);
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withMessaging(twice))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            atServer.keeps = true;
            for (int i = 0; i < 7; i++) {
                send(client, behindAPowerOfTwo);
            }
            send(client, longest);
            Until.holds(() -> atServer.bytes == 7L * behindAPowerOfTwo + longest);
            atServer.kept.forEach(ByteBuf::release);
        }
    }

    /** The memory that a poller has for all of its channels is for others, too. */
    @Test
    void allChannelsOfAnEventLoopLendHalfOfItsMemory() throws Exception {
        int length = 20_000;
        int block = 20_480;
        MessagingOptions one = MESSAGING.withMaxMessage(length).withLargeMemory(2 * block);
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withMessaging(one))) {
            List<RdmaChannel> servers = new ArrayList<>();
            List<Heard> heard = new ArrayList<>();
            int most = 64; // 32 times two blocks
            RdmaChannel server;
            do {
                RdmaChannel client = pair.connect();
                server = pair.accepted();
                servers.add(server);
                heard.add(heard(server));
                heard.getLast().keeps = true;
                send(client, length);
                Until.holds(() -> heard.getLast().bytes == length);
            } while (servers.size() <= most || server.copiedBytes() == 0);
            EventLoop full = server.eventLoop();
            assertThat(servers.stream().filter(each -> each.eventLoop() == full)).hasSize(most + 1);
            assertThat(servers.stream().mapToLong(RdmaChannel::copiedBytes).sum())
                    .isEqualTo(length);
            heard.forEach(each -> each.kept.forEach(ByteBuf::release));
        }
    }

    /** What waits there counts, too, and moves to the heap when it takes half of the memory. */
    @Test
    void channelsThatDoNotReadStallNoOthers() throws Exception {
        int length = 20_000;
        int block = 20_480;
        MessagingOptions one = MESSAGING.withMaxMessage(length).withLargeMemory(2 * block);
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS.withMessaging(one),
                        server -> server.childOption(ChannelOption.AUTO_READ, false),
                        client -> {})) {
            List<RdmaChannel> servers = new ArrayList<>();
            List<ChannelFuture> further = new ArrayList<>();
            int most = 64; // times two blocks
            int onOne;
            do {
                RdmaChannel client = pair.connect();
                RdmaChannel server = pair.accepted();
                servers.add(server);
                EventLoop loop = server.eventLoop();
                onOne = (int) servers.stream().filter(each -> each.eventLoop() == loop).count();
                server.config().setAutoRead(onOne > most);
                send(client, length);
                further.add(client.writeAndFlush(Unpooled.wrappedBuffer(new byte[length])));
            } while (onOne <= most);
            assertThat(further.get(most - 1).isDone()).as("the heap holds one of each").isFalse();
            for (RdmaChannel server : servers) {
                server.config().setAutoRead(true);
                Until.holds(() -> heard(server).bytes == 2 * length);
            }
            for (ChannelFuture write : further) {
                write.sync();
            }
        }
    }

    @Test
    void whatWasLentAndReleasedMayBeLentAgain() throws Exception {
        try (Connected pair = lending()) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            atServer.keeps = true;
            for (int i = 1; i <= 5; i++) {
                long all = (long) i * LARGE;
                send(client, LARGE);
                Until.holds(() -> atServer.bytes == all);
                server.eventLoop().submit(() -> atServer.kept.remove().release()).sync();
            }
            assertThat(server.copiedBytes()).isZero();
        }
    }

    /** The rest of each is read into the next buffer. */
    @Test
    void messagesThatAreLongerThanTheBuffersOfTheProgram() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server ->
                                server.childOption(
                                        ChannelOption.RECVBUF_ALLOCATOR,
                                        new FixedRecvByteBufAllocator(7)),
                        client -> {})) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            StringBuilder sent = new StringBuilder();
            for (int i = 0; i < 9; i++) {
                String text = "message %d".formatted(i).repeat(1 + i % 3);
                client.writeAndFlush(Unpooled.copiedBuffer(text, US_ASCII)).sync();
                sent.append(text);
            }
            Until.holds(() -> atServer.bytes == sent.length());
            assertThat(atServer.text()).isEqualTo(sent.toString());
        }
    }

    /** As a proxy does, which reads on when it could write. */
    @Test
    void aPipelineThatAsksForEachMessage() throws Exception {
        try (Connected pair =
                new Connected(
                        RdmaOptions.DEFAULTS,
                        server ->
                                server.childOption(ChannelOption.AUTO_READ, false)
                                        .childOption(
                                                ChannelOption.RECVBUF_ALLOCATOR,
                                                new FixedRecvByteBufAllocator(100)
                                                        .maxMessagesPerRead(1)),
                        client -> {})) {
            RdmaChannel client = pair.connect();
            RdmaChannel server = pair.accepted();
            Heard atServer = heard(server);
            server.pipeline()
                    .addFirst(
                            new ChannelInboundHandlerAdapter() {
                                @Override
                                public void channelRead(
                                        ChannelHandlerContext context, Object message) {
                                    context.fireChannelRead(message);
                                    context.read();
                                }
                            });
            for (int i = 0; i < 5; i++) {
                send(client, 10);
            }
            assertThat(atServer.bytes).isZero();
            server.read();
            Until.holds(() -> atServer.bytes == 50);
        }
    }

    /** A block has 4 MiB at most, and a message may be longer. */
    @Test
    void longMessagesAreCopiedOnce() throws Exception {
        int length = 9 << 20;
        MessagingOptions longer = MESSAGING.withMaxMessage(length).withLargeMemory(64 << 20);
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withMessaging(longer))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            send(client, length);
            Until.holds(() -> atServer.bytes == length);
            assertThat(allocator(client).unregisteredBuffers()).isZero();
            assertThat(client.copiedBytes()).isEqualTo(length);
        }
    }

    /** Shorter ones, which others have used before. */
    @Test
    void bytesAreCopiedIntoWhatBlocksThereAre() throws Exception {
        int limit = 256 << 10;
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withRegisteredMemory(limit))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            List<ByteBuf> used = new ArrayList<>();
            while (allocator(client).unregisteredBuffers() == 0) {
                used.add(client.alloc().directBuffer(20_000));
            }
            used.forEach(ByteBuf::release);
            send(client, limit / 2);
            Until.holds(() -> atServer.bytes == limit / 2);
            assertThat(allocator(client).unregisteredBuffers()).isEqualTo(1);
        }
    }

    private static RegisteredByteBufAllocator allocator(RdmaChannel channel) {
        return (RegisteredByteBufAllocator) channel.alloc();
    }

    /** Memory that is not registered is used for one message, although there is room in it. */
    @Test
    void registeredMemoryBehindMemoryThatIsNot() throws Exception {
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withRegisteredMemory(0))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            RegisteredByteBufAllocator allocator = (RegisteredByteBufAllocator) client.alloc();
            MemoryRegion region = allocator.domain().allocate(2000, Access.LOCAL_WRITE);
            allocator.know(region);
            client.write(Unpooled.wrappedBuffer(new byte[300]));
            client.write(Unpooled.wrappedBuffer(region.memory().asByteBuffer()));
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[300])).sync();
            Until.holds(() -> atServer.bytes == 2600);
            allocator.forget(region);
            region.close();
        }
    }

    /** Each in several messages: what has arrived of one says nothing of the next. */
    @Test
    void eachFileReportsAllItsBytes(@TempDir Path directory) throws Exception {
        Path path = Files.write(directory.resolve("file"), new byte[2_500_000]);
        long length = Files.size(path);
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            for (int i = 1; i <= 3; i++) {
                long all = i * length;
                AtomicLong reported = new AtomicLong();
                ChannelProgressivePromise promise = client.newProgressivePromise();
                promise.addListener(
                        new ChannelProgressiveFutureListener() {
                            @Override
                            public void operationProgressed(
                                    ChannelProgressiveFuture future, long progress, long total) {
                                reported.set(progress);
                            }

                            @Override
                            public void operationComplete(ChannelProgressiveFuture future) {}
                        });
                client.writeAndFlush(new DefaultFileRegion(path.toFile(), 0, length), promise)
                        .sync();
                assertThat(reported).hasValue(length);
                Until.holds(() -> atServer.bytes == all);
            }
        }
    }

    /** The block that its bytes are copied into may have more room than the message. */
    @ParameterizedTest
    @ValueSource(ints = {8_000, 20_000})
    void aFileFitsIntoTheRestOfAMessage(int length, @TempDir Path directory) throws Exception {
        Path path = Files.write(directory.resolve("file"), new byte[length]);
        MessagingOptions small = MESSAGING.withEagerLimit(16_384).withMaxMessage(16_384);
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withMessaging(small))) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            client.eventLoop()
                    .submit(
                            () -> {
                                client.write(Unpooled.wrappedBuffer(new byte[100]));
                                client.write(filled(client, 10_000, 'r'));
                                client.writeAndFlush(
                                        new DefaultFileRegion(path.toFile(), 0, length));
                            })
                    .sync();
            Until.holds(() -> atServer.bytes == 10_100 + length);
            assertThat(client.isActive()).isTrue();
        }
    }

    /** As a region does that encrypts: a chunk counts when all of it was written. */
    @Test
    void aFileMayReportItsBytesLate(@TempDir Path directory) throws Exception {
        Path path = Files.write(directory.resolve("file"), new byte[1000]);
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            FileRegion region =
                    new DefaultFileRegion(path.toFile(), 0, 1000) {
                        private int calls;

                        @Override
                        public long transferTo(WritableByteChannel target, long position)
                                throws IOException {
                            if (++calls == 1) {
                                target.write(ByteBuffer.allocate(10));
                                return 0;
                            }
                            return super.transferTo(target, position);
                        }
                    };
            client.writeAndFlush(region).sync();
            Until.holds(() -> atServer.bytes == 1010);
        }
    }

    private static ByteBuf filled(RdmaChannel channel, int bytes, char with) {
        ByteBuf buffer = channel.alloc().directBuffer(bytes);
        for (int i = 0; i < bytes; i++) {
            buffer.writeByte(with);
        }
        return buffer;
    }

    /** A composite buffer releases its components when it has too many of them. */
    @ParameterizedTest
    @ValueSource(ints = {1, 16})
    void aSliceOfACompositeKeepsTheMemoryThatItIsIn(int components) throws Exception {
        int size = 64 << 10;
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            List<ByteBuf> others = new ArrayList<>();
            pair.fabric.stall(true);
            client.eventLoop()
                    .submit(
                            () -> {
                                CompositeByteBuf all =
                                        client.alloc().compositeDirectBuffer(components);
                                for (int i = 0; i < components; i++) {
                                    all.addComponent(true, filled(client, size, 'a'));
                                }
                                int from = components == 1 ? 0 : size - 4000;
                                client.writeAndFlush(all.retainedSlice(from, 8000));
                                all.addComponent(true, filled(client, size, 'b'));
                                for (int i = 0; i <= components; i++) {
                                    others.add(filled(client, size, 'x'));
                                }
                                others.add(all);
                            })
                    .sync();
            pair.fabric.stall(false);
            Until.holds(() -> atServer.bytes == 8000);
            assertThat(atServer.text()).isEqualTo("a".repeat(8000));
            assertThat(client.copiedBytes()).isZero();
            others.forEach(ByteBuf::release);
        }
    }

    /** All that is in flight, with each flush, would take time by its square. */
    @Test
    void whatIsSentIsNotLookedThroughAgain(@TempDir Path directory) throws Exception {
        Path path = Files.write(directory.resolve("file"), new byte[1000]);
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            client.write(Unpooled.wrappedBuffer(new byte[10]));
            client.writeAndFlush(Unpooled.EMPTY_BUFFER).sync(); // which is no part of a message
            AtomicInteger looks = new AtomicInteger();
            FileRegion region =
                    new DefaultFileRegion(path.toFile(), 0, 1000) {
                        @Override
                        public long transferred() {
                            looks.incrementAndGet();
                            return super.transferred();
                        }
                    };
            client.eventLoop()
                    .submit(
                            () -> {
                                client.writeAndFlush(region);
                                assertThat(looks.getAndSet(0)).isPositive();
                                client.flush();
                                assertThat(looks).hasValue(0);
                            })
                    .sync();
        }
    }

    @Test
    void anIdleChannelHoldsNoMemoryToCopyInto() throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            send(client, 100);
            RegisteredByteBufAllocator allocator = (RegisteredByteBufAllocator) client.alloc();
            allocator.close(); // which deregisters what no buffer uses
            assertThat(allocator.usedDirectMemory()).isZero();
        }
    }

    /** Each less than it may on its own: others need the receives. */
    @Test
    void allChannelsOfAnEventLoopLendNoMoreThanAQuarterOfItsReceives() throws Exception {
        MessagingOptions fewReceives =
                RdmaOptions.DEFAULTS.messaging().withEagerLimit(1 << 18); // 256 for each loop
        try (Connected pair = new Connected(RdmaOptions.DEFAULTS.withMessaging(fewReceives))) {
            long copied = 0;
            List<ByteBuf> kept = new ArrayList<>();
            for (int i = 0; i < 12; i++) {
                RdmaChannel client = pair.connect();
                RdmaChannel server = pair.accepted();
                Heard atServer = heard(server);
                atServer.keeps = true;
                for (int j = 0; j < 16; j++) {
                    send(client, 1);
                }
                Until.holds(() -> atServer.bytes == 16);
                copied += server.copiedBytes();
                kept.addAll(atServer.kept);
            }
            assertThat(copied).isGreaterThanOrEqualTo(12 * 16 - 2 * 64);
            kept.forEach(ByteBuf::release);
            for (int i = 0; i < 2; i++) { // what each event loop has lent is back
                RdmaChannel client = pair.connect();
                RdmaChannel server = pair.accepted();
                Heard atServer = heard(server);
                atServer.keeps = true;
                send(client, 1);
                Until.holds(() -> atServer.bytes == 1);
                assertThat(server.copiedBytes()).isZero();
                atServer.kept.forEach(ByteBuf::release);
            }
        }
    }

    /** Other memory may be at its address then. */
    @Test
    void aBufferIsNotUsedAgainOnceItsMemoryIsFree() {
        ReceivedByteBuf buffer;
        MemorySegment next = Arena.ofAuto().allocate(100);
        try (Arena arena = Arena.ofConfined()) {
            buffer = new ReceivedByteBuf(arena.allocate(100));
            assertThat(buffer.isFreeOver(next)).isTrue();
        }
        assertThat(buffer.isFreeOver(next)).isFalse();
    }
}
