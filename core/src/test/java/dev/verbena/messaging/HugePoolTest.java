package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;
import dev.verbena.child.HugePool;

import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** The heap is exhausted while a pool of receives is made: what it has made so far is freed. */
@Timeout(150)
class HugePoolTest {
    @Test
    void leavesNeitherItsRegionNorItsSharedQueue() throws Exception {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                "-Xmx64m",
                                "-XX:+UseSerialGC",
                                "-cp",
                                ChildClasses.path(
                                        HugePool.class,
                                        MessageChannel.class,
                                        LibIbverbs.class,
                                        Assertions.class),
                                HugePool.class.getName())
                        .redirectErrorStream(true)
                        .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(output.lines()).containsExactly("out of memory, 0 objects left");
    }
}
