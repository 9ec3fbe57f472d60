package dev.verbena.nativetest;

import dev.verbena.tools.Verbena;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A command of the launcher beside a test, in this process. */
final class ToolRun implements AutoCloseable {
    private static final Pattern LISTENING = Pattern.compile("Listening on \\S+ port (\\d+) ");

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();
    private final CompletableFuture<Integer> exit = new CompletableFuture<>();
    private final String name;
    private final Thread thread;

    static ToolRun ping(String... arguments) {
        return new ToolRun("ping", arguments);
    }

    static ToolRun perf(String... arguments) {
        return new ToolRun("perf", arguments);
    }

    /** Another of the launcher's commands. */
    static ToolRun of(String command, String... arguments) {
        return new ToolRun(command, arguments);
    }

    private ToolRun(String command, String... arguments) {
        this.name = command;
        List<String> words = new ArrayList<>(List.of(command));
        words.addAll(List.of(arguments));
        thread =
                Thread.ofPlatform()
                        .name(command)
                        .daemon()
                        .start(
                                () ->
                                        exit.completeAsync(
                                                () ->
                                                        Verbena.run(
                                                                new PrintWriter(out, true),
                                                                new PrintWriter(err, true),
                                                                words.toArray(String[]::new)),
                                                Runnable::run));
    }

    /** Where a server listens, once it does. */
    int port() {
        return Integer.parseInt(await(LISTENING).group(1));
    }

    /** Waits until it has printed this. */
    Matcher await(Pattern pattern) {
        Deadline deadline = Deadline.of("\"%s\" of %s".formatted(pattern, name));
        while (true) {
            Matcher matcher = pattern.matcher(out() + err());
            if (matcher.find()) {
                return matcher;
            }
            if (exit.isDone()) {
                throw new AssertionError(name + " ended: " + this);
            }
            deadline.check();
        }
    }

    int exitCode() throws InterruptedException, ExecutionException, TimeoutException {
        return exit.get(120, TimeUnit.SECONDS);
    }

    String out() {
        return out.toString();
    }

    String err() {
        return err.toString();
    }

    boolean foundNobody() {
        return err.toString().contains("nobody listens");
    }

    @Override
    public void close() {
        thread.interrupt();
    }

    @Override
    public String toString() {
        return "%s, which said:%n%s%s".formatted(name, out, err);
    }
}
