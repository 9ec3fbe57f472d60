package dev.verbena.netty;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.messaging.MessagingException;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.testsuite.transport.TestsuitePermutation.BootstrapComboFactory;
import io.netty.testsuite.transport.TestsuitePermutation.BootstrapFactory;
import io.netty.testsuite.transport.socket.AbstractSocketReuseFdTest;
import io.netty.testsuite.transport.socket.AbstractSocketShutdownOutputByPeerTest;
import io.netty.testsuite.transport.socket.CompositeBufferGatheringWriteTest;
import io.netty.testsuite.transport.socket.ServerSocketSuspendTest;
import io.netty.testsuite.transport.socket.SocketAddressesTest;
import io.netty.testsuite.transport.socket.SocketAutoReadTest;
import io.netty.testsuite.transport.socket.SocketBufReleaseTest;
import io.netty.testsuite.transport.socket.SocketCancelWriteTest;
import io.netty.testsuite.transport.socket.SocketChannelNotYetConnectedTest;
import io.netty.testsuite.transport.socket.SocketCloseForciblyTest;
import io.netty.testsuite.transport.socket.SocketConditionalWritabilityTest;
import io.netty.testsuite.transport.socket.SocketConnectTest;
import io.netty.testsuite.transport.socket.SocketConnectionAttemptTest;
import io.netty.testsuite.transport.socket.SocketDataReadInitialStateTest;
import io.netty.testsuite.transport.socket.SocketEchoTest;
import io.netty.testsuite.transport.socket.SocketExceptionHandlingTest;
import io.netty.testsuite.transport.socket.SocketFileRegionTest;
import io.netty.testsuite.transport.socket.SocketFixedLengthEchoTest;
import io.netty.testsuite.transport.socket.SocketGatheringWriteTest;
import io.netty.testsuite.transport.socket.SocketHalfClosedTest;
import io.netty.testsuite.transport.socket.SocketMultipleConnectTest;
import io.netty.testsuite.transport.socket.SocketObjectEchoTest;
import io.netty.testsuite.transport.socket.SocketReadPendingTest;
import io.netty.testsuite.transport.socket.SocketRstTest;
import io.netty.testsuite.transport.socket.SocketSpdyEchoTest;
import io.netty.testsuite.transport.socket.SocketSslClientRenegotiateTest;
import io.netty.testsuite.transport.socket.SocketSslEchoTest;
import io.netty.testsuite.transport.socket.SocketSslGreetingTest;
import io.netty.testsuite.transport.socket.SocketSslSessionReuseTest;
import io.netty.testsuite.transport.socket.SocketStartTlsTest;
import io.netty.testsuite.transport.socket.SocketStringEchoTest;
import io.netty.testsuite.transport.socket.TrafficShapingHandlerTest;
import io.netty.testsuite.transport.socket.WriteBeforeRegisteredTest;

