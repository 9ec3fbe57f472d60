package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;

import org.opentest4j.TestAbortedException;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * The Linux kernel of the micro VM: its modules, its log, how often its functions ran. Only there:
 * these tests make disks, mount them, and let connections of the kernel fail.
 */
final class Kernel {
    private static final Path TRACING = Path.of("/sys/kernel/tracing");
    private static final Path PROBES = TRACING.resolve("kprobe_events");
    private static final int SECONDS = 120;

    private Kernel() {}

    /** Loads modules, unless this is a machine that somebody else needs. */
    static void load(String... modules) {
        if (!Files.exists(Path.of("/run/verbena/name"))) {
            throw new TestAbortedException("the kernel as peer is tested in the micro VM only");
        }
        run("modprobe -a " + String.join(" ", modules));
    }

    /** Runs a shell script, which has to succeed. */
    static String run(String script) {
        Result result = attempt(script);
        assertThat(result.code).as(script + "\nprinted " + result.output).isZero();
        return result.output;
    }

    record Result(int code, String output) {}

    static Result attempt(String script) {
        Path output = null;
        Process shell = null;
        try {
            output = Files.createTempFile("nvme", ".out"); // no pipe: it may print much
            shell =
                    new ProcessBuilder("sh", "-ec", script)
                            .redirectErrorStream(true)
                            .redirectOutput(output.toFile())
                            .start();
            if (!shell.waitFor(SECONDS, TimeUnit.SECONDS)) {
                throw new AssertionError(
                        "still running after %d s: %s%nprinted %s"
                                .formatted(SECONDS, script, Files.readString(output)));
            }
            return new Result(shell.exitValue(), Files.readString(output));
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        } finally {
            if (shell != null) {
                shell.destroyForcibly();
            }
            if (output != null) {
                output.toFile().delete();
            }
        }
    }

    /** The newest lines of its log. */
    static String log() {
        return run("dmesg | tail -n 30");
    }

    /** Until its log has these words. */
    static void awaitLog(String words) {
        run(
                """
                for i in $(seq 600); do
                    if dmesg | grep -qF '%s'; then exit 0; fi
                    sleep 0.05
                done
                exit 1
                """
                        .formatted(words));
    }

    /** Until a process has written so many bytes to its standard output. */
    static void awaitWritten(Process by, long bytes) {
        run(
                """
                for i in $(seq 600); do
                    [ "$(sed -n 's/^pos:\\s*//p' /proc/%d/fdinfo/1)" -lt %d ] || exit 0
                    sleep 0.05
                done
                exit 1
                """
                        .formatted(by.pid(), bytes));
    }

    static void clearLog() {
        run("dmesg -C");
    }

    // ---- how often a function runs

    static void probe(String... functions) {
        run("mountpoint -q %s || mount -t tracefs tracefs %s".formatted(TRACING, TRACING));
        run("echo 0 >%s/events/enable; : >%s".formatted(TRACING, PROBES));
        for (String function : functions) {
            run("echo 'p:%s %s' >>%s".formatted(function, function, PROBES));
        }
        run("echo 1 >%s/events/kprobes/enable".formatted(TRACING));
    }

    /** Since {@link #probe}. */
    static long calls(String function) {
        String profile = run("cat %s/kprobe_profile".formatted(TRACING));
        return profile.lines()
                .map(line -> line.strip().split("\\s+"))
                .filter(words -> words[0].equals(function))
                .mapToLong(words -> Long.parseLong(words[1]) + Long.parseLong(words[2]))
                .sum();
    }
}
