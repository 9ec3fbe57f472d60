package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The command {@code connections}, with a command {@code rdma} of the test's making. */
class ConnectionsTest {
    private static final long SELF = ProcessHandle.current().pid();
    private static final String LISTENER =
            "link mlx5_0/- cm-idn 0 state LISTEN ps TCP pid %d comm a thread src-addr 0.0.0.0:7174 "
                    .formatted(SELF);
    private static final String CONNECTED =
            "link mlx5_1/1 cm-idn 3 lqpn 281 qp-type RC state CONNECT ps TCP comm [nvme_rdma] "
                    + "src-addr fe80::1:4420 dst-addr 192.0.2.7:41000 ";

    @TempDir private Path directory;
    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    /** A program that prints that and ends so, instead of rdma. */
    private Path rdma(int code, String... lines) throws Exception {
        Path script = directory.resolve("rdma");
        Files.writeString(
                script,
                "#!/bin/sh\n[ \"$*\" = 'resource show cm_id' ] || exit 9\ncat <<'END'\n%s\nEND\nexit %d\n"
                        .formatted(String.join("\n", lines), code));
        assertThat(script.toFile().setExecutable(true)).isTrue();
        return script;
    }

    private int run(Path rdma, String... options) {
        List<String> line = new ArrayList<>(List.of("connections", "--rdma", rdma.toString()));
        line.addAll(Arrays.asList(options));
        return Verbena.run(
                new PrintWriter(out, true),
                new PrintWriter(err, true),
                line.toArray(String[]::new));
    }

    private static String comm() throws Exception {
        return Files.readString(Path.of("/proc/self/comm")).strip();
    }

    @Test
    void listsEachIdentifierInARow() throws Exception {
        assertThat(run(rdma(0, LISTENER, CONNECTED))).isZero();
        assertThat(out.toString().lines().map(line -> line.replaceAll(" {2,}", "  ")))
                .containsExactly(
                        "DEVICE/PORT  STATE  LOCAL  PEER  QUEUE PAIR PID  PROGRAM",
                        "mlx5_0/-  listen  0.0.0.0:7174  -  -  %d  %s".formatted(SELF, comm()),
                        "mlx5_1/1  connect  fe80::1:4420  192.0.2.7:41000  281  -  [nvme_rdma]");
        assertThat(err.toString()).isEmpty();
    }

    @Test
    void printsJson() throws Exception {
        assertThat(run(rdma(0, LISTENER, CONNECTED), "--json")).isZero();
        assertThat(out.toString())
                .isEqualToIgnoringNewLines(
                        ("{\"connections\":[{\"device\":\"mlx5_0\",\"port\":null,\"state\":\"listen\","
                                        + "\"local\":\"0.0.0.0\",\"local_port\":7174,\"remote\":null,"
                                        + "\"remote_port\":null,\"queue_pair\":null,\"pid\":%d,\"program\":\"%s\"},"
                                        + "{\"device\":\"mlx5_1\",\"port\":1,\"state\":\"connect\","
                                        + "\"local\":\"fe80::1\",\"local_port\":4420,\"remote\":\"192.0.2.7\","
                                        + "\"remote_port\":41000,\"queue_pair\":281,\"pid\":null,"
                                        + "\"program\":\"[nvme_rdma]\"}]}\n")
                                .formatted(SELF, comm()));
    }

    @Test
    void showsThoseOfOneDeviceOrOfOneProcess() throws Exception {
        Path rdma = rdma(0, LISTENER, CONNECTED);
        assertThat(run(rdma, "--device", "mlx5_1")).isZero();
        assertThat(out.toString()).contains("mlx5_1").doesNotContain("mlx5_0");
        out.getBuffer().setLength(0);
        assertThat(run(rdma, "--pid", Long.toString(SELF))).isZero();
        assertThat(out.toString()).contains("mlx5_0").doesNotContain("mlx5_1");
    }

    /** The kernel notes threads; a thread's process is what the user knows. */
    @Test
    void namesTheProcessOfTheThread() throws Exception {
        Path proc = directory.resolve("proc");
        Files.createDirectories(proc.resolve("4711"));
        Files.writeString(
                proc.resolve("4711/status"), "Name:\ta thread\nTgid:\t4700\nPid:\t4711\n");
        Files.createDirectories(proc.resolve("4700"));
        Files.writeString(proc.resolve("4700/comm"), "java\n");
        String older =
                "link roce0/1 lqpn 17 qp-type RC state CONNECT ps TCP pid 4711 comm x y cm-idn 3"
                        + " src-addr 192.0.2.1:1 dst-addr 192.0.2.2:2";
        KernelConnection one = KernelConnection.of(older, proc);
        assertThat(one.pid()).isEqualTo(4700);
        assertThat(one.program()).isEqualTo("java");
        assertThat(one.queuePair()).isEqualTo(17);
        assertThat(one.local()).isEqualTo("192.0.2.1:1");
        KernelConnection ended = KernelConnection.of(older.replace("4711", "4712"), proc);
        assertThat(ended.pid()).isNull();
        assertThat(ended.program()).isEqualTo("x y");
        KernelConnection ownerless =
                KernelConnection.of("link roce0/- cm-idn 0 state ADDR_BOUND ps TCP ", proc);
        assertThat(ownerless.state()).isEqualTo("addr_bound");
        assertThat(ownerless.program()).isNull();
    }

    // ---- what goes wrong

    private void failsWith(int code, String sentence) {
        assertThat(code).isEqualTo(1);
        assertThat(out.toString()).isEmpty();
        assertThat(err.toString().lines()).hasSize(1);
        assertThat(err.toString()).contains(sentence);
    }

    @Test
    void noSuchProcess() throws Exception {
        failsWith(run(rdma(0), "--pid", "999999999"), "No process has the ID 999999999");
    }

    @Test
    void noSuchDevice() throws Exception {
        int code = run(rdma(0, LISTENER), "--device", "nothing0");
        assertThat(code).isEqualTo(1);
        assertThat(err.toString().lines()).as("no such device, or none at all").hasSize(1);
    }

    @Test
    void noCommand() {
        failsWith(run(directory.resolve("absent")), "install iproute2");
    }

    @Test
    void theCommandFails() throws Exception {
        failsWith(
                run(rdma(1, "Failed to open NETLINK_RDMA socket")), "exit code 1: Failed to open");
        err.getBuffer().setLength(0);
        failsWith(run(rdma(4, "")), "exit code 4: it printed nothing");
    }

    @ParameterizedTest
    @ValueSource(strings = {"link mlx5_0", "error: Protocol not available", "state LISTEN ps TCP"})
    void anUnknownLineIsNotPassedOver(String line) {
        assertThatThrownBy(() -> KernelConnection.of(line, directory))
                .isInstanceOf(ToolFailure.class)
                .hasMessageContaining(line);
    }
}