import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** The tests of sockets that Netty's own transports have to pass, with {@link RdmaChannel}s. */
abstract class NettysSuite {
    @Nested
    class CompositeBufferGatheringWrite extends CompositeBufferGatheringWriteTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketAddresses extends SocketAddressesTest {
        @Override
        protected void assertAddress(SocketAddress address) {
            assertThat(((InetSocketAddress) address).getPort()).isPositive();
        }

        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketAutoRead extends SocketAutoReadTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketBufRelease extends SocketBufReleaseTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketCancelWrite extends SocketCancelWriteTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketCloseForcibly extends SocketCloseForciblyTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketConditionalWritability extends SocketConditionalWritabilityTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketConnect extends SocketConnectTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketDataReadInitialState extends SocketDataReadInitialStateTest {
        @Override
        @Test
        @Disabled("A connection stands when the server has read it, not before")
        public void testAutoReadOffNoDataReadUntilReadCalled(TestInfo info) {}

        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketEcho extends SocketEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketExceptionHandling extends SocketExceptionHandlingTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketFileRegion extends SocketFileRegionTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketFixedLengthEcho extends SocketFixedLengthEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketGatheringWrite extends SocketGatheringWriteTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketHalfClosed extends SocketHalfClosedTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketObjectEcho extends SocketObjectEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketReadPending extends SocketReadPendingTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketRst extends SocketRstTest {
        @Override
        protected void assertRstOnCloseException(IOException cause, Channel clientChannel) {
            MessagingException why = (MessagingException) cause.getCause();
            assertThat(why.status()).isEqualTo(Status.CONNECTION_ABORTED);
        }

        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketSpdyEcho extends SocketSpdyEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketSslClientRenegotiate extends SocketSslClientRenegotiateTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketSslEcho extends SocketSslEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketSslGreeting extends SocketSslGreetingTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketSslSessionReuse extends SocketSslSessionReuseTest {
        /** No test: it needs Netty's build of OpenSSL. */
        @Override
        public void testSslSessionTrustManagerResumption(
                SslContextBuilder server, SslContextBuilder client, TestInfo info) {}

        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketStartTls extends SocketStartTlsTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketStringEcho extends SocketStringEchoTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class TrafficShapingHandler extends TrafficShapingHandlerTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketChannelNotYetConnected extends SocketChannelNotYetConnectedTest {
        @Override
        @Test
        @Disabled("Its peer is a TCP socket")
        public void readMustBePendingUntilChannelIsActive(TestInfo info) {}

        @Override
        protected List<BootstrapFactory<Bootstrap>> newFactories() {
            return Suite.clients();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketConnectionAttempt extends SocketConnectionAttemptTest {
        @Override
        @Test
        @Disabled("A connect to nobody fails at once: here it is refused, on devices unroutable")
        public void testConnectCancellation(TestInfo info) {}

        @Override
        protected List<BootstrapFactory<Bootstrap>> newFactories() {
            return Suite.clients();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class WriteBeforeRegistered extends WriteBeforeRegisteredTest {
        @Override
        protected List<BootstrapFactory<Bootstrap>> newFactories() {
            return Suite.clients();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class ServerSocketSuspend extends ServerSocketSuspendTest {
        @Override
        protected List<BootstrapFactory<ServerBootstrap>> newFactories() {
            return Suite.servers();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    /** Its peer is a channel instead of a TCP socket. */
    @Nested
    class SocketShutdownOutputByPeer
            extends AbstractSocketShutdownOutputByPeerTest<AtomicReference<RdmaChannel>> {
        @Override
        protected void connect(AtomicReference<RdmaChannel> peer, SocketAddress address) {
            Bootstrap client = Suite.clients().getFirst().newInstance();
            ChannelFuture connect =
                    client.handler(new ChannelInboundHandlerAdapter()).connect(address);
            peer.set((RdmaChannel) connect.syncUninterruptibly().channel());
        }

        @Override
        protected void write(AtomicReference<RdmaChannel> peer, int data) {
            peer.get().writeAndFlush(Unpooled.wrappedBuffer(new byte[] {(byte) data}));
        }

        @Override
        protected void shutdownOutput(AtomicReference<RdmaChannel> peer) {
            peer.get().shutdownOutput().syncUninterruptibly();
        }

        @Override
        protected void close(AtomicReference<RdmaChannel> peer) {
            peer.get().close().syncUninterruptibly();
        }

        @Override
        protected AtomicReference<RdmaChannel> newSocket() {
            return new AtomicReference<>();
        }

        @Override
        protected List<BootstrapFactory<ServerBootstrap>> newFactories() {
            return Suite.servers();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    @Nested
    class SocketReuse extends AbstractSocketReuseFdTest {
        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }

        @Override
        protected SocketAddress newSocketAddress() {
            return Suite.address();
        }
    }

    /** Its server binds an address of the device instead of the loopback address. */
    @Nested
    class SocketMultipleConnect extends SocketMultipleConnectTest {
        @Override
        public void testMultipleConnect(ServerBootstrap server, Bootstrap client) throws Exception {
            super.testMultipleConnect(
                    new ServerBootstrap() {
                        @Override
                        public ChannelFuture bind(InetAddress address, int port) {
                            return bind(Suite.address());
                        }
                    }.group(server.config().group()).channel(RdmaServerChannel.class),
                    client);
        }

        @Override
        protected List<BootstrapComboFactory<ServerBootstrap, Bootstrap>> newFactories() {
            return Suite.pairs();
        }
    }
}
