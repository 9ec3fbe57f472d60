package dev.verbena.child;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The class path of JVMs that tests start: their own has no modules on it. */
public final class ChildClasses {
    private ChildClasses() {}

    /** The folder or jar that a class was loaded from. */
    public static Path folder(Class<?> of) {
        String file = "/" + of.getName().replace('.', '/') + ".class";
        String where = of.getResource(file).toString();
        String root = where.substring(0, where.length() - file.length());
        return Path.of(
                URI.create(root.startsWith("jar:") ? root.substring(4, root.length() - 1) : root));
    }

    /** A class path with the folders or jars that these classes were loaded from. */
    public static String path(Class<?>... classes) {
        return Stream.of(classes)
                .map(ChildClasses::folder)
                .map(Path::toString)
                .collect(Collectors.joining(File.pathSeparator));
    }

    /**
     * Runs a program with a small heap, and waits for its end.
     *
     * @param heap the option
     * @param others classes that it uses
     * @return the lines that it has printed
     */
    public static List<String> run(Class<?> program, String heap, Class<?>... others)
            throws IOException {
        String path = folder(program) + File.pathSeparator + path(others);
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                heap,
                                "-XX:+UseSerialGC",
                                "-cp",
                                path,
                                program.getName())
                        .redirectErrorStream(true)
                        .start();
        return process.inputReader(StandardCharsets.UTF_8).lines().toList();
    }
}
