package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.netty.Leaks;
import dev.verbena.netty.RdmaOptions;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * The process of a peer is killed while channels of Netty's are busy. Each promise is done, each
 * buffer is free, the kernel has no queue pair of them, and another channel goes on. {@code
 * NettyFaultsTest} of core/netty has more faults, on the fake device.
 */
@NeedsDevices
@Tag("trust")
@Timeout(240)
class NettyDeviceFaultsTest {
    private final Leaks leaks = new Leaks();

    @AfterEach
    void nothingIsLost() {
        leaks.close();
    }

    /** Of Netty's lengths of messages. */
    private static RdmaOptions options(MessagingOptions deadlines) {
        return RdmaOptions.DEFAULTS.withMessaging(
                deadlines.withMaxMessage(1 << 20).withEagerLimit(16_416));
    }

    @Test
    void aPeerThatIsKilledEndsItsChannels() throws Exception {
        Trust.Row row = Trust.row("fault: peer killed, Netty, devices");
        try (NettySides sides = new NettySides(1, options(FaultsTest.LONG), RdmaDevices.active());
                NettyLoad other =
                        new NettyLoad(sides.clients, sides.echo().localAddress()).start()) {
            other.goesOn();
            String before = Churn.kernel();
            List<Status> ends = new ArrayList<>();
            NettyLoad load;
            long wait;
            try (ChildProgram peer = ChildProgram.start(NettyEchoProgram.class)) {
                InetSocketAddress address =
                        new InetSocketAddress(
                                sides.address.getAddress(), Integer.parseInt(peer.line()));
                load = new NettyLoad(sides.clients, address).start();
                NettyLoad idle = new NettyLoad(sides.clients, address);
                load.goesOn();
                long start = System.nanoTime();
                peer.kill();
                ends.add(load.end());
                ends.add(idle.end());
                wait = System.nanoTime() - start;
                other.goesOn();
            }
            boolean same = Churn.sameConnections(before);
            List<String> wrong = new ArrayList<>(load.settle());
            wrong.addAll(other.settle());
            row.messages(load.writes() + other.writes())
                    .faults(1)
                    .losses(wrong.size())
                    .leaks(same ? 0 : 1)
                    .longestWait(Duration.ofNanos(wait))
                    .write();
            assertThat(wrong).isEmpty();
            assertThat(same).as("the kernel has nothing of them").isTrue();
            assertThat(other.isActive()).isTrue();
            assertThat(ends).isSubsetOf(Status.CONNECTION_INVALID, Status.IO_TIMEOUT);
        }
    }
}
