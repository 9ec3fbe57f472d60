package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import java.util.ArrayList;
import java.util.List;

/**
 * Which operations of a device can use memory that is registered {@link Access#ON_DEMAND}: {@code
 * ibv_odp_caps} of {@code ibv_query_device_ex}, for reliable connected queue pairs. {@link
 * AdapterInfo#onDemandPaging} returns it.
 *
 * @param supported whether memory can be registered on demand at all; false also if library or
 *     provider are too old to report it. Then all other abilities are false, too
 * @param implicit whether the device supports a region of the whole address space. This library
 *     never registers one: its remote key would give the peer access to all memory of the process
 * @param sends whether sends may name such memory
 * @param receives whether receives that are not shared may name such memory
 * @param sharedReceives whether receives of a {@link SharedReceiveQueue} may name such memory
 * @param writes whether writes may name such memory, and reach such memory of the peer
 * @param reads whether reads may name such memory, and reach such memory of the peer
 * @param atomics whether atomics may name such memory, and reach such memory of the peer
 */
@CheckReturnValue
public record OnDemandPaging(
        boolean supported,
        boolean implicit,
        boolean sends,
        boolean receives,
        boolean sharedReceives,
        boolean writes,
        boolean reads,
        boolean atomics) {
    @Override
    public String toString() {
        List<String> operations = new ArrayList<>();
        add(operations, sends, "sends");
        add(operations, receives, "receives");
        add(operations, sharedReceives, "shared receives");
        add(operations, writes, "writes");
        add(operations, reads, "reads");
        add(operations, atomics, "atomics");
        return supported
                ? "OnDemandPaging(for %s)".formatted(String.join(", ", operations))
                : "OnDemandPaging(not supported)";
    }

    private static void add(List<String> operations, boolean supported, String name) {
        if (supported) {
            operations.add(name);
        }
    }
}
