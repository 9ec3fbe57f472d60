package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/** The devices to test on, and what {@link NeedsDevices} means. */
final class RdmaDevices implements ExecutionCondition {
    private static final AtomicBoolean SAID = new AtomicBoolean();

    /** The names of the devices whose link is up, without {@link OwnDevices}. */
    static List<String> active() {
        return Adapter.activeNames().stream()
                .filter(name -> !OwnDevices.NAMES.contains(name))
                .toList();
    }

    /** Whether a machine without devices is an error. */
    static boolean required() {
        return System.getProperty("verbena.device", "optional").equals("required");
    }

    /**
     * Whether a device is of the rxe driver: that one has a file naming the interface it stands on.
     */
    static boolean isSoftRoce(String device) {
        return Files.exists(Path.of("/sys/class/infiniband", device, "parent"));
    }

    /** Asks once for each test class; devices do not come and go meanwhile. */
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        if (context.getTestMethod().isPresent()) {
            return ConditionEvaluationResult.enabled("asked for the class");
        }
        String sentence = "there is no RDMA device with an active link here";
        try {
            List<String> active = active();
            if (!active.isEmpty()) {
                return ConditionEvaluationResult.enabled("devices: " + active);
            }
        } catch (VerbenaException e) {
            sentence = e.getMessage();
        }
        if (required()) {
            throw new IllegalStateException("-Dverbena.device=required, but: " + sentence);
        }
        if (SAID.compareAndSet(false, true)) {
            System.err.println(
                    "SKIPPED: all tests on real devices: "
                            + sentence
                            + ". To run them anywhere, on Soft-RoCE: ci/roce test");
        }
        return ConditionEvaluationResult.disabled(sentence);
    }
}
