package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.verbena.Adapter;
import dev.verbena.Connector;
import dev.verbena.Listener;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.regex.Pattern;

/** What the launcher's commands print for programs to read, and perftest's names for options. */
@NeedsDevices
@Timeout(180)
class LauncherTest {
    private static final String NUMBER = "\\d+\\.\\d{6}";

    private static String address(String device) {
        try (Adapter adapter = Adapter.open(device)) {
            return adapter.gid().gid().gid().toInetAddress().getHostAddress();
        }
    }

    private final String serverAddress = address(RdmaDevices.active().getFirst());
    private final String clientDevice = RdmaDevices.active().getLast();
    private final String clientAddress = address(clientDevice);

    @Test
    void pingPrintsOneJsonObject() throws Exception {
        try (ToolRun server = ToolRun.ping("server", "--bind", serverAddress, "--port", "0");
                ToolRun client =
                        ToolRun.ping(
                                "client",
                                serverAddress,
                                "--port",
                                Integer.toString(server.port()),
                                "--from",
                                clientAddress,
                                "--device",
                                clientDevice,
                                "--count",
                                "3",
                                "--size",
                                "100",
                                "--json")) {
            assertThat(client.exitCode()).as(() -> client + "\n" + server).isZero();
            assertThat(server.exitCode()).as(server::toString).isZero();
            assertThat(client.err()).isEmpty();
            assertThat(client.out())
                    .matches(
                            Pattern.compile(
                                    ("\\{\"rounds\":3,\"bytes\":100,\"verified\":true,\"round_trip_usec\":"
                                                    + "\\{\"min\":#,\"median\":#,\"p99\":#,\"max\":#},"
                                                    + "\"device\":\"%s\",\"from\":\"[^\",]+\",\"from_port\":\\d+,"
                                                    + "\"to\":\"[^\",]+\",\"to_port\":%d}\n")
                                            .replace("#", NUMBER)
                                            .formatted(clientDevice, server.port())));
        }
    }

    @Test
    void connectionsListsTheListenersOfAProcess() throws Exception {
        InetAddress here = InetAddress.ofLiteral(serverAddress);
        try (Adapter adapter = Adapter.forAddress(here);
                Listener listener =
                        adapter.listen(new InetSocketAddress(here, 0), 0, Connector::close);
                ToolRun tool =
                        ToolRun.of(
                                "connections",
                                "--json",
                                "--pid",
                                Long.toString(ProcessHandle.current().pid()))) {
            int code = tool.exitCode();
            assumeFalse(tool.err().contains("install iproute2"), tool::err);
            assertThat(code).as(tool::toString).isZero();
            assertThat(tool.out())
                    .contains(
                            "\"state\":\"listen\",\"local\":\"%s\",\"local_port\":%d,"
                                    .formatted(serverAddress, listener.localAddress().getPort()));
        }
    }

    @Test
    void perfUnderstandsPerftestsNamesForOptions() throws Exception {
        try (ToolRun server = ToolRun.perf("server", "--bind", serverAddress, "-p", "0", "--once");
                ToolRun client =
                        ToolRun.perf(
                                ("write bw %s -p %d --source_ip %s -d %s -s 64 -n 40 -t 16 -q 2 -Q 4 -l 2"
                                                + " -I 16 -u 15 --tclass 104 --sl 3 -e --warmup 0 --no-progress --json")
                                        .formatted(
                                                serverAddress,
                                                server.port(),
                                                clientAddress,
                                                clientDevice)
                                        .split(" "))) {
            assertThat(client.exitCode()).as(() -> client + "\n" + server).isZero();
            assertThat(server.exitCode()).as(server::toString).isZero();
            assertThat(client.out().lines()).hasSize(1);
            assertThat(client.out())
                    .startsWith("{\"bytes\":64,\"iterations\":80,")
                    .contains("\"device\":\"" + clientDevice + "\"")
                    .contains("\"depth\":16,\"chain\":2,\"signal_every\":4,\"inline\":16")
                    .contains(
                            "\"events\":true,\"qps\":2,\"bidirectional\":false,\"duration_sec\":null,\"qp_timeout\":15,\"tclass\":104,\"sl\":3");
        }
    }
}
