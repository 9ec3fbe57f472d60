package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.verbena.Status;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.netty.Leaks;
import dev.verbena.netty.RdmaOptions;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Faults around busy channels of Netty's that only devices have. Each promise is done, each buffer
 * is free, the kernel has nothing of them, and other channels go on. {@code NettyFaultsTest} of
 * core/netty has more faults, on the fake device.
 */
@NeedsDevices
@Tag("trust")
@Timeout(240)
class NettyDeviceFaultsTest {
    private static final int LOADS = 4;
    private static final int ROUNDS = 4;

    /**
     * Silence is noticed within 13 seconds, and a busy machine is not taken for silence. A channel
     * with exposed memory ends when its queue pair is destroyed, which is up to 10 seconds later.
     */
    static final MessagingOptions SOON =
            FaultsTest.LONG
                    .withTimeout(Duration.ofSeconds(10))
                    .withKeepAlive(Duration.ofSeconds(3));

    private final Leaks leaks = new Leaks();

    @AfterEach
    void nothingIsLost() {
        leaks.close();
    }

    /** Of Netty's lengths of messages. */
    static RdmaOptions options(MessagingOptions deadlines) {
        return RdmaOptions.DEFAULTS.withMessaging(
                deadlines.withMaxMessage(1 << 20).withEagerLimit(16_416));
    }

    /** Waits until it listens. */
    private static InetSocketAddress addressOf(ChildProgram peer, NettySides sides)
            throws IOException {
        return new InetSocketAddress(sides.address.getAddress(), Integer.parseInt(peer.line()));
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
                InetSocketAddress address = addressOf(peer, sides);
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
            report(row, load.writes() + other.writes(), wrong, same, wait);
            assertThat(other.isActive()).isTrue();
            assertThat(ends).isSubsetOf(Status.CONNECTION_ABORTED, Status.IO_TIMEOUT);
        }
    }

    /** Writes the row of a fault, then looks at what it says. */
    private static void report(
            Trust.Row row, long writes, List<String> wrong, boolean same, long nanoseconds) {
        row.messages(writes)
                .faults(1)
                .losses(wrong.size())
                .leaks(same ? 0 : 1)
                .longestWait(Duration.ofNanos(nanoseconds))
                .write();
        assertThat(wrong).isEmpty();
        assertThat(same).as("the kernel has nothing of them").isTrue();
    }

    @Test
    void aPeerThatIsFrozenEndsItsChannelsAndServesAgain() throws Exception {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue();
        Trust.Row row = Trust.row("fault: peer frozen, and thawed, Netty, devices");
        try (NettySides sides = new NettySides(1, options(SOON), RdmaDevices.active());
                NettyLoad other =
                        new NettyLoad(sides.clients, sides.echo().localAddress()).start();
                ChildProgram peer = ChildProgram.start(NettyEchoProgram.class)) {
            InetSocketAddress address = addressOf(peer, sides);
            other.goesOn();
            String before = Churn.kernel();
            NettyLoad load = new NettyLoad(sides.clients, address).start();
            NettyLoad idle = new NettyLoad(sides.clients, address);
            load.goesOn();
            peer.suspend();
            long start = System.nanoTime();
            List<Status> ends = List.of(load.end(), idle.end());
            long wait = System.nanoTime() - start;
            other.goesOn();
            peer.resume();
            NettyLoad again = new NettyLoad(sides.clients, address).start();
            again.goesOn();
            List<String> wrong = new ArrayList<>(load.settle());
            wrong.addAll(again.settle());
            again.close();
            boolean same = Churn.sameConnections(before); // the peer's, too
            wrong.addAll(other.settle());
            report(row, load.writes() + again.writes() + other.writes(), wrong, same, wait);
            assertThat(other.isActive()).isTrue();
            assertThat(ends).containsOnly(Status.IO_TIMEOUT);
        }
    }

    /**
     * An interface that is down, and a cable that loses every packet. Only after the latter do new
     * channels connect: Soft-RoCE of Linux 6.1 connects nothing more on a device whose interface
     * was down when a channel disconnected, until the device is deleted and added again.
     */
    @ParameterizedTest
    @CsvSource({
        "link down and up, ip link set vflap1 down, ip link set vflap1 up, false",
        "cable cut and mended, tc qdisc add dev vflap1 root netem loss 100%; "
                + "tc qdisc add dev vflap0 root netem loss 100%, "
                + "tc qdisc delete dev vflap1 root; tc qdisc delete dev vflap0 root, true"
    })
    void anOutageEndsTheChannelsThatNoticeIt(String name, String down, String up, String connects)
            throws Exception {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue();
        findsNothingWrong(NettyOutage.class, name, down, up, connects);
    }

    /** Nobody closed them, so a stream that is read to its end must not take that for its end. */
    @Test
    void aNextHopThatChangesItsAddressAbortsTheChannels() throws Exception {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue();
        findsNothingWrong(NextHopChange.class);
    }

    private static void findsNothingWrong(Class<?> main, String... arguments) throws Exception {
        try (OwnDevices _ = new OwnDevices();
                ChildProgram program = ChildProgram.start(main, arguments)) {
            List<String> log = new ArrayList<>(); // also of the check for leaks
            for (String line = program.line(); line != null; line = program.line()) {
                log.add(line);
            }
            assertThat(log).contains("[]");
            assertThat(program.exitCode()).as(log.toString()).isZero();
        }
    }

    /**
     * Those of the clients and those of the servers by turns: the other side's channels end, too.
     */
    @Test
    void eventLoopsThatAreShutDownUnderLoadLeaveNothing() throws Exception {
        List<String> kernels = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        int writes = 0;
        long longest = 0;
        try (Bystander other = new Bystander("event loops shut down, Netty")) {
            for (int round = 0; round < ROUNDS; round++) {
                List<NettyLoad> loads = new ArrayList<>();
                try (NettySides sides =
                        new NettySides(2, options(FaultsTest.LONG), RdmaDevices.active())) {
                    InetSocketAddress address = sides.echo().localAddress();
                    for (int i = 0; i < LOADS; i++) {
                        loads.add(new NettyLoad(sides.clients, address).start());
                    }
                    loads.forEach(NettyLoad::goesOn);
                    long start = System.nanoTime();
                    (round % 2 == 0 ? sides.clients : sides.servers)
                            .shutdownGracefully(0, 500, TimeUnit.MILLISECONDS)
                            .sync();
                    for (NettyLoad load : loads) {
                        // What a server had not sent is lost.
                        assertThat(load.end())
                                .isIn(
                                        Status.CONNECTION_INVALID,
                                        round % 2 == 0
                                                ? Status.CONNECTION_INVALID
                                                : Status.CONNECTION_ABORTED);
                    }
                    longest = Math.max(longest, System.nanoTime() - start);
                    for (NettyLoad load : loads) {
                        wrong.addAll(load.settle());
                        writes += load.writes();
                    }
                }
                kernels.add(Churn.kernel()); // after the first round, with what librdmacm keeps
            }
            other.write(ROUNDS, writes, wrong.size(), longest);
        }
        assertThat(wrong).isEmpty();
        assertThat(kernels).containsOnly(kernels.getFirst());
    }
}
