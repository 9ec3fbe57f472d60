package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.tools.PerfOnFakeDevice.Run;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
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
        Run client = measured(line + " --size 64,5000 -D 1 --warmup 10 --json");
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isBetween(Duration.ofSeconds(2), Duration.ofSeconds(30));
        assertThat(client.out().lines())
                .hasSize(2)
                .allSatisfy(
                        object ->
                                assertThat(object)
                                        .containsPattern("\"iterations\":\\d{2,},")
                                        .contains("\"duration_sec\":1"));
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
    void saysThatTheServerEndedBeforeItAnswered() throws Exception {
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
                    .contains("The server ended before it answered");
        }
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
