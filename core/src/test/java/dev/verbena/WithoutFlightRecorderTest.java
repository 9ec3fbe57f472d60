package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;
import dev.verbena.child.OneMessage;

import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Processes that do not use the JDK's Flight Recorder pay nothing for it, and need not have it. */
@Timeout(120)
class WithoutFlightRecorderTest {
    private static List<String> run(String... options) throws Exception {
        String classes =
                ChildClasses.path(
                        OneMessage.class, Adapter.class, LibIbverbs.class, Assertions.class);
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(options));
        command.addAll(
                List.of(
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        classes,
                        OneMessage.class.getName()));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
        return output.lines().toList();
    }

    @Test
    void noClassOfAnEventIsLoaded() throws Exception {
        List<String> lines = run("-Xlog:class+load:stdout");
        assertThat(lines).filteredOn(line -> line.endsWith("FAILED")).hasSize(1);
        assertThat(lines)
                .filteredOn(
                        line ->
                                line.contains(" jdk.jfr.")
                                        || line.contains(" dev.verbena.internal.events."))
                .hasSize(2)
                .anyMatch(line -> line.contains(" jdk.jfr.FlightRecorder "))
                .anyMatch(line -> line.contains(".FlightRecording "));
    }

    @Test
    void whereTheModuleIsMissingAllElseWorks() throws Exception {
        assertThat(run("--limit-modules", "java.base"))
                .singleElement()
                .asString()
                .endsWith("FAILED");
    }
}
