package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.tools.PerfOnFakeDevice.Run;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
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
