package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.netty.RdmaChannel;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.util.concurrent.Future;

import java.io.IOException;
import java.net.SocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A channel of Netty's to a server that sends back what it gets, and the ledger of its writes: each
 * promise is done once, and bytes come back in order. Idle until it is started; then it writes
 * whenever it is writable.
 */
final class NettyLoad extends ChannelInboundHandlerAdapter implements AutoCloseable {
    private static final int SMALL = 2000;
    private static final int LARGE = 60_000; // more than comes to a receive
    private static final int SECONDS = 60;

    private final Channel channel;
    private final Random random = new Random(7);
    private final List<String> wrong = new CopyOnWriteArrayList<>();
    private boolean writing;
    private volatile boolean over = true;
    private volatile int writes;
    private volatile int ended; // of these
    private volatile int failed; // of these
    private volatile long written; // bytes
    private volatile long back; // of these
    private volatile Throwable caught;

    /** Connects. */
    NettyLoad(EventLoopGroup group, SocketAddress server) {
        channel =
                new Bootstrap()
                        .group(group)
                        .channel(RdmaChannel.class)
                        .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, SECONDS * 1000)
                        .option(
                                ChannelOption.WRITE_BUFFER_WATER_MARK,
                                new WriteBufferWaterMark(LARGE, 2 * LARGE))
                        .handler(this)
                        .connect(server)
                        .syncUninterruptibly()
                        .channel();
    }

    /** From now on it is busy. */
    NettyLoad start() {
        over = false;
        ChannelHandlerContext context = channel.pipeline().context(this);
        context.executor().execute(() -> channelWritabilityChanged(context));
        return this;
    }

    @Override
    public void channelWritabilityChanged(ChannelHandlerContext context) {
        if (writing) {
            return; // a write has changed it
        }
        writing = true;
        while (!over && context.channel().isWritable()) {
            write(context);
        }
        writing = false;
    }

    private void write(ChannelHandlerContext context) {
        int length = 1 + random.nextInt(random.nextInt(8) == 0 ? LARGE : SMALL);
        byte[] bytes = bytes(written, length);
        ByteBuf buffer =
                random.nextBoolean()
                        ? context.alloc().directBuffer(length).writeBytes(bytes)
                        : Unpooled.wrappedBuffer(bytes);
        writes++;
        written += length;
        context.writeAndFlush(buffer).addListener(this::done);
    }

    private static byte[] bytes(long from, int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) ((from + i) * 0x9e37_79b9_7f4a_7c15L >>> 56);
        }
        return bytes;
    }

    private void done(Future<?> write) {
        if (write.isSuccess()) {
            if (failed > 0) {
                wrong.add("write %d succeeded after one that had failed".formatted(ended));
            }
        } else {
            failed++;
            if (!(write.cause() instanceof IOException)) {
                wrong.add("write %d: %s".formatted(ended, write.cause()));
            }
        }
        ended++;
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        ByteBuf part = (ByteBuf) message;
        byte[] came = ByteBufUtil.getBytes(part);
        part.release();
        if (!Arrays.equals(came, bytes(back, came.length))) {
            wrong.add("other bytes came back after %,d".formatted(back));
        }
        back += came.length;
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        caught = cause;
    }

    /** Returns when some more bytes have come back. */
    void goesOn() {
        long enough = back + 2 * LARGE;
        Deadline deadline = Deadline.of("bytes that come back by " + channel);
        while (back < enough) {
            assertThat(channel.isActive()).as("%s: %s", channel, caught).isTrue();
            deadline.check();
            LockSupport.parkNanos(1_000_000);
        }
    }

    /**
     * Waits for the end of the channel. Returns the reason; CONNECTION_INVALID if the pipeline saw
     * an end of the stream and no exception.
     */
    Status end() throws InterruptedException {
        assertThat(channel.closeFuture().await(SECONDS, TimeUnit.SECONDS))
                .as("%s is closed", channel)
                .isTrue();
        if (caught == null) {
            return Status.CONNECTION_INVALID;
        }
        assertThat(caught).isInstanceOf(IOException.class);
        return ((VerbenaException) caught.getCause()).status();
    }

    boolean isActive() {
        return channel.isActive();
    }

    int writes() {
        return writes;
    }

    /** Ends the writing: each promise is done, and if the channel is open, all comes back. */
    List<String> settle() {
        if (channel.isActive()) {
            channel.eventLoop().submit(() -> over = true).syncUninterruptibly();
        }
        Deadline deadline = Deadline.of("end of all writes of " + channel);
        while (ended < writes || (channel.isActive() && back < written)) {
            deadline.check();
            LockSupport.parkNanos(1_000_000);
        }
        if (channel.isActive() && failed > 0) {
            wrong.add("%d writes of an open channel failed".formatted(failed));
        }
        if (back > written) {
            wrong.add("%,d bytes came back, of %,d".formatted(back, written));
        }
        return wrong;
    }

    @Override
    public void close() {
        over = true;
        channel.close().syncUninterruptibly();
    }
}
