package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;
import dev.verbena.child.DeviceNames;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The errors of processes that lack something needed before a device is opened. */
@Timeout(120)
class NativeAccessTest {
    private static final Path CORE = ChildClasses.folder(Adapter.class);
    private static final Path BINDINGS = ChildClasses.folder(LibIbverbs.class);
    private static final Path TESTS = ChildClasses.folder(DeviceNames.class);

    private static String run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
        return output;
    }

    private static List<String> java(String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(arguments));
        return command;
    }

    private static String runOnModulePath(String withNativeAccess) throws Exception {
        return run(
                java(
                        "--module-path",
                        CORE + File.pathSeparator + BINDINGS,
                        "--add-modules",
                        "dev.verbena",
                        "--enable-native-access=" + withNativeAccess,
                        "--illegal-native-access=deny",
                        "-cp",
                        TESTS.toString(),
                        DeviceNames.class.getName()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"dev.verbena.bindings", "java.base"})
    void theSentenceWithTheFlagWithoutNativeAccess(String given) throws Exception {
        String output = runOnModulePath(given);
        if (!output.contains("cannot be loaded: install it")) { // which is said first
            assertThat(output.lines())
                    .hasSize(2)
                    .allSatisfy(
                            line ->
                                    assertThat(line)
                                            .startsWith("dev.verbena.VerbenaException")
                                            .contains("--enable-native-access=dev.verbena,"));
        }
    }

    @Test
    void theBindingsNeedNoNativeAccess() throws Exception {
        assertThat(runOnModulePath("dev.verbena"))
                .doesNotContain("native access")
                .doesNotContain("IllegalCaller");
    }

    @Test
    void tooManyOpenFilesAreNotReportedAsAMissingDevice() throws Exception {
        List<String> command =
                java(
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        String.join(
                                File.pathSeparator,
                                TESTS.toString(),
                                CORE.toString(),
                                BINDINGS.toString()),
                        DeviceNames.class.getName(),
                        CORE.toString(),
                        BINDINGS.toString());
        command.addAll(0, List.of("sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"));
        assertThat(run(command).lines())
                .hasSize(3)
                .startsWith("took true")
                .filteredOn(line -> line.contains("EMFILE, errno 24") && line.contains("ulimit -n"))
                .hasSize(2);
    }
}
