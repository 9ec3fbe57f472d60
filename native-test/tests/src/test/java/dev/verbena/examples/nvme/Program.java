package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** {@link TargetProgram} in a process of its own. */
final class Program implements AutoCloseable {
    private static final int COMMANDS = 3;
    private static final Pattern LISTENING = Pattern.compile("Listening on (\\S+), port (\\d+),.*");

    private final Process process;
    private final InetSocketAddress address;
    private final List<String> commands;

    private Program(Process process, InetSocketAddress address, List<String> commands) {
        this.process = process;
        this.address = address;
        this.commands = commands;
    }

    /** Starts it, and waits until it listens. */
    static Program start(String... arguments) throws IOException {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-XX:TieredStopAtLevel=1",
                                "--enable-native-access=dev.verbena",
                                "-p",
                                modulePath(),
                                "-m",
                                "dev.verbena.examples/" + TargetProgram.class.getName(),
                                "--quiet"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        BufferedReader lines = process.inputReader();
        String line = lines.readLine();
        assertThat(line).matches(LISTENING);
        Matcher matcher = LISTENING.matcher(line);
        assertThat(matcher.matches()).isTrue();
        List<String> commands = new ArrayList<>();
        while (commands.size() < COMMANDS && (line = lines.readLine()) != null) {
            if (line.startsWith("    ")) {
                commands.add(line.strip());
            }
        }
        return new Program(
                process,
                new InetSocketAddress(matcher.group(1), Integer.parseInt(matcher.group(2))),
                commands);
    }

    /** As the README starts it: the library and the examples, and nothing else. */
    private static String modulePath() {
        Pattern ours = Pattern.compile("verbena-(core|bindings|examples)-[^/]*[.]jar$");
        return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(entry -> ours.matcher(entry).find())
                .collect(Collectors.joining(File.pathSeparator));
    }

    InetSocketAddress address() {
        return address;
    }

    /** What it says to type on the other side: to load a module, and two ways to connect. */
    List<String> commands() {
        return commands;
    }

    /** As by kill -9. */
    void kill() {
        process.destroyForcibly();
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
