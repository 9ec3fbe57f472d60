package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.netty.Connected.Heard;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelConfig;
import io.netty.channel.ChannelOption;
import io.netty.channel.socket.ServerSocketChannelConfig;
import io.netty.channel.socket.SocketChannelConfig;
import io.netty.util.IllegalReferenceCountException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.BindException;
import java.net.InetSocketAddress;
import java.nio.channels.UnresolvedAddressException;
import java.util.List;

/** What services do that were written for Netty's sockets, and what they rely on. */
@Timeout(120)
class ServiceHabitsTest {
    @Test
    void aPortThatIsTakenIsABindException() throws Exception {
        try (Connected pair = new Connected()) {
            assertThatThrownBy(
                            () ->
                                    new ServerBootstrap()
                                            .group(pair.group)
                                            .channel(RdmaServerChannel.class)
                                            .childHandler(new Heard())
                                            .bind(FakeFabric.port(Connected.PORT))
                                            .sync())
                    .isInstanceOf(BindException.class);
        }
    }

    @Test
    void anAddressThatIsNotResolvedIsRefused() {
        try (Connected pair = new Connected()) {
            InetSocketAddress unknown = InetSocketAddress.createUnresolved("x.invalid", 80);
            assertThatThrownBy(
                            () ->
                                    pair.client(new Heard())
                                            .disableResolver()
                                            .connect(unknown)
                                            .sync())
                    .isInstanceOf(UnresolvedAddressException.class);
        }
    }

    /** Its memory may be another buffer's: the peer must not get that. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aReleasedBufferFailsItsOwnWriteOnly(boolean direct) throws Exception {
        try (Connected pair = new Connected()) {
            RdmaChannel client = pair.connect();
            Heard atServer = heard(pair.accepted());
            ByteBuf released = direct ? client.alloc().directBuffer() : Unpooled.buffer();
            released.writeZero(100).release();
            assertThatThrownBy(() -> client.writeAndFlush(released).sync())
                    .isInstanceOf(IllegalReferenceCountException.class);
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[10])).sync();
            Until.holds(() -> atServer.bytes == 10);
        }
    }

    // ---- options

    private static <T> void keeps(ChannelConfig config, ChannelOption<T> option, T value) {
        assertThat(config.setOption(option, value)).isTrue();
        assertThat(config.getOption(option)).isEqualTo(value);
        assertThat(config.getOptions()).containsEntry(option, value);
    }

    @Test
    @SuppressWarnings("deprecation") // options that services set
    void optionsSayWhatWasSet() {
        SocketChannelConfig client = new RdmaChannel().config();
        assertThat(client.getReceiveBufferSize()).isPositive();
        assertThat(client.getSendBufferSize()).isPositive();
        for (boolean value : new boolean[] {false, true}) {
            keeps(client, ChannelOption.TCP_NODELAY, value);
            keeps(client, ChannelOption.SO_KEEPALIVE, value);
            keeps(client, ChannelOption.SO_REUSEADDR, value);
            keeps(client, ChannelOption.ALLOW_HALF_CLOSURE, value);
        }
        keeps(client, ChannelOption.SO_RCVBUF, 4096);
        keeps(client, ChannelOption.SO_SNDBUF, 8192);
        keeps(client, ChannelOption.SO_LINGER, 3);
        keeps(client, ChannelOption.IP_TOS, 8);
        keeps(client, RdmaChannelOption.TRAFFIC_CLASS, 16);
        assertThat(client.getOption(ChannelOption.IP_TOS)).isEqualTo(16);
        client.setTcpNoDelay(false).setKeepAlive(false).setReuseAddress(false);
        client.setReceiveBufferSize(1).setSendBufferSize(2);
        assertThat(client.getOptions())
                .containsEntry(ChannelOption.TCP_NODELAY, client.isTcpNoDelay())
                .containsEntry(ChannelOption.SO_KEEPALIVE, client.isKeepAlive())
                .containsEntry(ChannelOption.SO_REUSEADDR, client.isReuseAddress())
                .containsEntry(ChannelOption.SO_RCVBUF, client.getReceiveBufferSize())
                .containsEntry(ChannelOption.SO_SNDBUF, client.getSendBufferSize())
                .containsEntry(ChannelOption.TCP_NODELAY, false)
                .containsEntry(ChannelOption.SO_RCVBUF, 1);

        ServerSocketChannelConfig server = new RdmaServerChannel().config();
        assertThat(server.getReceiveBufferSize()).isPositive();
        keeps(server, ChannelOption.SO_BACKLOG, 1024);
        keeps(server, ChannelOption.SO_REUSEADDR, false);
        keeps(server, ChannelOption.SO_RCVBUF, 4096);
        keeps(server, RdmaChannelOption.TRAFFIC_CLASS, 16);
    }

    /** Netty's bootstraps log a warning. */
    @Test
    void otherOptionsOfTcpAreUnknown() {
        assertThat(new RdmaChannel().config().setOption(ChannelOption.TCP_FASTOPEN_CONNECT, true))
                .isFalse();
        ChannelConfig server = new RdmaServerChannel().config();
        assertThat(server.setOption(ChannelOption.TCP_NODELAY, true)).isFalse(); // of its children
        assertThat(server.getOption(ChannelOption.TCP_NODELAY)).isNull();
    }

    @Test
    void buffersOfNoBytesAreRefused() {
        for (var option : List.of(ChannelOption.SO_RCVBUF, ChannelOption.SO_SNDBUF)) {
            for (int bytes : new int[] {-1, 0}) {
                ChannelConfig config = new RdmaChannel().config();
                assertThatThrownBy(() -> config.setOption(option, bytes))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining(option.name());
            }
        }
    }
}
