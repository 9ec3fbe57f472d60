package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.Gid;
import dev.verbena.Port;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The launcher: help, versions, exit codes, what it prints where. */
class VerbenaTest {
    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    private int run(String line) {
        return Verbena.run(
                new PrintWriter(out, true),
                new PrintWriter(err, true),
                Arrays.stream(line.split(" "))
                        .filter(word -> !word.isEmpty())
                        .toArray(String[]::new));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "devices",
                "doctor",
                "connections",
                "demo",
                "ping",
                "ping server",
                "ping client",
                "perf",
                "perf server",
                "perf send",
                "perf write",
                "perf read",
                "perf send-inv"
            })
    void eachCommandHasHelpAndVersion(String command) {
        assertThat(run(command + " --help")).isZero();
        assertThat(out.toString())
                .startsWith(("Usage: verbena " + command).strip())
                .contains("--help", "--version");
        out.getBuffer().setLength(0);
        assertThat(run(command + " --version")).isZero();
        assertThat(out.toString().lines())
                .hasSize(3)
                .satisfiesExactly(
                        line -> assertThat(line).startsWith("verbena "),
                        line -> assertThat(line).startsWith("rdma-core "),
                        line -> assertThat(line).startsWith("Java "));
        assertThat(err.toString()).isEmpty();
    }

    @Test
    void outputThatIsLostIsAFailure() {
        Writer full =
                new Writer() {
                    @Override
                    public void write(char[] buffer, int from, int count) throws IOException {
                        throw new IOException("No space left on device");
                    }

                    @Override
                    public void flush() {}

                    @Override
                    public void close() {}
                };
        PrintWriter errors = new PrintWriter(err, true);
        assertThat(Verbena.run(new PrintWriter(full, true), errors, "--help")).isOne();
        assertThat(err.toString()).contains("could not be written");
    }

    @ParameterizedTest
    @CsvSource({"help, verbena", "help ping, verbena ping", "help perf, verbena perf"})
    void helpIsACommandToo(String line, String command) {
        assertThat(run(line)).isZero();
        assertThat(out.toString()).startsWith("Usage: " + command + " ");
        assertThat(err.toString()).isEmpty();
    }

    @Test
    void helpNamesAllCommandsAndExitCodes() {
        run("--help");
        assertThat(out.toString())
                .contains("devices", "doctor", "connections", "demo", "ping", "perf");
        assertThat(out.toString())
                .containsPattern("\n +0 +success")
                .containsPattern("\n +2 +the command");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "''                             | Missing required subcommand | verbena",
                "dotcor                         | Unmatched argument          | verbena",
                "ping                           | Missing required subcommand | verbena ping",
                "doctor --fast                  | Unknown option: '--fast'    | verbena doctor",
                "perf send lat                  | 'ADDRESS'                   | verbena perf send",
                "ping client nowhere.invalid    | no host has that name       | verbena ping client",
                "perf write bw 192.0.2.1 -n one | 'one' is not an int         | verbena perf write",
            })
    void wrongUsageIsExplainedInTwoLines(String line, String explanation, String command) {
        assertThat(run(line)).isEqualTo(2);
        assertThat(out.toString()).isEmpty();
        assertThat(err.toString())
                .contains(explanation)
                .endsWith("\"%s --help\" lists the options%n".formatted(command))
                .doesNotContain("Exception", "\tat ");
        assertThat(err.toString().lines().count()).isBetween(2L, 3L); // or with a suggestion
    }

    @ParameterizedTest
    @ValueSource(strings = {"devices --device x", "doctor extra", "demo --json"})
    void whatACommandDoesNotTakeIsRefused(String line) {
        assertThat(run(line)).isEqualTo(2);
    }

    /** Whether this machine has a device or not: a failure is one sentence, and 1. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "demo",
                "perf send lat 192.0.2.1 -d no-such",
                "ping client 192.0.2.1 --device no-such"
            })
    void aFailureIsOneSentenceAndOne(String line) {
        int code = run(line);
        if (line.equals("demo") && code == 0) {
            return; // there are devices here
        }
        assertThat(code).isEqualTo(1);
        assertThat(err.toString().lines()).hasSize(1);
        assertThat(err.toString()).doesNotContain("Exception", "\tat ");
    }

    // ---- versions

    @Test
    void rdmaCoresVersionIsThatOfTheLoadedLibrary() {
        assertThat(
                        Versions.rdmaCore(
                                Stream.of(
                                        "7f00-7f01 r--p 00000000 fe:01 123 /usr/lib/libc.so.6",
                                        "7f02-7f03 r--p 00000000 fe:01 124 /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0")))
                .isEqualTo("44.0");
        assertThat(Versions.rdmaCore(Stream.of("7f r--p 0 0 0 /opt/stand-in/libibverbs.so.1")))
                .isEqualTo("of unknown version");
        assertThat(Versions.rdmaCore(Stream.of("7f r--p 0 0 0 /usr/lib/librdmacm.so.1.3.44.0")))
                .isEqualTo("not found");
    }

    // ---- JSON

    @Test
    void writesEveryKindOfValueAsJson() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("text", "a\"b\\c\n");
        all.put("long", Long.MAX_VALUE);
        all.put("double", 0.5);
        all.put("yes", true);
        all.put("nothing", null);
        all.put("list", List.of(1, Map.of("a", "b")));
        all.put("empty", List.of());
        assertThat(Json.of(all))
                .isEqualTo(
                        "{\"text\":\"a\\\"b\\\\c\\u000a\",\"long\":9223372036854775807,\"double\":0.500000,"
                                + "\"yes\":true,\"nothing\":null,\"list\":[1,{\"a\":\"b\"}],\"empty\":[]}");
    }

    @Test
    void roundTripsAsJsonAreInMicroseconds() {
        RoundTrips times = new RoundTrips();
        for (int i = 1; i <= 200; i++) {
            times.add(i * 1000L);
        }
        assertThat(Json.of(times.json()))
                .isEqualTo(
                        "{\"min\":1.000000,\"median\":100.000000,\"p99\":198.000000,\"max\":200.000000}");
    }

    // ---- the doctor's verdict

    private static DeviceFacts facts(String problem) {
        return new DeviceFacts(
                "mlx5_0",
                "16.35",
                new DeviceFacts.Hardware(0x02c9, 4119, 2),
                "0011:2233",
                List.of(),
                Map.of(),
                null,
                problem);
    }

    private static DoctorReport report(DoctorReport.Device... devices) {
        return new DoctorReport(null, List.of(devices), Long.MAX_VALUE);
    }

    @Test
    void theDoctorNamesEachProblemWithItsDevice() {
        DoctorReport report =
                report(
                        new DoctorReport.Device(facts(null), "no rdma_cm", ""),
                        new DoctorReport.Device(facts(null), "", "too little"),
                        new DoctorReport.Device(facts("may not be opened"), null, null));
        assertThat(report.usable()).isFalse();
        assertThat(report.problems())
                .satisfiesExactly(
                        one ->
                                assertThat(one)
                                        .isEqualTo(
                                                "mlx5_0 cannot connect by IP address: no rdma_cm"),
                        one ->
                                assertThat(one)
                                        .isEqualTo(
                                                "mlx5_0 cannot register 16,777,216 bytes of memory: too little"),
                        one -> assertThat(one).isEqualTo("may not be opened"),
                        one -> assertThat(one).startsWith("No device has a port whose link is up"));
    }

    @Test
    void theDoctorSaysWhyThereIsNoDeviceAndNothingElse() {
        DoctorReport report = new DoctorReport("No RDMA device: load a driver", List.of(), 65_536);
        assertThat(report.problems()).containsExactly("No RDMA device: load a driver");
        assertThat(Json.of(report.json()))
                .isEqualTo(
                        "{\"usable\":false,\"problems\":[\"No RDMA device: load a driver\"],"
                                + "\"lockable_bytes\":65536,\"devices\":[]}");
    }

    @Test
    void aDeviceAsJson() {
        DoctorReport.Device device = new DoctorReport.Device(facts("broken"), null, null);
        assertThat(Json.of(Devices.json(List.of(device.facts()))))
                .isEqualTo(
                        "{\"devices\":[{\"name\":\"mlx5_0\",\"firmware\":\"16.35\",\"vendor_id\":713,"
                                + "\"vendor_part_id\":4119,\"hardware_version\":2,\"node_guid\":\"0011:2233\","
                                + "\"ports\":[],\"chosen_gid\":null,\"problem\":\"broken\"}]}");
        assertThat(Json.of(report(device).json()))
                .contains("\"lockable_bytes\":null")
                .endsWith("\"problem\":\"broken\",\"connections\":null,\"registration\":null}]}");
    }

    @Test
    void aDeviceShowsItsHardwareItsInterfaceAndItsMtu() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device)) {
            DeviceFacts.of(adapter).print(new PrintWriter(out, true));
            assertThat(out.toString().lines())
                    .contains(
                            "Device fake0, vendor 0x1234, part 4119, hardware version 3",
                            "  port 1: link up, ETHERNET, network interface not known, MTU 1024 of at most"
                                    + " 4096, 100 Gbit/s (EDR x4)");
            assertThat(Json.of(DeviceFacts.of(adapter).json()))
                    .contains(
                            "\"vendor_id\":4660,\"vendor_part_id\":4119,\"hardware_version\":3",
                            "\"network_interfaces\":[],\"mtu_bytes\":1024,\"max_mtu_bytes\":4096");
        }
        device.dispose();
    }

    @Test
    void findsTheNetworkInterfacesOfAPort(@TempDir Path sys) throws Exception {
        FakeDevice device = new FakeDevice();
        device.gids =
                List.of(
                        new Port.GidEntry(
                                1, 0, new Gid(0, 0xFFFF_0A00_0001L), Port.GidType.ROCE_V1, 0),
                        new Port.GidEntry(
                                1, 1, new Gid(0, 0xFFFF_0A00_0001L), Port.GidType.ROCE_V2, 0),
                        new Port.GidEntry(
                                1, 5, new Gid(0, 0xFFFF_0A00_0002L), Port.GidType.ROCE_V2, 0));
        try (Adapter adapter = FakeAdapters.open(device)) {
            Port port = adapter.ports().getFirst();
            assertThat(DeviceFacts.interfaces(sys, port)).isEmpty();
            Path net = Files.createDirectories(sys.resolve("device/net"));
            for (int i = 0; i < 2; i++) {
                Path each = Files.createDirectory(net.resolve("ib" + i));
                Files.writeString(each.resolve("dev_port"), i + "\n");
            }
            assertThat(DeviceFacts.interfaces(sys, port)).containsExactly("ib0");
            Path table = Files.createDirectories(sys.resolve("ports/1/gid_attrs/ndevs"));
            Files.writeString(table.resolve("0"), "eth0\n");
            Files.writeString(table.resolve("1"), "eth0\n");
            Files.writeString(table.resolve("5"), "eth0.7\n");
            assertThat(DeviceFacts.interfaces(sys, port)).containsExactly("eth0", "eth0.7");
        }
        device.dispose();
    }

    // ---- perftest's names

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "-p 0              | --port must be 1 to",
                "-s 0              | --size: \"0\" is no size",
                "--all -s 4        | --all stands for --size all",
                "-n 0              | --iterations must be 1 to",
                "--iters 0         | --iterations must be 1 to",
                "-t 0              | --depth must be 1 to",
                "--tx-depth 0      | --depth must be 1 to",
                "-l 129            | --chain must be 1 to 128",
                "--post_list 129   | --chain must be 1 to 128",
                "-Q 129            | --signal-every must be 1 to",
                "--cq-mod 129      | --signal-every must be 1 to",
                "-I -1             | --inline must be 0 to",
                "--inline_size -1  | --inline must be 0 to",
                "-q 0              | --qps must be 1 to",
                "--qp 0            | --qps must be 1 to",
                "-u 32             | --qp-timeout must be 1 to 31",
                "-d x -a -e --source_ip 192.0.2.2 --ib-dev y -n 0 | should be specified only once",
            })
    void takesPerftestsNamesForOptions(String options, String explanation) {
        assertThat(run("perf write bw 192.0.2.1 " + options)).isEqualTo(2);
        assertThat(err.toString()).contains(explanation);
    }
}
