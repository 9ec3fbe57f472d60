package dev.verbena.tools;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * What the doctor found.
 *
 * @param noDevices why there is no device, or null when there is one
 * @param devices all devices
 * @param lockableBytes the limit of locked memory; {@link Long#MAX_VALUE} without one
 */
record DoctorReport(String noDevices, List<Device> devices, long lockableBytes) {
    /** How much memory the doctor tries to register. */
    static final long TRIAL_BYTES = 16 << 20;

    /**
     * A device.
     *
     * @param facts what it says of itself
     * @param connections "" when connections by IP address can be made, else why not; null when
     *     that was not tried
     * @param registration "" when {@link #TRIAL_BYTES} could be registered, else why not; null when
     *     that was not tried
     */
    record Device(DeviceFacts facts, String connections, String registration) {
        private Map<String, Object> json() {
            Map<String, Object> all = facts.json();
            all.put("connections", connections == null ? null : connections.isEmpty());
            all.put("registration", registration == null ? null : registration.isEmpty());
            return all;
        }
    }

    /** One sentence for each thing that is wrong, the most important first. */
    List<String> problems() {
        List<String> problems = new ArrayList<>();
        if (noDevices != null) {
            problems.add(noDevices);
        }
        for (Device device : devices) {
            if (device.facts().problem() != null) {
                problems.add(device.facts().problem());
            }
            if (failed(device.connections())) {
                problems.add(
                        "%s cannot connect by IP address: %s"
                                .formatted(device.facts().name(), device.connections()));
            }
            if (failed(device.registration())) {
                problems.add(
                        "%s cannot register %,d bytes of memory: %s"
                                .formatted(
                                        device.facts().name(), TRIAL_BYTES, device.registration()));
            }
        }
        if (noDevices == null && devices.stream().noneMatch(device -> device.facts().active())) {
            problems.add(
                    "No device has a port whose link is up: check the cable, the switch and"
                            + " \"ip link\"; \"rdma link\" shows the state");
        }
        return problems;
    }

    boolean usable() {
        return problems().isEmpty();
    }

    void print(PrintWriter out) {
        for (Device device : devices) {
            device.facts().print(out);
            if (device.connections() != null) {
                out.printf(
                        "  connections by IP address: %s%n",
                        device.connections().isEmpty() ? "yes" : device.connections());
            }
        }
        out.println("Lockable memory: " + lockableMemory());
    }

    private String lockableMemory() {
        String limit =
                lockableBytes == Long.MAX_VALUE
                        ? "unlimited"
                        : "%,d bytes".formatted(lockableBytes);
        List<String> trials =
                devices.stream().map(Device::registration).filter(Objects::nonNull).toList();
        for (String trial : trials) {
            if (failed(trial)) {
                return limit + "; a trial failed: " + trial;
            }
        }
        if (!trials.isEmpty() && lockableBytes < TRIAL_BYTES) {
            return limit + "; this process may exceed that (CAP_IPC_LOCK)";
        }
        return lockableBytes == Long.MAX_VALUE
                ? limit
                : limit
                        + "; all memory that is registered at a time must fit (ulimit -l, LimitMEMLOCK=,"
                        + " --ulimit memlock=)";
    }

    private static boolean failed(String trial) {
        return trial != null && !trial.isEmpty();
    }

    Map<String, Object> json() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("usable", usable());
        all.put("problems", problems());
        all.put("lockable_bytes", lockableBytes == Long.MAX_VALUE ? null : lockableBytes);
        all.put("devices", devices.stream().map(Device::json).toList());
        return all;
    }
}
