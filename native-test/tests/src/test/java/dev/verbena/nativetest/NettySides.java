package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.netty.RdmaIoHandler;
import dev.verbena.netty.RdmaOptions;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
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
        List<String> devices = RdmaDevices.active();
        if (!devices.isEmpty()) {
            ofServers = RdmaIoHandler.newFactory(devices.getFirst());
            ofClients = RdmaIoHandler.newFactory(devices.getLast());
            address = anyPort(devices.getFirst());
            clientAddress = anyPort(devices.getLast());
            closeDevice = () -> {};
        } else if (RdmaDevices.required()) {
            throw new IllegalStateException("There is no RDMA device");
        } else {
            FakeFabric fabric = new FakeFabric();
            ofServers = RdmaIoHandler.newFactory(fabric.adapter, RdmaOptions.DEFAULTS);
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
