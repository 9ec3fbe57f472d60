package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;

import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Virtual threads that wait hold no carrier. */
@Timeout(150)
class VirtualThreadsTest {
    @Test
    void tenThousandWaitAndTheOnlyCarrierIsFree() throws Exception {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                "-Djdk.virtualThreadScheduler.parallelism=1",
                                "-Djdk.virtualThreadScheduler.maxPoolSize=1",
                                "-cp",
                                ChildClasses.path(
                                        ManyThreads.class,
                                        MessageChannel.class,
                                        LibIbverbs.class,
                                        Assertions.class),
                                ManyThreads.class.getName())
                        .redirectErrorStream(true)
                        .start();
        CompletableFuture.delayedExecutor(120, TimeUnit.SECONDS).execute(process::destroyForcibly);
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(output.lines())
                .containsExactly("9996 wait", "another one runs: true", "5000 sent, 5000 received");
    }
}
