package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.netty.RdmaIoHandler;
import dev.verbena.netty.RdmaOptions;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.socket.ServerSocketChannel;
import io.netty.channel.socket.SocketChannel;
import io.netty.pkitesting.CertificateBuilder;
import io.netty.pkitesting.X509Bundle;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Event loops for either side of Netty's channels: those of the first device, and of the last. On a
 * machine without devices both are of one that does not exist.
 */
final class NettySides implements AutoCloseable {
    final IoHandlerFactory ofServers;
    final IoHandlerFactory ofClients;
    final EventLoopGroup servers;
    final EventLoopGroup clients;
    final InetSocketAddress address; // of the servers' device; the kernel chooses the port
    final InetSocketAddress clientAddress; // the same of the clients' device
    private final Runnable closeDevice;

    /** As many event loops on each side. */
    NettySides(int threads) {
        this(threads, RdmaOptions.DEFAULTS, RdmaDevices.active());
    }

    /** The same with options, on other devices. */
    NettySides(int threads, RdmaOptions options, List<String> devices) {
        if (!devices.isEmpty()) {
            ofServers = RdmaIoHandler.newFactory(devices.getFirst(), options);
            ofClients = RdmaIoHandler.newFactory(devices.getLast(), options);
            address = anyPort(devices.getFirst());
            clientAddress = anyPort(devices.getLast());
            closeDevice = () -> {};
        } else if (RdmaDevices.required()) {
            throw new IllegalStateException("There is no RDMA device");
        } else {
            FakeFabric fabric = new FakeFabric();
            ofServers = RdmaIoHandler.newFactory(fabric.adapter, options);
            ofClients = ofServers;
            address = new InetSocketAddress(FakeFabric.HERE, 0);
            clientAddress = address;
            closeDevice = fabric::close;
        }
        servers = new MultiThreadIoEventLoopGroup(threads, ofServers);
        clients = new MultiThreadIoEventLoopGroup(threads, ofClients);
    }

    private static InetSocketAddress anyPort(String device) {
        try (Adapter adapter = Adapter.open(device)) {
            return Sides.anyPort(adapter);
        }
    }

    /** Sends back what it gets. */
    private static final class Echo extends ChannelInboundHandlerAdapter {
        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            context.write(message);
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }

    /** A server that sends back what it gets, at a port that the kernel chooses. */
    ServerSocketChannel echo() {
        return (ServerSocketChannel)
                new ServerBootstrap()
                        .group(servers)
                        .channel(RdmaServerChannel.class)
                        .childHandler(
                                new ChannelInitializer<SocketChannel>() {
                                    @Override
                                    protected void initChannel(SocketChannel channel) {
                                        channel.pipeline().addLast(new Echo());
                                    }
                                })
                        .bind(address)
                        .syncUninterruptibly()
                        .channel();
    }

    /** For TLS: a certificate of the servers' address, which signs itself. */
    X509Bundle certificate() throws Exception {
        return new CertificateBuilder()
                .subject("CN=server")
                .addSanIpAddress(address.getAddress().getHostAddress())
                .setIsCertificateAuthority(true)
                .buildSelfSigned();
    }

    @Override
    public void close() {
        clients.shutdownGracefully(0, 30, TimeUnit.SECONDS).syncUninterruptibly();
        servers.shutdownGracefully(0, 30, TimeUnit.SECONDS).syncUninterruptibly();
        closeDevice.run();
    }
}
