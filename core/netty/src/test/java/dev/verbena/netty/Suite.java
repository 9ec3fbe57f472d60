package dev.verbena.netty;

import dev.verbena.Adapter;
import dev.verbena.messaging.FakeFabric;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.testsuite.transport.TestsuitePermutation.BootstrapComboFactory;
import io.netty.testsuite.transport.TestsuitePermutation.BootstrapFactory;
import io.netty.util.concurrent.DefaultThreadFactory;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.List;

/**
 * What Netty's tests of sockets make their channels with: a device that does not exist, or with
 * {@code -Dverbena.device=required} the first RDMA device of this machine that is active.
 */
final class Suite {
    private static final List<String> DEVICES =
            "required".equals(System.getProperty("verbena.device"))
                    ? Adapter.activeNames()
                    : List.of();
    private static final Adapter ADAPTER =
            DEVICES.isEmpty() ? Fake.FABRIC.adapter : Adapter.open(DEVICES.getFirst());
    private static final InetAddress HERE =
            DEVICES.isEmpty()
                    ? FakeFabric.HERE
                    : ADAPTER.ports().getFirst().preferredGid().gid().toInetAddress();
    private static final EventLoopGroup GROUP =
            new MultiThreadIoEventLoopGroup(
                    4,
                    new DefaultThreadFactory("rdma", true),
                    RdmaIoHandler.newFactory(ADAPTER, RdmaOptions.DEFAULTS));

    /** Loaded only where there is no device. */
    private static final class Fake {
        static final FakeFabric FABRIC = new FakeFabric();
    }

    private Suite() {}

    static SocketAddress address() {
        return new InetSocketAddress(HERE, 0);
    }

    static List<BootstrapFactory<Bootstrap>> clients() {
        return List.of(() -> new Bootstrap().group(GROUP).channel(RdmaChannel.class));
    }

    static List<BootstrapFactory<ServerBootstrap>> servers() {
        return List.of(() -> new ServerBootstrap().group(GROUP).channel(RdmaServerChannel.class));
    }

    static List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> pairs() {
        return List.of(
                new BootstrapComboFactory<>() {
                    @Override
                    public ServerBootstrap newServerInstance() {
                        return servers().getFirst().newInstance();
                    }

                    @Override
                    public Bootstrap newClientInstance() {
                        return clients().getFirst().newInstance();
                    }
                });
    }
}
