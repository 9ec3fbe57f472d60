package dev.verbena.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.verbena.Adapter;
import dev.verbena.bench.child.Requests;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The stand-in provider, made by the C compiler of this machine: what the benchmarks run on.
 * Without a compiler or headers it is skipped, with a message, and fails with {@code
 * -Dverbena.headers=required}.
 */
@Timeout(300)
class StandInTest {
    /**
     * Of the three in use: with errno, without, and those that need no transition of the thread.
     */
    private static final int SIGNATURES = 3;

    // 135 and 192 today, with JDK 25. A signature is 10 hidden classes, a lambda one, the first
    // string that is formatted 100 of the JDK's classes.
    private static final int MOST_OF_VERBENA = 150;
    private static final int MOST_HIDDEN = 230;

    // 3,626 to 4,377, and 28 to 201 today, with the default options, after a message; 10,771 and
    // 159 before ADR 22.
    private static final int MOST_HEAP_OF_CHANNEL = 4_600;
    private static final int MOST_NATIVE_OF_CHANNEL = 300;

    // 1,588 and 6,919 today, with depth 16 on both sides; 3,315 and 10,100 before ADR 16.
    private static final int MOST_HEAP = 1_650;
    private static final int MOST_NATIVE = 7_200;

    @TempDir static Path folder;

    private static Path standIn;

    @BeforeAll
    static void compile() throws Exception {
        standIn = folder.resolve("libibverbs.so.1");
        String output =
                compile(
                        standIn,
                        "c/stand_in.c",
                        "-fPIC",
                        "-shared",
                        "-Wl,-soname,libibverbs.so.1",
                        "-lpthread");
        if (!Files.exists(standIn)) {
            String sentence =
                    "The stand-in needs a C compiler and libibverbs-dev (Fedora: gcc,"
                            + " rdma-core-devel): "
                            + output.lines().findFirst().orElse("");
            if (System.getProperty("verbena.headers", "optional").equals("required")) {
                fail(sentence);
            }
            System.err.println("SKIPPED: " + sentence);
            abort(sentence);
        }
    }

    /** Beside the one for libibverbs. */
    private static void compileConnectionManager() throws Exception {
        Path result = folder.resolve("librdmacm.so.1");
        String said =
                compile(
                        result,
                        "c/stand_in_cm.c",
                        standIn.toString(),
                        "-fPIC",
                        "-shared",
                        "-Wl,-soname,librdmacm.so.1",
                        "-lpthread");
        assertThat(result).as(said).exists();
    }

