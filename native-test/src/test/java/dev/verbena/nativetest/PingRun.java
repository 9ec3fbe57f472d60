package dev.verbena.nativetest;

import dev.verbena.tools.Ping;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Ping beside a test, in this process. */
final class PingRun implements AutoCloseable {
    private static final Pattern LISTENING = Pattern.compile("Listening on \\S+ port (\\d+) ");

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();
    private final CompletableFuture<Integer> exit = new CompletableFuture<>();
    private final Thread thread;

    PingRun(String... arguments) {
        thread =
                Thread.ofPlatform()
                        .name("ping")
                        .daemon()
                        .start(
                                () ->
                                        exit.completeAsync(
                                                () ->
                                                        Ping.run(
                                                                new PrintWriter(out, true),
                                                                new PrintWriter(err, true),
                                                                arguments),
                                                Runnable::run));
    }

    /** Where a server listens, once it does. */
    int port() {
        Deadline deadline = Deadline.of("word of Ping listening");
        while (true) {
            Matcher matcher = LISTENING.matcher(out.toString());
            if (matcher.find()) {
                return Integer.parseInt(matcher.group(1));
            }
            if (exit.isDone()) {
                throw new AssertionError("Ping ended: " + this);
            }
            deadline.check();
        }
    }

    int exitCode() throws InterruptedException, ExecutionException, TimeoutException {
        return exit.get(40, TimeUnit.SECONDS);
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
        return "Ping, which said:%n%s%s".formatted(out, err);
    }
}
