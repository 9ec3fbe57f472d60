package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.tools.PerfOnFakeDevice.Run;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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
}
