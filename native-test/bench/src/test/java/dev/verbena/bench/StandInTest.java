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

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

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

    @TempDir static Path folder;

    private static Path standIn;

    @BeforeAll
    static void compile() throws Exception {
        standIn = folder.resolve("libibverbs.so.1");
        String compiler = System.getenv().getOrDefault("CC", "cc");
        String output;
        try {
            output =
                    run(
                            Map.of(),
                            compiler,
                            "-O2",
                            "-std=gnu11",
                            "-fPIC",
                            "-shared",
                            "-Wl,-soname,libibverbs.so.1",
                            "-o",
                            standIn.toString(),
                            "c/stand_in.c",
                            "-lpthread");
        } catch (IOException e) {
            output = e.getMessage();
        }
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
        Set<String> path = new LinkedHashSet<>();
        for (String name :
                List.of(
                        Adapter.class.getName(),
                        "dev.verbena.bindings.Verbs",
                        Startup.class.getName(),
                        Requests.class.getName())) {
            path.add(
                    Path.of(
                                    Class.forName(name, false, StandInTest.class.getClassLoader())
                                            .getProtectionDomain()
                                            .getCodeSource()
                                            .getLocation()
                                            .toURI())
                            .toString());
        }
        command.addAll(List.of("-cp", String.join(File.pathSeparator, path), program.getName()));
        Collections.addAll(command, arguments);
        return run(Map.of("LD_LIBRARY_PATH", folder.toString()), command.toArray(String[]::new));
    }

    @Test
    void takesRequestsOfEveryKind() throws Exception {
        // Of both kinds of completion queues: 22 for each round and 1 for each event, 64 flushed.
        assertThat(java(Requests.class, List.of()).strip())
                .isEqualTo("completions: " + 2 * (2_000 * 22 + 2_000 + 64));
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
