package dev.verbena.netty;

import io.netty.buffer.ByteBufAllocator;
import io.netty.channel.ChannelOption;
import io.netty.channel.DefaultChannelConfig;
import io.netty.channel.MessageSizeEstimator;
import io.netty.channel.RecvByteBufAllocator;
import io.netty.channel.ServerChannelRecvByteBufAllocator;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.socket.ServerSocketChannelConfig;
import io.netty.util.NetUtil;

import java.util.Map;

/** The options of a server channel. */
@SuppressWarnings("deprecation") // Netty's interface has deprecated methods
final class RdmaServerChannelConfig extends DefaultChannelConfig
        implements ServerSocketChannelConfig {
    private final TcpOptions tcp = TcpOptions.ofServer();
    private volatile int backlog = NetUtil.SOMAXCONN;
    private volatile int trafficClass = RdmaChannelConfig.NO_TRAFFIC_CLASS;

    RdmaServerChannelConfig(RdmaServerChannel channel) {
        super(channel, new ServerChannelRecvByteBufAllocator());
    }

    @Override
    public Map<ChannelOption<?>, Object> getOptions() {
        return getOptions(
                getOptions(super.getOptions(), tcp.all()),
                ChannelOption.SO_BACKLOG,
                RdmaChannelOption.TRAFFIC_CLASS);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T getOption(ChannelOption<T> option) {
        Object value;
        if (option.equals(ChannelOption.SO_BACKLOG)) {
            value = backlog;
        } else if (option.equals(RdmaChannelOption.TRAFFIC_CLASS)) {
            value = trafficClass;
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
        if (option.equals(ChannelOption.SO_BACKLOG)) {
            setBacklog((Integer) value);
        } else if (option.equals(RdmaChannelOption.TRAFFIC_CLASS)) {
            trafficClass = RdmaChannelConfig.checkTrafficClass((Integer) value);
        } else if (tcp.contains(option)) {
            tcp.set(option, value);
        } else {
            return super.setOption(option, value);
        }
        return true;
    }

    @Override
    protected void autoReadCleared() {
        ((RdmaServerChannel) channel).clearReadPending();
    }

    int trafficClass() {
        return trafficClass;
    }

    @Override
    public int getBacklog() {
        return backlog;
    }

    @Override
    public RdmaServerChannelConfig setBacklog(int most) {
        if (most < 0) {
            throw new IllegalArgumentException("A backlog is 0 or more, not " + most);
        }
        backlog = most;
        return this;
    }

    @Override
    public boolean isReuseAddress() {
        return tcp.get(ChannelOption.SO_REUSEADDR);
    }

    @Override
    public RdmaServerChannelConfig setReuseAddress(boolean reuseAddress) {
        tcp.set(ChannelOption.SO_REUSEADDR, reuseAddress);
        return this;
    }

    @Override
    public int getReceiveBufferSize() {
        return tcp.get(ChannelOption.SO_RCVBUF);
    }

    @Override
    public RdmaServerChannelConfig setReceiveBufferSize(int receiveBufferSize) {
        tcp.set(ChannelOption.SO_RCVBUF, receiveBufferSize);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setPerformancePreferences(
            int connectionTime, int latency, int bandwidth) {
        return this;
    }

    @Override
    public RdmaServerChannelConfig setConnectTimeoutMillis(int connectTimeoutMillis) {
        super.setConnectTimeoutMillis(connectTimeoutMillis);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setMaxMessagesPerRead(int maxMessagesPerRead) {
        super.setMaxMessagesPerRead(maxMessagesPerRead);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setWriteSpinCount(int writeSpinCount) {
        super.setWriteSpinCount(writeSpinCount);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setAllocator(ByteBufAllocator allocator) {
        super.setAllocator(allocator);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setRecvByteBufAllocator(RecvByteBufAllocator allocator) {
        super.setRecvByteBufAllocator(allocator);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setAutoRead(boolean autoRead) {
        super.setAutoRead(autoRead);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setAutoClose(boolean autoClose) {
        super.setAutoClose(autoClose);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setMessageSizeEstimator(MessageSizeEstimator estimator) {
        super.setMessageSizeEstimator(estimator);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setWriteBufferWaterMark(
            WriteBufferWaterMark writeBufferWaterMark) {
        super.setWriteBufferWaterMark(writeBufferWaterMark);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setWriteBufferHighWaterMark(int writeBufferHighWaterMark) {
        super.setWriteBufferHighWaterMark(writeBufferHighWaterMark);
        return this;
    }

    @Override
    public RdmaServerChannelConfig setWriteBufferLowWaterMark(int writeBufferLowWaterMark) {
        super.setWriteBufferLowWaterMark(writeBufferLowWaterMark);
        return this;
    }
}
