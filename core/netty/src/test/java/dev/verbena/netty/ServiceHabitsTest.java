package dev.verbena.netty;

import static dev.verbena.netty.Connected.heard;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Until;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.netty.Connected.Heard;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.util.IllegalReferenceCountException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.BindException;
import java.net.InetSocketAddress;
import java.nio.channels.UnresolvedAddressException;

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
}
