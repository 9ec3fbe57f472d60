package dev.verbena.nativetest.containers;

import com.github.dockerjava.api.exception.NotFoundException;

import dev.verbena.testcontainers.RdmaHost;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.testcontainers.DockerClientFactory;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/** The container engine to test with, and what {@link NeedsContainers} means. */
final class ContainerEngine implements ExecutionCondition {
    private static final AtomicBoolean SAID = new AtomicBoolean();

    /** What an engine is asked once, as asking runs a container. */
    private static final class Answer {
        private static final List<RdmaHost> HOSTS;
        private static final String PROBLEM;

        static {
            List<RdmaHost> hosts = List.of();
            String problem = "";
            try {
                if (!DockerClientFactory.instance().isDockerAvailable()) {
                    problem = "no container engine answers here";
                } else if (!hasImage()) {
                    problem =
                            "the container engine has no image %s (docker build -t %s ci)"
                                    .formatted(RdmaHost.IMAGE, RdmaHost.IMAGE);
                } else {
                    hosts = RdmaHost.ofEngine();
                    problem =
                            hosts.isEmpty()
                                    ? "the container engine's machine has no RDMA device with an active link"
                                    : "";
                }
            } catch (RuntimeException e) {
                problem = "the container engine cannot be used: " + withCauses(e);
            }
            HOSTS = hosts;
            PROBLEM = problem;
        }

        /** Testcontainers' own says what did not work, and its causes why. */
        private static String withCauses(Throwable e) {
            return e.getCause() == null ? e.toString() : e + "; " + withCauses(e.getCause());
        }

        private static boolean hasImage() {
            try {
                DockerClientFactory.lazyClient()
                        .inspectImageCmd(RdmaHost.IMAGE.asCanonicalNameString())
                        .exec();
                return true;
            } catch (NotFoundException e) {
                return false;
            }
        }
    }

    /** The devices of the engine's machine. */
    static List<RdmaHost> hosts() {
        return Answer.HOSTS;
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        if (context.getTestMethod().isPresent() || Answer.PROBLEM.isEmpty()) {
            return ConditionEvaluationResult.enabled("asked for the class");
        }
        if (System.getProperty("verbena.containers", "optional").equals("required")) {
            throw new IllegalStateException(
                    "-Dverbena.containers=required, but: " + Answer.PROBLEM);
        }
        if (SAID.compareAndSet(false, true)) {
            System.err.println(
                    "SKIPPED: all tests in containers: "
                            + Answer.PROBLEM
                            + ". To run them anywhere, on Soft-RoCE: ci/roce test --containers");
        }
        return ConditionEvaluationResult.disabled(Answer.PROBLEM);
    }
}
