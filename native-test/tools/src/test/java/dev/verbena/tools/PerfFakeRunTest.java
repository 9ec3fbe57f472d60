package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Connector;
import dev.verbena.Gid;
import dev.verbena.Listener;
import dev.verbena.Port;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.tools.PerfOnFakeDevice.Run;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;

/** perf from the command line to its results, on a device that does not exist. */
@Timeout(60)
class PerfFakeRunTest {
    private final PerfOnFakeDevice perf = new PerfOnFakeDevice();

    @AfterEach
    void close() {
        perf.close();
    }

    private Run measured(String line) throws Exception {
        Run server = perf.server();
        Run client = perf.client(server, line);
        int code = client.exitCode();
        int serverCode = server.exitCode();
        assertThat(code).as(client + "\n" + server).isZero();
        assertThat(serverCode).as(client + "\n" + server).isZero();
        return client;
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "send lat",
                "write lat",
                "read lat",
                "send-inv lat",
                "send bw",
                "write bw --events",
                "read bw --qps 2",
                "send-inv bw",
                "channel lat",
                "channel bw",
                "send bw --events --chain 8 --depth 32 --qps 3",
                "send-inv bw --events --chain 4 --depth 16 --qps 2 --inline 64",
            })
    void measures(String line) throws Exception {
        Run client = measured(line + " --size 64,5000 --iterations 300 --warmup 10");
        assertThat(client.out()).containsPattern("\n 64 +\\d+ ").containsPattern("\n 5000 +\\d+ ");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "send bw",
                "write bw --events --qps 2",
                "read bw --depth 8 --signal-every 3",
                "send-inv bw --depth 16 --chain 4",
                "send bw --events --qps 3 --depth 32 --chain 8",
                "send lat",
                "send lat --events",
                "write lat",
                "read lat",
                "send-inv lat",
                "channel bw --qps 2",
                "channel lat --events",
            })
    void measuresForSomeTime(String line) throws Exception {
        long start = System.nanoTime();
        Run client = measured(line + " --size 5000 -D 1 --warmup 10 --json");
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isBetween(Duration.ofSeconds(1), Duration.ofSeconds(30));
        assertThat(client.out())
                .hasLineCount(1)
                .containsPattern("\"iterations\":\\d{2,},")
                .contains("\"duration_sec\":1");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "send bw",
                "write bw",
                "read bw --qps 2",
                "send bw --events --chain 8 --depth 32 --qps 3",
                "send bw -D 1",
                "send bw -D 1 --events --qps 2",
                "write bw -D 1 --events",
            })
    void measuresBothDirectionsAtOnce(String line) throws Exception {
        String words = line.contains("-D") ? "" : " --iterations 300";
        Run both = measured(line + words + " -b --size 64,5000 --warmup 10");
        assertThat(both.out()).containsPattern("\n 64 +\\d+ ").containsPattern("\n 5000 +\\d+ ");
    }

    @Test
    void printsPerftestsHeader() throws Exception {
        Run client =
                measured("send bw --depth 16 -q 2 -b -R -F --size 64 --iterations 100 --warmup 0");
        assertThat(client.out())
                .startsWith(
                        """
                        ---------------------------------------------------------------------------------------
                                            Send Bidirectional BW Test
                         Dual-port       : OFF\t\tDevice         : fake0
                         Number of qps   : 2\t\tTransport type : IB
                         Connection type : RC\t\tUsing SRQ      : OFF
                         TX depth        : 16
                         RX depth        : 512
                         CQ Moderation   : 16
                         Mtu             : 1024[B]
                         Link type       : Ethernet
                         GID index       : 0
                         Max inline data : 0[B]
                         rdma_cm QPs     : ON
                         Data ex. method : rdma_cm
                        ---------------------------------------------------------------------------------------
                         local address: LID 0000 QPN 0x""");
        String gid = " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01";
        List<String> lines = client.out().lines().skip(15).toList();
        assertThat(lines)
                .satisfiesExactly(
                        one ->
                                assertThat(one)
                                        .matches(" local address: LID 0000 QPN 0x.{4} PSN n/a"),
                        one -> assertThat(one).isEqualTo(gid),
                        one ->
                                assertThat(one)
                                        .matches(" local address: LID 0000 QPN 0x.{4} PSN n/a"),
                        one -> assertThat(one).isEqualTo(gid),
                        one ->
                                assertThat(one)
                                        .matches(" remote address: LID 0000 QPN 0x.{4} PSN n/a"),
                        one -> assertThat(one).isEqualTo(gid),
                        one ->
                                assertThat(one)
                                        .matches(" remote address: LID 0000 QPN 0x.{4} PSN n/a"),
                        one -> assertThat(one).isEqualTo(gid),
                        one -> assertThat(one).isEqualTo(PerfHeader.LINE),
                        one -> assertThat(one).startsWith(" #bytes"),
                        one -> assertThat(one).startsWith(" 64 "),
                        one -> assertThat(one).isEqualTo(PerfHeader.LINE));
        assertThat(
                        lines.stream()
                                .filter(one -> one.contains("QPN"))
                                .map(one -> one.substring(one.indexOf("QPN"))))
                .as("four queue pairs")
                .doesNotHaveDuplicates();
    }

    @Test
    void jsonHasAddressAndPortInFieldsOfTheirOwn() throws Exception {
        Run client = measured("write lat --iterations 10 --warmup 0 --json");
        assertThat(client.out())
                .containsPattern(
                        "\"from\":\"10.0.0.1\",\"from_port\":\\d+,\"to\":\"10.0.0.1\",\"to_port\":\\d+,");
    }

    // ---- the GID

    private static final Port.GidEntry V1 =
            new Port.GidEntry(1, 0, new Gid(0, 0xFFFF_0A00_0001L), Port.GidType.ROCE_V1, 0);
    private static final Port.GidEntry V2 =
            new Port.GidEntry(1, 1, new Gid(0, 0xFFFF_0A00_0001L), Port.GidType.ROCE_V2, 0);
    private static final Port.GidEntry OTHER =
            new Port.GidEntry(1, 2, new Gid(0, 0xFFFF_0A00_0002L), Port.GidType.ROCE_V2, 0);
    private static final Port.GidEntry LINK_LOCAL =
            new Port.GidEntry(1, 3, new Gid(0xFE80_0000_0000_0000L, 1), Port.GidType.ROCE_V2, 0);

    @Test
    void connectsFromTheAddressOfTheGid() throws Exception {
        perf.device.gids = List.of(V1, V2, OTHER, LINK_LOCAL);
        perf.network.devices.put(InetAddress.ofLiteral("10.0.0.2"), "fake0");
        String line = "write lat --iterations 10 --warmup 0 -x 2";
        assertThat(measured(line + " --json").out()).contains("\"from\":\"10.0.0.2\"");
        assertThat(measured(line).out())
                .contains(" GID index       : 2\n")
                .contains(" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:02");
    }

    @ParameterizedTest
    @CsvSource({
        "0, is one of RoCE v1",
        "3, is link-local",
        "7, fake0 has no GID 7 on port 1",
    })
    void refusesGidsThatConnectionsCannotUse(int index, String explanation) throws Exception {
        perf.device.gids = List.of(V1, V2, OTHER, LINK_LOCAL);
        Run client = perf.client(7175, "write lat -x " + index);
        assertThat(client.exitCode()).isEqualTo(1);
        assertThat(client.err()).contains(explanation);
    }

    /** A thousand messages of each side; the server's are as many as the client's. */
    @Test
    void sumsUpBothDirections() {
        PerfResult client = PerfResult.ofBandwidth(1 << 20, 1000, 1_000_000_000, 0);
        assertThat(client.plus(1000).bandwidth().average()).isEqualTo(2000);
        assertThat(client.plus(1000).bandwidth().messages()).isEqualTo(0.002);
        assertThat(client.plus(0)).isEqualTo(client);
    }

    /**
     * Messages that use up credit arrive before this side's sends of credit are acknowledged: they
     * say nothing about the room in its send queue.
     */
    @ParameterizedTest
    @ValueSource(
            strings = {"send-inv bw --depth 7 --chain 4 --signal-every 2", "send bw --depth 16"})
    void returnsCreditWhileEarlierCreditIsNotAcknowledged(String line) throws Exception {
        boolean tokens = line.startsWith("send-inv");
        perf.device.acknowledgedLate =
                request ->
                        (request.opcode() != SendChain.SEND || tokens)
                                && request.opcode() != SendChain.SEND_WITH_INVALIDATE
                                && request.length() < 64; // or it is a message of the control
        measured(line + " --size 64 --iterations 6000 --warmup 0");
    }

    // ---- unhappy ways

    /** The connection manager then refuses in its name, with bytes that are all zero. */
    @Test
    void saysThatTheServerDoesNotAnswer() throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        InetSocketAddress any =
                new InetSocketAddress(InetAddress.ofLiteral(PerfOnFakeDevice.ADDRESS), 0);
        try (Adapter adapter = perf.open();
                Listener listener = adapter.listen(any, 0, requests::add)) {
            Run client = perf.client(listener.localAddress().getPort(), "write lat");
            requests.take().close();
            assertThat(client.exitCode()).isEqualTo(1);
            assertThat(client.err())
                    .doesNotContain("\0")
                    .contains("its program rejected it")
                    .contains("Start the server (again)");
        }
    }

    @Test
    void saysThatNobodyListens() throws Exception {
        Run client = perf.client(9, "write lat");
        assertThat(client.exitCode()).isEqualTo(1);
        assertThat(client.err())
                .startsWith("/10.0.0.1:9 refused the connection: nobody listens")
                .contains("Start the server (again)");
    }

    /** Something writes into the memory that is measured, until the end. */
    @ParameterizedTest
    @ValueSource(strings = {"write bw", "read bw -D 1", "write bw -D 1", "write bw -D 1 -b"})
    void noticesWrongData(String line) throws Exception {
        Run server = perf.server();
        String count = line.contains("-D") ? "" : " --iterations 3000";
        Run client = perf.client(server, line + count + " --size 5000 --warmup 0");
        Random random = new Random(1);
        while (!client.ended()) {
            perf.device.peerWrites(random, (byte) 0);
            LockSupport.parkNanos(50_000);
        }
        assertThat(client.exitCode()).as(client + "\n" + server).isEqualTo(1);
        assertThat(client.err()).containsPattern("The data from the (client|server) is wrong");
        assertThat(server.exitCode()).isEqualTo(1);
    }

    @Test
    void saysOnceThatItWasStopped() throws Exception {
        PerfStop.begin();
        Run server = perf.server();
        Run client = perf.client(server, "write lat --warmup 0 --iterations 10000000");
        server.await(Pattern.compile("write lat"));
        try {
            PerfStop.ask(server.thread);
            assertThat(server.exitCode()).isEqualTo(1);
            assertThat(client.exitCode()).isEqualTo(1);
        } finally {
            PerfStop.begin();
        }
        assertThat(server.err().lines()).containsExactly("Stopped");
        assertThat(client.err().lines()).containsExactly("Stopped");
    }
}
