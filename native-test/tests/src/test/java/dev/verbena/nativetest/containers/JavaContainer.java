package dev.verbena.nativetest.containers;

import com.github.dockerjava.api.exception.DockerClientException;
import com.github.dockerjava.api.model.Capability;

import dev.verbena.testcontainers.RdmaContainer;
import dev.verbena.testcontainers.RdmaHost;

import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.output.OutputFrame;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/**
 * A container that runs one of this project's programs as a service would be: not as root, and
 * without a single capability.
 */
final class JavaContainer extends RdmaContainer<JavaContainer> {
    private static final int SECONDS =
            240; // emulated, and with another VM beside, all takes its time

    /** The same, for what Testcontainers waits for by itself. */
    static final Duration LONG = Duration.ofSeconds(SECONDS);

    JavaContainer(RdmaHost host, Class<?> program, String... words) {
        super(ProgramImage.name(), host);
        withImagePullPolicy(image -> false);
        asAService(this);
        runs(this, program, words);
    }

    /** Not root, no capability. */
    static void asAService(GenericContainer<?> container) {
        container.withCreateContainerCmdModifier(
                command -> {
                    command.withUser("1000:1000");
                    Objects.requireNonNull(command.getHostConfig()).withCapDrop(Capability.ALL);
                });
    }

    /** Has a container run a program, which under emulation is to start soon. */
    static void runs(GenericContainer<?> container, Class<?> program, String... words) {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                "java",
                                "-XX:TieredStopAtLevel=1",
                                "-XX:+UseSerialGC",
                                "--enable-native-access=ALL-UNNAMED",
                                "--add-opens=java.base/java.nio=ALL-UNNAMED", // for Arrow
                                "-cp",
                                ProgramImage.CLASS_PATH,
                                program.getName()));
        command.addAll(List.of(words));
        container.withCommand(command.toArray(String[]::new));
    }

    /** Waits until its output has these words in it. */
    static void awaitLine(GenericContainer<?> container, String words) {
        Pattern pattern = Pattern.compile(words);
        StringBuilder all = new StringBuilder();
        CompletableFuture<Boolean> came = new CompletableFuture<>();
        container.followOutput(
                frame -> {
                    all.append(frame.getUtf8String());
                    if (pattern.matcher(all).find()) {
                        came.complete(true);
                    } else if (frame.getType() == OutputFrame.OutputType.END) {
                        came.complete(false);
                    }
                });
        try {
            if (came.get(SECONDS, TimeUnit.SECONDS)) {
                return;
            }
        } catch (InterruptedException | ExecutionException e) {
            throw new AssertionError(e);
        } catch (TimeoutException e) {
            // Reported below.
        }
        throw new AssertionError(
                "\"%s\" did not come; all that came:%n%s".formatted(words, container.getLogs()));
    }

    /** Waits for its end and answers its exit code. */
    static int awaitEnd(GenericContainer<?> container) {
        try {
            return container
                    .getDockerClient()
                    .waitContainerCmd(container.getContainerId())
                    .start()
                    .awaitStatusCode(SECONDS, TimeUnit.SECONDS);
        } catch (DockerClientException e) {
            throw new AssertionError(
                    "No end within %d s; all that came:%n%s"
                            .formatted(SECONDS, container.getLogs()),
                    e);
        }
    }

    /** Ends it as a machine's death would: without asking. */
    static void kill(GenericContainer<?> container) {
        container.getDockerClient().killContainerCmd(container.getContainerId()).exec();
    }
}
