package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.verbena.trust.Trust;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A Java program in a process of its own, which ends after some minutes at the latest. */
final class ChildProgram implements AutoCloseable {
    private static final int SECONDS = Trust.size(120, 600); // it lives at most
    private static final int SIGCONT = 18;
    private static final int SIGSTOP = 19;

    @SuppressWarnings("restricted")
    private static final MethodHandle KILL =
            Linker.nativeLinker()
                    .downcallHandle(
                            Linker.nativeLinker().defaultLookup().findOrThrow("kill"),
                            FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));

    private final Process process;
    private final BufferedReader lines;

    private ChildProgram(Process process) {
        this.process = process;
        this.lines = process.inputReader();
    }

    static ChildProgram start(Class<?> program, String... arguments) throws IOException {
        return start(List.of(), program, arguments);
    }

    /**
     * Starts a program through another one.
     *
     * @param by a command that runs the one which follows its arguments
     */
    static ChildProgram start(List<String> by, Class<?> program, String... arguments)
            throws IOException {
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
        System.getProperties().stringPropertyNames().stream()
                .filter(name -> name.startsWith("verbena.trust"))
                .forEach(
                        name ->
                                command.add(
                                        1, "-D%s=%s".formatted(name, System.getProperty(name))));
        command.addAll(0, by);
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        CompletableFuture.delayedExecutor(SECONDS, TimeUnit.SECONDS)
                .execute(process::destroyForcibly);
        return new ChildProgram(process);
    }

    /**
     * The next line that it prints, but no figures, which are passed on; null when it has ended.
     */
    String line() throws IOException {
        String line = lines.readLine();
        while (line != null && line.startsWith("Trust: ")) {
            System.out.println(line);
            line = lines.readLine();
        }
        return line;
    }

    /** Kills it: it gets no chance to clean up. */
    void kill() {
        process.destroyForcibly();
    }

    /** Suspends it, as Ctrl-Z does in a shell, until {@link #resume}. */
    void suspend() {
        signal(SIGSTOP);
    }

    void resume() {
        signal(SIGCONT);
    }

    /** By the system call: a minimal Debian has no program {@code kill}. */
    private void signal(int number) {
        int result;
        try {
            result = (int) KILL.invokeExact((int) process.pid(), number);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
        assertThat(result).as("kill(%d, %d)", process.pid(), number).isZero();
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
