package dev.verbena.netty;

import io.netty.buffer.ByteBufAllocator;
import io.netty.channel.ChannelOption;
import io.netty.channel.DefaultChannelConfig;
import io.netty.channel.MessageSizeEstimator;
import io.netty.channel.RecvByteBufAllocator;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.socket.SocketChannelConfig;

import java.util.Map;

/** The options of a channel. */
@SuppressWarnings("deprecation") // Netty's interface has deprecated methods
final class RdmaChannelConfig extends DefaultChannelConfig implements SocketChannelConfig {
    static final int NO_TRAFFIC_CLASS = -1;

    private static final int LOW_WATER_MARK = 256 << 10;
    private static final int USUAL_LINGER_SECONDS = 5;

    private final TcpOptions tcp = TcpOptions.ofChannel();
    private volatile boolean allowHalfClosure;
    private volatile int linger = -1; // seconds; -1 for the usual
    private volatile boolean choosesAllocator; // the program does
    private volatile boolean choosesReceiveBuffers;
    private volatile int trafficClass = NO_TRAFFIC_CLASS;

    RdmaChannelConfig(RdmaChannel channel) {
        super(channel);
        choosesReceiveBuffers = false; // the constructor above has set the default
        // What is in flight counts, too: Netty's 64 KiB would be all there is in a round trip.
        super.setWriteBufferWaterMark(new WriteBufferWaterMark(LOW_WATER_MARK, 1 << 20));
    }

    @Override
    protected void autoReadCleared() {
        ((RdmaChannel) channel).clearReadPending();
    }

    /** What the program has not chosen is that of its event loop. */
    void defaultAllocator(ByteBufAllocator allocator) {
        if (!choosesAllocator) {
            super.setAllocator(allocator);
        }
    }

    /** Whether the program has chosen what it reads into: then what has come is copied. */
    boolean choosesReceiveBuffers() {
        return choosesReceiveBuffers;
    }

    static int checkTrafficClass(int value) {
        if (value < NO_TRAFFIC_CLASS || value > 255) {
            throw new IllegalArgumentException(
                    "A traffic class is 0 to 255, or -1 for the system's, not " + value);
        }
        return value;
    }

    private static boolean isTrafficClass(ChannelOption<?> option) {
        return option.equals(RdmaChannelOption.TRAFFIC_CLASS)
                || option.equals(ChannelOption.IP_TOS);
    }

