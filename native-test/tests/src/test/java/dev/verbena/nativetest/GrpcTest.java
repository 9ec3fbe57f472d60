package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaServerChannel;

import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannelBuilder;
import io.grpc.ServerBuilder;
import io.grpc.netty.InternalNettyChannelBuilder;
import io.grpc.netty.InternalNettyServerBuilder;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.testing.integration.AbstractInteropTest;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.runner.JUnitCore;
import org.junit.runner.Result;

import java.net.InetSocketAddress;
import java.util.concurrent.atomic.AtomicInteger;

/** Unchanged gRPC between two devices: the tests that its implementations have to pass. */
@NeedsDevices
@Timeout(300)
class GrpcTest {
    private static NettySides sides;

    @BeforeAll
    static void open() {
        sides = new NettySides(1);
    }

    @AfterAll
    static void close() {
        if (sides != null) {
            sides.close();
        }
    }

    /** As gRPC's own test of its Netty transport, with other channels and event loops. */
    public static final class Interop extends AbstractInteropTest {
        private static final AtomicInteger NEXT_PORT = new AtomicInteger(47_000);

        // Each has its own: gRPC does not wait until the server before has closed its port.
        private final int port = NEXT_PORT.getAndIncrement();

        @Override
        protected ServerBuilder<?> getServerBuilder() {
            NettyServerBuilder builder =
                    NettyServerBuilder.forAddress(
                                    new InetSocketAddress(sides.address.getAddress(), port),
                                    InsecureServerCredentials.create())
                            .channelType(RdmaServerChannel.class)
                            .bossEventLoopGroup(sides.servers)
                            .workerEventLoopGroup(sides.servers)
                            .flowControlWindow(65 * 1024)
                            .maxInboundMessageSize(16 << 20);
            InternalNettyServerBuilder.setStatsEnabled(builder, false);
            return builder.addStreamTracerFactory(createCustomCensusTracerFactory());
        }

        @Override
        protected ManagedChannelBuilder<?> createChannelBuilder() {
            NettyChannelBuilder builder =
                    NettyChannelBuilder.forAddress(
                                    new InetSocketAddress(sides.address.getAddress(), port))
                            .channelType(RdmaChannel.class)
                            .eventLoopGroup(sides.clients)
                            .usePlaintext()
                            .flowControlWindow(65 * 1024)
                            .maxInboundMessageSize(16 << 20);
            InternalNettyChannelBuilder.setStatsEnabled(builder, false);
            return builder.intercept(createCensusStatsClientInterceptor());
        }

        @Override
        protected int operationTimeoutMillis() {
            return 60_000; // an emulated processor is slow
        }
    }

    @Test
    void itsInteroperabilityTestsPass() {
        Result result = new JUnitCore().run(Interop.class);
        assertThat(result.getFailures()).isEmpty();
        assertThat(result.getRunCount()).isGreaterThan(30);
    }
}
