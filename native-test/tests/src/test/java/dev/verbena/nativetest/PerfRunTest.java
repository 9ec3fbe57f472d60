package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.Adapter;
import dev.verbena.tools.Verbena;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** perf, with client and server on two devices. */
@NeedsDevices
@Timeout(120)
class PerfRunTest {
    private static final Pattern LISTENING = Pattern.compile("Listening on \\S+ port (\\d+) .*");
    private static final String ENDLESS = " --iterations 10000000 --warmup 0";
    private static final Pattern MEASURING = Pattern.compile(".*measuring: .*");

    private final Deque<AutoCloseable> toClose = new ArrayDeque<>();

    @AfterEach
    void close() throws Exception {
        while (!toClose.isEmpty()) {
            toClose.pop().close();
        }
    }

    private <T extends AutoCloseable> T closing(T it) {
        toClose.push(it);
        return it;
    }

    private static String ip(String device) {
        try (Adapter adapter = Adapter.open(device)) {
            return adapter.gid().gid().gid().toInetAddress().getHostAddress();
        }
    }

    private static String serverIp() {
        return ip(RdmaDevices.active().getFirst());
    }

    private static String clientIp() {
        return ip(RdmaDevices.active().getLast());
    }

    private ToolRun server() {
        return closing(ToolRun.perf("server", "--bind", serverIp(), "--port", "0", "--once"));
    }

    private ToolRun client(int port, String line) {
        List<String> words = new ArrayList<>(List.of(line.split(" ")));
        words.add(2, serverIp());
        words.addAll(List.of("--from", clientIp(), "--port", Integer.toString(port)));
        return closing(ToolRun.perf(words.toArray(String[]::new)));
    }

    /** Both have to end well; when one does not, what the other said is worth knowing, too. */
    private static void assertBothEndWell(ToolRun client, ToolRun server) throws Exception {
        int code = client.exitCode();
        int serverCode = server.exitCode();
        assertThat(code).as(client + "\n" + server).isZero();
        assertThat(serverCode).as(client + "\n" + server).isZero();
    }

