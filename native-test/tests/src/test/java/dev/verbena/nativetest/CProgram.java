package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import org.opentest4j.TestAbortedException;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiPredicate;
import java.util.stream.Collectors;

/** A C program, of rdma-core or of this project, that runs beside a test, and dies with it. */
final class CProgram implements AutoCloseable {
    private static final long SECONDS = 60;
    private static final int LINES = 30;
    private static final int COLUMNS = 150;
    private static final Set<String> SAID = ConcurrentHashMap.newKeySet();

    private final String line;
    private final Path output;
    private final Path errors;
    private final Process process;

    private CProgram(String... command) {
        line = String.join(" ", command);
        try {
            output = Files.createTempFile("verbena-", ".out");
            errors = Files.createTempFile("verbena-", ".err");
            process =
                    new ProcessBuilder(command)
                            .redirectOutput(output.toFile())
                            .redirectError(errors.toFile())
                            .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Starts one. Without it the test is skipped, with a message, or fails. */
    static CProgram start(String debianPackage, String... command) {
        need(command[0], debianPackage);
        return new CProgram(command);
    }

    /**
     * Compiles a program of this project.
     *
     * @param source its file, from the folder native-test
     * @param headers the folder of the headers that it includes, from there too
     * @return the program
     */
    static Path compile(String source, String headers) throws InterruptedException {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.exists(folder.resolve("native-test").resolve(source))) {
            folder = folder.getParent();
        }
        folder = folder.resolve("native-test");
        Path program =
                Path.of(
                        System.getProperty("java.io.tmpdir"),
                        "verbena-peer-" + ProcessHandle.current().pid());
        String[] command = {
            System.getenv().getOrDefault("CC", "cc"),
            "-O2",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I" + folder.resolve(headers),
            "-o",
            program.toString(),
            folder.resolve(source).toString(),
            "-lrdmacm",
            "-libverbs"
        };
        try (CProgram compiler = start("gcc libibverbs-dev librdmacm-dev", command)) {
            compiler.awaitSuccess();
        }
        program.toFile().deleteOnExit();
        return program;
    }

    /** Starts a program that {@link #compile} has made. */
    static CProgram startBuilt(String... command) {
        return new CProgram(command);
    }

    private static void need(String program, String debianPackage) {
        if (Arrays.stream(System.getenv("PATH").split(File.pathSeparator))
                .anyMatch(folder -> Files.isExecutable(Path.of(folder, program)))) {
            return;
        }
        String sentence =
                "there is no %s here: apt install %s (Fedora: dnf install %s)"
                        .formatted(
                                program,
                                debianPackage,
                                debianPackage
                                        .replace("ibverbs", "libibverbs")
                                        .replace("rdmacm", "librdmacm"));
        if (System.getProperty("verbena.device", "optional").equals("required")) {
            throw new IllegalStateException("-Dverbena.device=required, but " + sentence);
        }
        if (SAID.add(program)) {
            System.err.println("SKIPPED: tests with the C program " + program + ": " + sentence);
        }
        throw new TestAbortedException(sentence);
    }

    /** Whether it ended; then nothing it was asked for will come. */
    boolean ended() {
        return !process.isAlive();
    }

    /** Waits for its end, which has to be a good one: exit code 0. */
    void awaitSuccess() throws InterruptedException {
        awaitSuccess(SECONDS);
    }

    /** The same, for so long. */
    void awaitSuccess(long seconds) throws InterruptedException {
        awaitEnd((exitCode, errors) -> exitCode == 0, seconds);
    }

    /** Waits for its end, and checks its exit code and its standard error with {@code good}. */
    void awaitEnd(BiPredicate<Integer, String> good) throws InterruptedException {
        awaitEnd(good, SECONDS);
    }

    private void awaitEnd(BiPredicate<Integer, String> good, long seconds)
            throws InterruptedException {
        assertThat(process.waitFor(seconds, TimeUnit.SECONDS))
                .as(() -> "ended within " + seconds + " s: " + this)
                .isTrue();
        assertThat(good.test(process.exitValue(), String.join("\n", lines(errors))))
                .as(() -> "ended well: " + this)
                .isTrue();
    }

    /** What it printed so far: for a program that has not ended, less than it wrote. */
    List<String> output() {
        return lines(output);
    }

    private static List<String> lines(Path file) {
        try {
            return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor(SECONDS, TimeUnit.SECONDS);
            Files.deleteIfExists(output);
            Files.deleteIfExists(errors);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The command, what became of it, and the end of what it printed. */
    @Override
    public String toString() {
        return "\"%s\"%s, which printed:%n%s%nand on standard error:%n%s"
                .formatted(
                        line,
                        process.isAlive()
                                ? ", still running"
                                : ", exit code " + process.exitValue(),
                        end(output),
                        end(errors));
    }

    private static String end(Path file) {
        List<String> all = lines(file);
        return all.stream()
                .skip(Math.max(0, all.size() - LINES))
                .map(l -> l.substring(0, Math.min(l.length(), COLUMNS)))
                .collect(Collectors.joining("\n"));
    }
}
