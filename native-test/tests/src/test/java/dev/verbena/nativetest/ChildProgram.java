package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A Java program in a process of its own, which ends after two minutes at the latest. */
final class ChildProgram implements AutoCloseable {
    private static final int SECONDS = 120;

    private final Process process;
    private final BufferedReader lines;

    private ChildProgram(Process process) {
        this.process = process;
        this.lines = process.inputReader();
    }

    static ChildProgram start(Class<?> program, String... arguments) throws IOException {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-XX:TieredStopAtLevel=1",
                                "--enable-native-access=ALL-UNNAMED",
                                "-cp",
                                System.getProperty("java.class.path"),
                                program.getName()));
        command.addAll(Arrays.asList(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        CompletableFuture.delayedExecutor(SECONDS, TimeUnit.SECONDS)
                .execute(process::destroyForcibly);
        return new ChildProgram(process);
    }

    /** The next line that it prints; null when it has ended. */
    String line() throws IOException {
        return lines.readLine();
    }

    /** Sends a signal, as "STOP". */
    void signal(String name) throws IOException, InterruptedException {
        Process kill = new ProcessBuilder("kill", "-" + name, "" + process.pid()).start();
        assertThat(kill.waitFor()).as("kill -%s %d", name, process.pid()).isZero();
    }

    int exitCode() throws InterruptedException {
        assertThat(process.waitFor(SECONDS, TimeUnit.SECONDS)).as("has ended").isTrue();
        return process.exitValue();
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