    /** Rows by their first column. */
    private static List<String> sizes(ToolRun client) {
        return client.out()
                .lines()
                .filter(line -> line.matches(" \\d.*"))
                .map(line -> line.strip().split("\\s+")[0])
                .toList();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "send lat",
                "write lat",
                "read lat",
                "send-inv lat",
                "send bw",
                "write bw",
                "read bw",
                "send-inv bw",
                "channel lat",
                "channel bw",
                "channel lat --events",
                "channel bw --events --depth 7 --qps 3",
                "send lat --events --inline 64",
                "read lat --events",
                "send-inv lat --events --inline 64",
                "write lat --inline 64",
                "send bw --events --chain 8 --depth 32 --qps 3",
                "send-inv bw --events --chain 4 --depth 16 --qps 2 --inline 64",
                "write bw --events --chain 16 --inline 64 --qps 2",
                "read bw --events --qps 2 --depth 8 --signal-every 1",
                "send bw --depth 1",
                "send-inv bw --depth 1",
                "write bw --depth 8 --signal-every 8",
                "write bw --depth 8 --chain 8 --signal-every 1",
                "send bw --bidirectional --qps 2",
                "write bw --bidirectional --events",
                "read bw --bidirectional",
            })
    void measures(String line) throws Exception {
        ToolRun server = server();
        ToolRun client =
                client(server.port(), line + " --size 64,5000 --iterations 700 --warmup 10");
        assertBothEndWell(client, server);
        assertThat(sizes(client)).containsExactly("64", "5000");
        assertThat(server.out()).contains("all data was correct");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "send lat",
                "write lat",
                "send-inv lat --events",
                "send bw --bidirectional",
                "send-inv bw",
                "read bw",
                "channel bw",
            })
    void measuresForSomeTime(String line) throws Exception {
        ToolRun server = server();
        ToolRun client = client(server.port(), line + " --size 64 --duration 2 --warmup 10");
        assertBothEndWell(client, server);
        assertThat(sizes(client)).containsExactly("64");
    }

    /** With few outstanding requests a round, for which a chain has to have room all the same. */
    @ParameterizedTest
    @ValueSource(strings = {"write bw", "send-inv bw --depth 7 --chain 4 --signal-every 2"})
    void warmsUpByItself(String line) throws Exception {
        ToolRun server = server();
        ToolRun client = client(server.port(), line + " --size 64 --iterations 100");
        assertBothEndWell(client, server);
        assertThat(sizes(client)).containsExactly("64");
    }

    @ParameterizedTest
    @ValueSource(strings = {"send lat", "write bw", "send-inv lat"})
    void measuresAllSizes(String line) throws Exception {
        ToolRun server = server();
        ToolRun client =
                client(server.port(), line + " --size all --iterations 2 --warmup 0 --json");
        assertBothEndWell(client, server);
        assertThat(client.out().lines())
                .hasSize(line.startsWith("send-inv") ? 22 : 23)
                .allMatch(object -> object.startsWith("{\"bytes\":") && object.endsWith("}}"));
    }

    // ---- unhappy ways

    @ParameterizedTest
    @ValueSource(
            strings = {
                "write bw --inline 1000000 | bytes inline",
                "write bw --depth 8000 --qps 1000 | take a lower --depth or fewer --qps",
            })
    void saysWhichLimitIsExceeded(String lineAndWords) throws Exception {
        String[] parts = lineAndWords.split(" \\| ");
        ToolRun server = server();
        ToolRun client = client(server.port(), parts[0]);
        assertThat(client.exitCode()).as(client + "\n" + server).isEqualTo(1);
        assertThat(client.err()).contains(parts[1]);
    }

    /** Soft-RoCE takes 8 MiB on Linux 6.1 and 2 GiB on 6.12 and later, more than perf asks for. */
    @Test
    void saysThatAMessageIsTooLong() throws Exception {
        long most;
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getLast())) {
            most = adapter.info().maxTransferBytes();
        }
        assumeTrue(
                most < 1 << 30,
                "SKIPPED: the device takes messages up to %,d bytes, and perf's --size ends at 1 GiB"
                        .formatted(most));
        ToolRun server = server();
        ToolRun client = client(server.port(), "write lat --size " + (most + 1));
        assertThat(client.exitCode()).as(client + "\n" + server).isEqualTo(1);
        assertThat(client.err()).contains("messages up to %,d bytes".formatted(most));
    }

    @Test
    void saysThatNobodyListens() throws Exception {
        ToolRun client = client(9, "send lat");
        assertThat(client.exitCode()).as(client.toString()).isEqualTo(1);
        assertThat(client.err()).contains("nobody listens");
    }

    @Test
    void refusesOtherPrograms() throws Exception {
        ToolRun server = server();
        ToolRun other =
                closing(
                        ToolRun.ping(
                                "client",
                                serverIp(),
                                "--from",
                                clientIp(),
                                "--port",
                                Integer.toString(server.port())));
        assertThat(other.exitCode()).isEqualTo(1);
        assertThat(server.exitCode()).isEqualTo(1);
        assertThat(server.err()).contains("not a client of perf");
    }

    // ---- a side that is killed, as a process of its own

    /** perf in a process, and the lines it printed. */
    private record Spawned(Process process, BufferedReader lines) implements AutoCloseable {
        static Spawned perf(List<String> arguments) throws IOException {
            List<String> command =
                    new ArrayList<>(
                            List.of(
                                    Path.of(System.getProperty("java.home"), "bin", "java")
                                            .toString(),
                                    // Emulated processors (QEMU 7.2) may get lost where a compiler
                                    // writes over code that another thread runs: SIGILL and SIGSEGV
                                    // at the entry of a method, in about one of ten JVMs.
                                    "-Xint",
                                    "--enable-native-access=ALL-UNNAMED",
                                    "-cp",
                                    System.getProperty("java.class.path"),
                                    Verbena.class.getName(),
                                    "perf"));
            command.addAll(arguments);
            Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
            return new Spawned(process, process.inputReader());
        }

        /** The first line that fits; the test's time limit ends this. */
        Matcher await(Pattern pattern) throws IOException {
            StringBuilder all = new StringBuilder();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Matcher matcher = pattern.matcher(line);
                if (matcher.matches()) {
                    return matcher;
                }
                all.append(line).append('\n');
            }
            throw new AssertionError("perf ended: " + all);
        }

        @Override
        public void close() {
            process.destroyForcibly().onExit().join();
        }
    }

    /**
     * With a deadline that an interpreted JVM on a busy, emulated machine keeps: a new one has
     * taken more than the 10 s of the default until it was connected.
     */
    private Spawned spawn(String... arguments) throws IOException {
        List<String> words = new ArrayList<>(List.of(arguments));
        words.addAll(List.of("--timeout", "60"));
        return closing(Spawned.perf(words));
    }

    @ParameterizedTest
    @ValueSource(strings = {"write lat", "send bw --size 64", "channel lat"})
    void saysThatTheServerIsGone(String line) throws Exception {
        Spawned server = spawn("server", "--bind", serverIp(), "--port", "0");
        int port = Integer.parseInt(server.await(LISTENING).group(1));
        ToolRun client = client(port, line + ENDLESS + " --timeout 60");
        client.await(MEASURING);
        server.close();
        assertThat(client.exitCode()).isEqualTo(1);
        assertThat(client.err()).contains("The server disconnected in the middle of a measurement");
    }

    /** A client that measures until something ends it, and is a process of its own. */
    private Spawned endless(String line, String port) throws IOException {
        List<String> words = new ArrayList<>(List.of(line.split(" ")));
        words.add(2, serverIp());
        words.addAll(List.of("--from", clientIp(), "--port", port));
        words.addAll(List.of(ENDLESS.strip().split(" ")));
        return spawn(words.toArray(String[]::new));
    }

    @Test
    void outlivesItsClients() throws Exception {
        ToolRun server = closing(ToolRun.perf("server", "--bind", serverIp(), "--port", "0"));
        String port = Integer.toString(server.port());
        Spawned client = endless("send lat", port);
        client.await(MEASURING);
        client.process().destroyForcibly();
        ToolRun next = client(server.port(), "read lat --warmup 0 --iterations 10");
        assertThat(next.exitCode()).as(next + "\n" + server).isZero();
        assertThat(server.err()).contains("The client disconnected in the middle");
    }

    @Test
    void endsWhenItIsAskedTo() throws Exception {
        Spawned server = spawn("server", "--bind", serverIp(), "--port", "0");
        String port = server.await(LISTENING).group(1);
        Spawned client = endless("write lat", port);
        client.await(MEASURING);
        client.process().toHandle().destroy(); // SIGTERM; Process.destroy closes what it prints
        client.await(Pattern.compile("Stopped"));
        assertThat(client.process().waitFor(30, TimeUnit.SECONDS)).isTrue();
        assertThat(client.process().exitValue()).isEqualTo(128 + 15);
        server.process().toHandle().destroy();
        assertThat(server.process().waitFor(30, TimeUnit.SECONDS)).isTrue();
        assertThat(server.process().exitValue()).isEqualTo(128 + 15);
    }
}
