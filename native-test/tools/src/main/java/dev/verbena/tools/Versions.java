package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.VerbenaException;

import picocli.CommandLine.IVersionProvider;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.module.ModuleDescriptor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The versions that {@code --version} prints: these tools', rdma-core's, the JVM's. */
final class Versions implements IVersionProvider {
    private static final Path MAPPED_FILES = Path.of("/proc/self/maps");

    /** rdma-core appends its own version to that of the library: libibverbs.so.1.14.44.0. */
    private static final Pattern LIBRARY =
            Pattern.compile(".*/libibverbs\\.so\\.1(?:\\.\\d+\\.(\\d+\\.\\d+))?");

    @Override
    public String[] getVersion() {
        return new String[] {
            "verbena " + verbena(),
            "rdma-core " + rdmaCore(),
            "Java %s, %s %s"
                    .formatted(
                            Runtime.version(),
                            System.getProperty("os.name"),
                            System.getProperty("os.arch")),
        };
    }

    /** The version in the jar's manifest or module descriptor. */
    private static String verbena() {
        ModuleDescriptor module = Versions.class.getModule().getDescriptor();
        String version =
                module != null
                        ? module.rawVersion().orElse(null)
                        : Versions.class.getPackage().getImplementationVersion();
        return version == null ? "of unknown version" : version;
    }

    /** The version of the libibverbs that this process has loaded. */
    private static String rdmaCore() {
        try {
            var _ = Adapter.names(); // loads it
        } catch (VerbenaException e) {
            // Without a library there is no line below; with one, its version is known all the
            // same.
        }
        try (Stream<String> lines = Files.lines(MAPPED_FILES)) {
            return rdmaCore(lines);
        } catch (IOException | UncheckedIOException e) {
            return "of unknown version";
        }
    }

    /** The version of the libibverbs among the files that a process has mapped. */
    static String rdmaCore(Stream<String> mappedFiles) {
        return mappedFiles
                .map(LIBRARY::matcher)
                .filter(Matcher::matches)
                .findFirst()
                .map(found -> found.group(1) == null ? "of unknown version" : found.group(1))
                .orElse("not found");
    }
}