    /** Answers what the compiler said; that it worked shows by the file. */
    private static String compile(Path result, String source, String... options) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(System.getenv().getOrDefault("CC", "cc"));
        command.addAll(List.of("-O2", "-std=gnu11", "-o", result.toString(), source));
        Collections.addAll(command, options);
        try {
            return run(Map.of(), command.toArray(String[]::new));
        } catch (IOException e) {
            return String.valueOf(e.getMessage());
        }
    }

    private static String run(Map<String, String> environment, String... command) throws Exception {
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().putAll(environment);
        Process process = builder.start();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(120, TimeUnit.SECONDS)).isTrue();
        return output;
    }

    private static String java(Class<?> program, List<String> options, String... arguments)
            throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(options);
        String path =
                System.getProperty(
                        "surefire.test.class.path", System.getProperty("java.class.path"));
        command.addAll(List.of("-cp", path, program.getName()));
        Collections.addAll(command, arguments);
        return run(Map.of("LD_LIBRARY_PATH", folder.toString()), command.toArray(String[]::new));
    }

    @Test
    void takesRequestsOfEveryKind() throws Exception {
        // Of both kinds of completion queues: 22 for each round and 1 for each event, 64 flushed.
        assertThat(java(Requests.class, List.of()).strip())
                .isEqualTo("completions: " + 2 * (2_000 * 22 + 2_000 + 64));
    }

    private static final String NANOS = "RESULT\tpost-poll\tchain=%d\t\\d+\\.\\d\\d\tns\n";
    private static final String OF_MANY = "RESULT\tload-queue-pairs\t8\t\\d+\\.\\d\\d\tns\n";

    /** Names of options, and lines that the report reads: the same in C and in Java. */
    @Test
    void theSidesInCMeasureWhatTheReportReads() throws Exception {
        assertThat(c("post_poll", "--clock", "cpu", "--ms", "1", "--rounds", "1"))
                .matches(NANOS.formatted(1));
        assertThat(c("post_poll", "--tuned", "--chain", "16", "--ms", "1", "--rounds", "1"))
                .matches(NANOS.formatted(16));
        String[] load = {"--pairs", "8", "--ms", "1", "--rounds", "1", "--clock", "cpu"};
        assertThat(c("load", load)).matches(OF_MANY);
        assertThat(c("load", append(load, "--tuned"))).matches(OF_MANY);
        assertThat(c("message", "--bytes", "64", "--ms", "1", "--rounds", "1"))
                .matches("RESULT\tmessage\tc bytes=64\t\\d+\\.\\d\\d\tns\n");
        assertThat(c("two_threads", "--ms", "1", "--rounds", "1"))
                .matches("RESULT\ttwo-threads\t-\t\\d+\\.\\d\\d\ttimes\n");
        assertThat(c("idle_pairs", "--count", "100"))
                .matches("RESULT\tidle-queue-pair\tnative\t\\d+\\.\\d\\d\tB\n");
    }

    private static String c(String program, String... arguments) throws Exception {
        Path file = folder.resolve(program);
        if (!Files.exists(file)) {
            String said =
                    compile(
                            file,
                            "c/" + program + ".c",
                            standIn.toString(),
                            "-lpthread",
                            "-Wl,-rpath," + folder);
            assertThat(file).as(said).exists();
        }
        return run(Map.of(), append(new String[] {file.toString()}, arguments));
    }

    private static String[] append(String[] first, String... more) {
        return Stream.of(first, more).flatMap(Arrays::stream).toArray(String[]::new);
    }

    @Test
    void twoPollersAreComparedWithOne() throws Exception {
        assertThat(java(TwoPollers.class, List.of(), "--ms", "100", "--rounds", "1"))
                .matches("RESULT\ttwo-pollers\t-\t\\d+\\.\\d\\d\ttimes\n");
    }

    @Test
    void measuresWithoutThisLibrary() throws Exception {
        Path stub = folder.resolve("libbare_jni.so");
        String headers = Path.of(System.getProperty("java.home"), "include").toString();
        String said =
                compile(
                        stub,
                        "c/bare_jni.c",
                        "-fPIC",
                        "-shared",
                        "-I" + headers,
                        "-I" + headers + "/linux");
        assertThat(stub).as(said).exists();
        for (String calls : List.of("ffm", stub.toString())) {
            assertThat(raw(calls, "1", "1")).matches(NANOS.formatted(1));
            assertThat(raw(calls, "1", "16")).matches(NANOS.formatted(16));
            assertThat(raw(calls, "8", "1")).matches(OF_MANY);
        }
    }

    private static String raw(String calls, String pairs, String chain) throws Exception {
        return java(RawLoop.class, List.of(), calls, pairs, chain, "--ms", "1", "--rounds", "1");
    }

    @Test
    void measuresThisLibraryBesideThem() throws Exception {
        for (String what : List.of("one", "chain", "batch", "prepared")) {
            assertThat(java(Turns.class, List.of(), "CONFINED", what, "--ms", "1", "--rounds", "1"))
                    .matches(NANOS.formatted(what.equals("one") ? 1 : 16));
        }
        assertThat(
                        java(
                                Load.class,
                                List.of(),
                                append(
                                        new String[] {"--pairs", "8", "--clock", "cpu"},
                                        "--ms",
                                        "1",
                                        "--rounds",
                                        "1")))
                .matches(OF_MANY);
        assertThat(java(TwoThreads.class, List.of(), "--ms", "1", "--rounds", "1"))
                .matches("RESULT\ttwo-threads\t-\t\\d+\\.\\d\\d\ttimes\n");
    }

    @Test
    void measuresAMessageAndOneOverTcp() throws Exception {
        for (String what : List.of("channel", "registered", "queue-pair", "tcp")) {
            assertThat(java(MessageTurns.class, List.of(), what, "--ms", "1", "--rounds", "1"))
                    .matches("RESULT\tmessage\t" + what + " bytes=64\t\\d+\\.\\d\\d\tns\n");
        }
    }

    @Test
    void measuresNettyOverItAndOverTcp() throws Exception {
        compileConnectionManager();
        for (String what : List.of("verbena", "epoll", "nio")) {
            for (int bytes : new int[] {64, 1 << 20}) {
                assertThat(
                                java(
                                        NettyTurns.class,
                                        List.of("-Dio.netty.leakDetection.level=disabled"),
                                        what,
                                        "--ms",
                                        "20",
                                        "--rounds",
                                        "1",
                                        "--bytes",
                                        "" + bytes))
                        .matches(
                                "RESULT\tnetty\t%s bytes=%d\t\\d+\\.\\d\\d\tns\n"
                                                .formatted(what, bytes)
                                        + (bytes == 64
                                                ? "RESULT\tnetty-allocation\t%s bytes=64\t\\d+\\.\\d\\d\tB\n"
                                                        .formatted(what)
                                                : ""));
            }
        }
    }

    @Test
    void measuresTheMemoryOfIdleChannelsOfNetty() throws Exception {
        compileConnectionManager();
        assertThat(java(NettyIdle.class, List.of("-Xint"), "--count", "100"))
                .matches(
                        "RESULT\tnetty-idle\theap\t\\d+\\.\\d\\d\tB\n"
                                + "RESULT\tnetty-idle\tnative\t\\d+\\.\\d\\d\tB\n");
    }

    @Test
    void measuresCallsOfGrpcAndFlightOverItAndOverTcp() throws Exception {
        compileConnectionManager();
        for (String what : List.of("verbena", "epoll")) {
            assertThat(
                            java(
                                    FlightTurns.class,
                                    List.of("--add-opens=java.base/java.nio=ALL-UNNAMED"),
                                    what,
                                    "--ms",
                                    "20",
                                    "--rounds",
                                    "1"))
                    .contains("RESULT\tnetty-flight\t" + what + "\t");
            assertThat(java(GrpcTurns.class, List.of(), what, "--ms", "20", "--rounds", "1"))
                    .matches("RESULT\tnetty-grpc\t" + what + "\t\\d+\\.\\d\\d\tns\n");
        }
    }

    /**
     * That nothing is lost or kept twice shows in the figures: a queue pair takes some kilobytes.
     */
    @Test
    void measuresAMessageOnManyConnections() throws Exception {
        String[] brief = {"--pairs", "3", "--ms", "1", "--rounds", "1"};
        String line = "RESULT\tload-messages\t3\t\\d+\\.\\d\\d\tns\n";
        assertThat(c("load_messages", brief)).matches(line);
        for (String what : List.of("channel", "queue-pair")) {
            String[] arguments =
                    Stream.concat(Stream.of(what), Arrays.stream(brief)).toArray(String[]::new);
            assertThat(java(LoadMessages.class, List.of(), arguments)).matches(line);
        }
    }

    @Test
    void measuresTheMemoryOfIdleChannels() throws Exception {
        compileConnectionManager();
        String output =
                java(IdleChannels.class, List.of("-Xint"), "--messages", "1", "--histogram", "yes");
        Matcher found =
                Pattern.compile(
                                "(?s)RESULT\tidle-channel\theap\t(-?\\d+)\\.\\d\\d\tB\n"
                                        + "RESULT\tidle-channel\tnative\t(-?\\d+)\\.\\d\\d\tB\n"
                                        + ".* 1\\.00 of dev\\.verbena\\.messaging\\.MessageChannel\n.*")
                        .matcher(output);
        assertThat(found.matches()).as(output).isTrue();
        assertThat(Integer.parseInt(found.group(1))).isBetween(1_000, MOST_HEAP_OF_CHANNEL);
        assertThat(Integer.parseInt(found.group(2))).isBetween(0, MOST_NATIVE_OF_CHANNEL);
    }

    @Test
    void measuresTheMemoryOfIdleQueuePairs() throws Exception {
        String output = java(IdlePairs.class, List.of("-Xint"), "--count", "1000");
        Matcher found =
                Pattern.compile(
                                "RESULT\tidle-queue-pair\theap\t(-?\\d+)\\.\\d\\d\tB\n"
                                        + "RESULT\tidle-queue-pair\tnative\t(-?\\d+)\\.\\d\\d\tB\n")
                        .matcher(output);
        assertThat(found.matches()).as(output).isTrue();
        assertThat(Integer.parseInt(found.group(1))).isBetween(200, MOST_HEAP);
        assertThat(Integer.parseInt(found.group(2))).isBetween(4_000, MOST_NATIVE);
    }

    /**
     * What makes a JVM's first message late is classes: of this library, and those that the JVM
     * spins for signatures, lambdas and handles. Counted, as times differ from machine to machine.
     */
    @Test
    void loadsFewClassesOnTheWayToTheFirstCompletion() throws Exception {
        Path log = folder.resolve("classes.txt");
        String output =
                java(
                        Startup.class,
                        List.of("-Xlog:class+load:file=" + log + ":none"),
                        "0",
                        "first");
        assertThat(output).contains("start-to-first");
        List<String> loaded = new ArrayList<>();
        for (String line : Files.readAllLines(log)) {
            String name = line.substring(0, line.indexOf(' '));
            if (name.equals(Startup.class.getPackageName() + ".Results")) {
                break; // measured; now it prints
            }
            loaded.add(name);
        }
        assertThat(loaded).contains(Startup.class.getName(), Adapter.class.getName());
        assertThat(loaded)
                .as("strings of errors that did not happen, records compared, regular expressions")
                .doesNotContain(
                        "java.util.Formatter",
                        "java.lang.runtime.ObjectMethods",
                        "java.lang.invoke.StringConcatFactory",
                        "java.util.regex.Pattern",
                        "java.lang.System$Logger")
                .noneMatch(name -> name.startsWith("dev.verbena.bindings."));
        assertThat(loaded.stream().filter(name -> name.contains(".DowncallStub")))
                .hasSizeLessThanOrEqualTo(SIGNATURES);
        assertThat(
                        loaded.stream()
                                .filter(name -> name.startsWith("dev.verbena."))
                                .filter(name -> !name.contains("/0x")))
                .hasSizeBetween(50, MOST_OF_VERBENA);
        assertThat(loaded.stream().filter(name -> name.contains("/0x")))
                .hasSizeBetween(50, MOST_HIDDEN);
    }
}
