package dev.verbena.trust;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Random requests on a provider in C that only copies: by the calls that a NIC's provider gets,
 * and, in the whole suite, watched by AddressSanitizer and UndefinedBehaviorSanitizer. Without a C
 * compiler and headers it is skipped, and fails with {@code -Dverbena.headers=required}.
 */
@Tag("trust")
@Timeout(7200)
class StandInTest {
    private static final Path SOURCES = Path.of("..", "native-test", "bench", "c");

    @TempDir Path folder;

    @Test
    void eachRequestCompletesOnceAtItsOwner() throws Exception {
        compile();
        assertThat(run(Map.of(), "stand-in", Trust.size(1_000_000, 100_000_000))).isEmpty();
    }

    @Test
    void everyMessageIsAccountedFor() throws Exception {
        compile();
        assertThat(run(Map.of(), List.of(), MessagesOnStandIn.class, "stand-in")).isEmpty();
    }

    @Test
    void memoryDescriptorsAndThreadsReturnToWhereTheyWere() throws Exception {
        compile();
        int registrations = Trust.size(10_000, 100_000);
        // The JVM itself grows by some MiB; queue pairs that stay take 27 KiB each.
        int mostKibibytes = Trust.size(8_000, 20_000);
        int mostHeap = Trust.size(500, 5_000); // 50 bytes of each registration
        assertThat(
                        run(
                                Map.of(),
                                Program.SMALL_HEAP,
                                LeaksOnStandIn.class,
                                registrations,
                                registrations / 10,
                                mostKibibytes,
                                mostHeap))
                .isEmpty();
    }

    @Test
    void aProcessWithoutDescriptorsSaysSoAndLeavesNothing() throws Exception {
        compile();
        assertThat(run(Map.of(), List.of(), ScarceOnStandIn.class, "descriptors")).isEmpty();
    }

    @Test
    void aProcessWithoutThreadsSaysSoAndLeavesNothing() throws Exception {
        compile();
        List<String> largeStacks = List.of("-Xss1g", "-XX:+UseSerialGC");
        assertThat(run(Map.of(), largeStacks, ScarceOnStandIn.class, "threads")).isEmpty();
    }

    @Test
    void aHeapThatRunsOutLosesNoMessageAndLeavesNothing() throws Exception {
        compile();
        compileConnectionManager();
        List<String> tinyHeap = List.of("-Xmx12m", "-XX:+UseSerialGC");
        int rounds = Trust.size(20, 500);
        assertThat(run(Map.of(), tinyHeap, HungryOnStandIn.class, rounds)).isEmpty();
    }

    @Test
    void nothingIsReadOrWrittenWhereItShouldNotBe() throws Exception {
        assumeTrue(Trust.WHOLE, Trust.ONLY_WHOLE);
        compile("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined");
        Map<String, String> sanitizers =
                Map.of(
                        // First of all libraries, and leaving the JVM's own signals to the JVM.
                        "LD_PRELOAD",
                        compiler("-print-file-name=libasan.so")
                                + " "
                                + compiler("-print-file-name=libubsan.so"),
                        "ASAN_OPTIONS",
                        "detect_leaks=0:handle_segv=0:allow_user_segv_handler=1:halt_on_error=1",
                        "UBSAN_OPTIONS",
                        "print_stacktrace=1:halt_on_error=1");
        assertThat(run(sanitizers, "stand-in with sanitizers", 3_000_000)).isEmpty();
        assertThat(run(sanitizers, List.of(), MessagesOnStandIn.class, "stand-in with sanitizers"))
                .isEmpty();
    }

    private void compile(String... options) throws Exception {
        compileLibrary("stand_in.c", "libibverbs.so.1", options);
    }

    private void compileConnectionManager() throws Exception {
        String others = folder.resolve("libibverbs.so.1").toString();
        compileLibrary("stand_in_cm.c", "librdmacm.so.1", others);
    }

    private void compileLibrary(String source, String library, String... options) throws Exception {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                "-O2",
                                "-std=gnu11",
                                "-fPIC",
                                "-shared",
                                "-Wl,-soname," + library,
                                "-o",
                                folder.resolve(library).toString(),
                                SOURCES.resolve(source).toString()));
        command.addAll(List.of(options));
        command.add("-lpthread");
        String output = compiler(command.toArray(String[]::new));
        if (!output.isEmpty()) {
            String sentence =
                    "The stand-in needs a C compiler, libibverbs-dev and librdmacm-dev: "
                            + output.lines().findFirst().orElseThrow();
            if (System.getProperty("verbena.headers", "optional").equals("required")) {
                fail(sentence);
            }
            abort(sentence);
        }
    }

    /** What the compiler printed; a sentence if there is none. */
    private static String compiler(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(arguments));
        command.addFirst(System.getenv().getOrDefault("CC", "cc"));
        try {
            Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), UTF_8).strip();
            process.waitFor();
            return output;
        } catch (IOException e) {
            return String.valueOf(e.getMessage());
        }
    }

    private List<String> run(Map<String, String> environment, String name, long requests)
            throws Exception {
        return run(environment, List.of(), OnStandIn.class, name, requests);
    }

    private List<String> run(
            Map<String, String> environment,
            List<String> options,
            Class<?> program,
            Object... arguments)
            throws Exception {
        Map<String, String> all = new HashMap<>(environment);
        all.put("LD_LIBRARY_PATH", folder.toString());
        return Program.run(all, options, program, arguments);
    }
}