    @Override
    public Map<ChannelOption<?>, Object> getOptions() {
        return getOptions(
                getOptions(super.getOptions(), tcp.all()),
                ChannelOption.ALLOW_HALF_CLOSURE,
                ChannelOption.SO_LINGER,
                ChannelOption.IP_TOS,
                RdmaChannelOption.TRAFFIC_CLASS);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T getOption(ChannelOption<T> option) {
        Object value;
        if (option.equals(ChannelOption.ALLOW_HALF_CLOSURE)) {
            value = allowHalfClosure;
        } else if (isTrafficClass(option)) {
            value = trafficClass;
        } else if (option.equals(ChannelOption.SO_LINGER)) {
            value = linger;
        } else if (tcp.contains(option)) {
            value = tcp.get(option);
        } else {
            value = super.getOption(option);
        }
        return (T) value;
    }

    @Override
    public <T> boolean setOption(ChannelOption<T> option, T value) {
        validate(option, value);
        if (option.equals(ChannelOption.ALLOW_HALF_CLOSURE)) {
            allowHalfClosure = (Boolean) value;
        } else if (isTrafficClass(option)) {
            trafficClass = checkTrafficClass((Integer) value);
        } else if (option.equals(ChannelOption.SO_LINGER)) {
            linger = (Integer) value;
        } else if (tcp.contains(option)) {
            tcp.set(option, value);
        } else {
            return super.setOption(option, value);
        }
        return true;
    }

    @Override
    public boolean isAllowHalfClosure() {
        return allowHalfClosure;
    }

    @Override
    public RdmaChannelConfig setAllowHalfClosure(boolean allow) {
        allowHalfClosure = allow;
        return this;
    }

    @Override
    public int getTrafficClass() {
        return trafficClass;
    }

    @Override
    public RdmaChannelConfig setTrafficClass(int value) {
        trafficClass = checkTrafficClass(value);
        return this;
    }

    @Override
    public boolean isTcpNoDelay() {
        return tcp.get(ChannelOption.TCP_NODELAY);
    }

    @Override
    public RdmaChannelConfig setTcpNoDelay(boolean tcpNoDelay) {
        tcp.set(ChannelOption.TCP_NODELAY, tcpNoDelay);
        return this;
    }

    @Override
    public int getSoLinger() {
        return linger;
    }

    /** Whether a close waits for what was flushed; otherwise it resets the connection. */
    boolean lingers() {
        return linger != 0;
    }

    /** How long it waits at most. */
    int lingerSeconds() {
        return linger < 0 ? USUAL_LINGER_SECONDS : linger;
    }

    @Override
    public RdmaChannelConfig setSoLinger(int seconds) {
        linger = seconds;
        return this;
    }

    @Override
    public int getSendBufferSize() {
        return tcp.get(ChannelOption.SO_SNDBUF);
    }

    @Override
    public RdmaChannelConfig setSendBufferSize(int sendBufferSize) {
        tcp.set(ChannelOption.SO_SNDBUF, sendBufferSize);
        return this;
    }

    @Override
    public int getReceiveBufferSize() {
        return tcp.get(ChannelOption.SO_RCVBUF);
    }

    @Override
    public RdmaChannelConfig setReceiveBufferSize(int receiveBufferSize) {
        tcp.set(ChannelOption.SO_RCVBUF, receiveBufferSize);
        return this;
    }

    @Override
    public boolean isKeepAlive() {
        return tcp.get(ChannelOption.SO_KEEPALIVE);
    }

    @Override
    public RdmaChannelConfig setKeepAlive(boolean keepAlive) {
        tcp.set(ChannelOption.SO_KEEPALIVE, keepAlive);
        return this;
    }

    @Override
    public boolean isReuseAddress() {
        return tcp.get(ChannelOption.SO_REUSEADDR);
    }

    @Override
    public RdmaChannelConfig setReuseAddress(boolean reuseAddress) {
        tcp.set(ChannelOption.SO_REUSEADDR, reuseAddress);
        return this;
    }

    @Override
    public RdmaChannelConfig setPerformancePreferences(
            int connectionTime, int latency, int bandwidth) {
        return this;
    }

    @Override
    public RdmaChannelConfig setConnectTimeoutMillis(int connectTimeoutMillis) {
        super.setConnectTimeoutMillis(connectTimeoutMillis);
        return this;
    }

    @Override
    public RdmaChannelConfig setMaxMessagesPerRead(int maxMessagesPerRead) {
        super.setMaxMessagesPerRead(maxMessagesPerRead);
        return this;
    }

    @Override
    public RdmaChannelConfig setWriteSpinCount(int writeSpinCount) {
        super.setWriteSpinCount(writeSpinCount);
        return this;
    }

    @Override
    public RdmaChannelConfig setAllocator(ByteBufAllocator allocator) {
        choosesAllocator = true;
        super.setAllocator(allocator);
        return this;
    }

    @Override
    public RdmaChannelConfig setRecvByteBufAllocator(RecvByteBufAllocator allocator) {
        choosesReceiveBuffers = true;
        super.setRecvByteBufAllocator(allocator);
        return this;
    }

    @Override
    public RdmaChannelConfig setAutoRead(boolean autoRead) {
        super.setAutoRead(autoRead);
        return this;
    }

    @Override
    public RdmaChannelConfig setAutoClose(boolean autoClose) {
        super.setAutoClose(autoClose);
        return this;
    }

    @Override
    public RdmaChannelConfig setMessageSizeEstimator(MessageSizeEstimator estimator) {
        super.setMessageSizeEstimator(estimator);
        return this;
    }

    @Override
    public RdmaChannelConfig setWriteBufferWaterMark(WriteBufferWaterMark writeBufferWaterMark) {
        super.setWriteBufferWaterMark(writeBufferWaterMark);
        return this;
    }

    /** Below the default of the low mark, that becomes Netty's. */
    @Override
    public RdmaChannelConfig setWriteBufferHighWaterMark(int high) {
        if (high < LOW_WATER_MARK && getWriteBufferLowWaterMark() == LOW_WATER_MARK) {
            super.setWriteBufferLowWaterMark(WriteBufferWaterMark.DEFAULT.low());
        }
        super.setWriteBufferHighWaterMark(high);
        return this;
    }
}
