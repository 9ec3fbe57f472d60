package dev.verbena.netty;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.trust.Trust;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.socket.SocketChannel;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Writes of random lengths over Netty's channels that either end closes in the middle. What arrives
 * is the beginning of what was sent, at its own channel; what succeeded has arrived; each promise
 * is done, and each buffer is free.
 */
@Tag("trust")
@Timeout(3600)
class NettyLedgerTest {
    private static final int WRITES = Trust.size(20_000, 1_000_000);
    private static final int AT_ONCE = 4; // channels
    private static final int MOST_BYTES = 3000;
    private static final int SECONDS = 60;

    private final long seed = Trust.seed();
    private final Random random = new Random(seed);
    private final List<String> wrong = new CopyOnWriteArrayList<>();
    private final Map<Integer, Arrivals> arrivals = new ConcurrentHashMap<>(); // at the server
    private int lives;
    private long bytes;

    /** The byte of a life's stream at a position; the first four are the number of the life. */
    private static byte at(int life, long position) {
        if (position < 4) {
            return (byte) (life >> 8 * (3 - position));
        }
        // No short period: a lost or doubled piece of any length shows.
        long mixed = ((long) life << 32 ^ position) * 0x9E37_79B9_7F4A_7C15L;
        return (byte) ((mixed ^ mixed >>> 32) * 0xBF58_476D_1CE4_E5B9L >>> 56);
    }

    /** Compares what comes with what was sent. */
    private final class Arrivals extends ChannelInboundHandlerAdapter {
        final CountDownLatch over = new CountDownLatch(1);
        private final boolean echoes;
        private boolean differs;
        private int life;
        volatile long position;
        volatile Channel channel;

        Arrivals(boolean echoes) {
            this.echoes = echoes;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf buffer = (ByteBuf) message;
            channel = context.channel();
            for (int i = buffer.readerIndex(); i < buffer.writerIndex(); i++) {
                byte found = buffer.getByte(i);
                if (position < 4) {
                    life = life << 8 | found & 0xFF;
                } else if (found != at(life, position) && !differs) {
                    differs = true; // from here on, most bytes do
                    wrong.add("byte %d of life %d".formatted(position, life));
                }
                position++;
            }
            if (!echoes) {
                buffer.release();
                return;
            }
            if (position >= 4) {
                arrivals.put(life, this);
            }
            context.writeAndFlush(buffer);
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            over.countDown();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close(); // the peer is gone
        }
    }

    /** One write, and where it ends in the stream. */
    private record Write(ChannelFuture future, long end) {}

    /** One channel of a client, from its connection to its end. */
    private final class Life {
        final int number = lives++;
        final Arrivals answers = new Arrivals(false);
        final Channel channel;
        final List<Write> writes = new ArrayList<>();
        final List<ByteBuf> unpooled = new ArrayList<>(); // which nobody uses again
        long position;
        boolean serverClosed;

        Life(Connected connected) {
            channel =
                    connected
                            .client(answers)
                            .connect(FakeFabric.port(Connected.PORT))
                            .syncUninterruptibly()
                            .channel();
            write(4, true);
        }

        void write(int length, boolean flush) {
            ByteBuf buffer;
            if (random.nextBoolean()) {
                buffer = channel.alloc().directBuffer(Math.max(length, 1));
            } else {
                buffer = Unpooled.buffer(Math.max(length, 1));
                unpooled.add(buffer);
            }
            for (int i = 0; i < length; i++) {
                buffer.writeByte(at(number, position++));
            }
            ChannelFuture future = flush ? channel.writeAndFlush(buffer) : channel.write(buffer);
            writes.add(new Write(future, position));
            if (!channel.isWritable()) {
                channel.flush();
                future.awaitUninterruptibly(SECONDS, TimeUnit.SECONDS);
            }
        }

        /** Ends it, and looks through it. */
        void settle() throws InterruptedException {
            channel.close().syncUninterruptibly();
            long succeeded = 0;
            for (Write write : writes) {
                if (!write.future.await(SECONDS, TimeUnit.SECONDS)) {
                    wrong.add("a promise of life %d is not done".formatted(number));
                } else if (write.future.isSuccess()) {
                    succeeded = write.end;
                }
            }
            // The device may still read from those that failed.
            Until.holds(() -> unpooled.stream().allMatch(buffer -> buffer.refCnt() == 0));
            if (succeeded > 0) {
                Until.holds(() -> arrivals.containsKey(number)); // its event loop may be busy
            }
            Arrivals there = arrivals.remove(number);
            long arrived = 0;
            if (there != null) {
                if (!there.over.await(SECONDS, TimeUnit.SECONDS)) {
                    wrong.add("the server's side of life %d is open".formatted(number));
                }
                arrived = there.position;
            }
            if (arrived > position || answers.position > arrived) {
                wrong.add(
                        "life %d: %d bytes sent, %d arrived, %d came back"
                                .formatted(number, position, arrived, answers.position));
            }
            if (!serverClosed && succeeded > arrived) {
                wrong.add(
                        "life %d: %d bytes succeeded, %d arrived"
                                .formatted(number, succeeded, arrived));
            }
            bytes += arrived;
        }
    }

    @Test
    void eachWriteIsAccountedFor() throws Exception {
        Trust.Row row = Trust.row("messages through Netty, fake device").seed(seed);
        try (Connected connected =
                new Connected(
                        RdmaOptions.DEFAULTS.withIdle(IdleStrategy.events()),
                        server ->
                                server.childHandler(
                                        new ChannelInitializer<SocketChannel>() {
                                            @Override
                                            protected void initChannel(SocketChannel channel) {
                                                channel.pipeline().addLast(new Arrivals(true));
                                            }
                                        }),
                        client -> {})) {
            List<Life> open = new ArrayList<>();
            for (int i = 0; i < AT_ONCE; i++) {
                open.add(new Life(connected));
            }
            for (int i = 0; i < WRITES; i++) {
                int index = random.nextInt(AT_ONCE);
                Life life = open.get(index);
                life.write(random.nextInt(MOST_BYTES), random.nextInt(3) == 0);
                int fate = random.nextInt(200);
                Arrivals there = arrivals.get(life.number);
                if (fate == 1 && there != null) {
                    life.serverClosed = true;
                    there.channel.close();
                }
                if (fate == 0 || !life.channel.isActive()) {
                    life.settle();
                    open.set(index, new Life(connected));
                }
            }
            for (Life life : open) {
                life.settle();
            }
        }
        row.messages(WRITES).faults(lives - AT_ONCE).losses(wrong.size()).write();
        assertThat(wrong).as("seed %d", seed).isEmpty();
        assertThat(bytes).isGreaterThan(WRITES * 100L);
    }
}
