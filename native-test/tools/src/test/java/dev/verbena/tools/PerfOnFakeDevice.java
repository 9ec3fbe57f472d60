package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.Until;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import picocli.CommandLine;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** perf's server and clients in this process, with a device and a network that do not exist. */
final class PerfOnFakeDevice implements AutoCloseable {
    static final String ADDRESS = "10.0.0.1";

    final FakeDevice device = new FakeDevice();
    final FakeConnections network = new FakeConnections();
    private final List<Run> runs = new ArrayList<>();

    PerfOnFakeDevice() {
        device.carriesBytes = true;
        network.devices.put(InetAddress.ofLiteral(ADDRESS), "fake0");
    }

    /** The output of a command. Each line wakes the threads that wait for it. */
    private static final class Printed extends StringWriter {
        @Override
        public synchronized void flush() {
            notifyAll();
        }
    }

    /** A command that runs on a thread of its own. */
    static final class Run {
        private static final Pattern LISTENING = Pattern.compile("Listening on \\S+ port (\\d+) ");

        private final Printed out = new Printed();
        private final StringWriter err = new StringWriter();
        private final CompletableFuture<Integer> exit = new CompletableFuture<>();
        Thread thread;

        String out() {
            return out.toString();
        }

        String err() {
            return err.toString();
        }

        boolean ended() {
            return exit.isDone();
        }

        int exitCode() throws Exception {
            return exit.get(60, TimeUnit.SECONDS);
        }

        /** Where a server listens, once it does. */
        int port() {
            return Integer.parseInt(await(LISTENING).group(1));
        }

        /** Waits until it has printed this. */
        Matcher await(Pattern pattern) {
            Until.notified(out, () -> ended() || pattern.matcher(out()).find());
            Matcher matcher = pattern.matcher(out());
            if (!matcher.find()) {
                throw new AssertionError("It ended: " + this);
            }
            return matcher;
        }

        @Override
        public String toString() {
            return out + "\n" + err;
        }
    }

    Run run(String line) {
        Run run = new Run();
        runs.add(run);
        run.exit.whenComplete((code, thrown) -> run.out.flush()); // wakes those that wait
        run.thread =
                Thread.ofPlatform()
                        .name(line)
                        .daemon()
                        .start(
                                () ->
                                        run.exit.completeAsync(
                                                () ->
                                                        Verbena.commandLine(
                                                                        new PrintWriter(
                                                                                run.out, true),
                                                                        new PrintWriter(
                                                                                run.err, true))
                                                                .setExecutionStrategy(this::execute)
                                                                .execute(line.split(" ")),
                                                Runnable::run));
        return run;
    }

    private int execute(CommandLine.ParseResult parsed) {
        while (parsed.hasSubcommand()) {
            parsed = parsed.subcommand();
        }
        try {
            return switch (parsed.commandSpec().userObject()) {
                case PerfServer server -> server.run(this::open);
                case PerfClient client -> client.run(this::open);
                case Object other -> throw new AssertionError("not on a fake device: " + other);
            };
        } catch (CommandLine.ParameterException e) {
            throw e;
        } catch (RuntimeException e) {
            CommandLine line = parsed.commandSpec().commandLine();
            throw new CommandLine.ExecutionException(line, e.toString(), e);
        }
    }

    Adapter open() {
        return FakeAdapters.open(device, network);
    }

    Run server() {
        return run("perf server --bind " + ADDRESS + " --port 0 --once");
    }

    /** A client of that server; the line begins with operation and measure. */
    Run client(Run server, String line) {
        return client(server.port(), line);
    }

    Run client(int port, String line) {
        String[] words = line.split(" ", 3);
        return run(
                "perf %s %s %s --port %d --no-progress %s"
                        .formatted(
                                words[0],
                                words[1],
                                ADDRESS,
                                port,
                                words.length > 2 ? words[2] : "--warmup 0"));
    }

    /** Waits for what runs: it would use a device whose memory is gone. */
    @Override
    public void close() {
        for (Run run : runs) {
            run.thread.interrupt();
            run.exit.exceptionally(failure -> 1).join();
        }
        device.dispose();
    }
}
