package dev.verbena.trust;

import dev.verbena.Adapter;
import dev.verbena.bindings.Verbs;

import java.io.BufferedReader;
import java.io.File;
import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Programs of the suite that need a process of their own. */
public final class Program {
    /** Of a JVM whose resident memory says what is outside its heap. */
    public static final List<String> SMALL_HEAP =
            List.of("-Xmx64m", "-Xms64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC");

    private Program() {}

    /** Runs a program in another process. Returns what it complained about. */
    public static List<String> run(
            Map<String, String> environment,
            List<String> options,
            Class<?> program,
            Object... arguments)
            throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(options);
        System.getProperties()
                .forEach(
                        (key, value) -> {
                            if (key.toString().startsWith("verbena.trust")
                                    || key.toString().startsWith("verbena.ledger")) {
                                command.add("-D%s=%s".formatted(key, value));
                            }
                        });
        String path =
                Stream.of(Adapter.class, Verbs.class, OnStandIn.class)
                        .map(Program::folderOf)
                        .distinct()
                        .collect(Collectors.joining(File.pathSeparator));
        command.addAll(List.of("-cp", path, program.getName()));
        for (Object argument : arguments) {
            command.add(argument.toString());
        }
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().putAll(environment);
        Process process = builder.start();
        List<String> wrong = new ArrayList<>();
        try (BufferedReader lines = process.inputReader()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("Requests, ")
                        || line.startsWith("Ledger, ")
                        || line.startsWith("Trust: ")) {
                    System.out.println(line);
                } else {
                    wrong.add(line);
                }
            }
        } finally {
            process.destroy();
        }
        int code = process.waitFor();
        return code == 0
                ? List.of()
                : Stream.concat(Stream.of("exit code " + code), wrong.stream()).toList();
    }

    /** The folder or jar that a class was loaded from, also as a part of a patched module. */
    private static String folderOf(Class<?> type) {
        String name = "/" + type.getName().replace('.', '/') + ".class";
        String url = String.valueOf(type.getResource(name));
        String place = url.substring(0, url.length() - name.length());
        return place.startsWith("jar:")
                ? Path.of(URI.create(place.substring(4, place.length() - 1))).toString()
                : Path.of(URI.create(place)).toString();
    }
}
