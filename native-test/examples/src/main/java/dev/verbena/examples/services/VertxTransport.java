package dev.verbena.examples.services;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.channel.Channel;
import io.netty.channel.ChannelFactory;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.ServerChannel;
import io.netty.channel.socket.DatagramChannel;
import io.vertx.core.transport.Transport;

/**
 * Lets Vert.x 5 run over RDMA: HTTP, its sockets, and the event bus of a cluster.
 *
 * <pre>{@code
 * Vertx vertx = Vertx.builder()
 *         .withTransport(new VertxTransport(RdmaIoHandler.newFactory("roce0")))
 *         .build();
 * }</pre>
 */
public final class VertxTransport implements Transport, io.vertx.core.spi.transport.Transport {
    private final IoHandlerFactory factory;

    /**
     * A transport over one device.
     *
     * @param factory makes the event loops of the device
     */
    public VertxTransport(IoHandlerFactory factory) {
        this.factory = factory;
    }

    @Override
    public String name() {
        return "rdma";
    }

    @Override
    public boolean available() {
        return true; // without its device, the first event loop says so
    }

    @Override
    public Throwable unavailabilityCause() {
        return null;
    }

    @Override
    public io.vertx.core.spi.transport.Transport implementation() {
        return this;
    }

    /** Always the same one: a server accepts on one event loop for the others. */
    @Override
    public IoHandlerFactory ioHandlerFactory() {
        return factory;
    }

    @Override
    public ChannelFactory<? extends Channel> channelFactory(boolean domainSocket) {
        return RdmaChannel::new;
    }

    @Override
    public ChannelFactory<? extends ServerChannel> serverChannelFactory(boolean domainSocket) {
        return RdmaServerChannel::new;
    }

    @Override
    public ChannelFactory<? extends DatagramChannel> datagramChannelFactory() {
        return () -> {
            throw new UnsupportedOperationException(
                    "RDMA has no datagrams, so Vert.x cannot ask DNS servers: use addresses, or"
                            + " let the JDK resolve names (-Dvertx.disableDnsResolver=true)");
        };
    }

    @Override
    @SuppressWarnings("deprecation") // the SPI's own type
    public DatagramChannel datagramChannel(io.netty.channel.socket.InternetProtocolFamily family) {
        return datagramChannelFactory().newChannel();
    }
}
