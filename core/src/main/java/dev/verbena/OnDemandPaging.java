package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.verbs.PagingAttributes;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.List;

/**
 * Which operations of a device can use memory that is registered {@link Access#ON_DEMAND}: {@code
 * ibv_odp_caps} of {@code ibv_query_device_ex}, for reliable connected queue pairs. {@link
 * AdapterInfo#onDemandPaging} returns it.
 *
 * <p>Immutable. Two objects are equal if they describe the same abilities.
 */
@CheckReturnValue
public final class OnDemandPaging {
    // enum ibv_odp_general_caps and ibv_odp_transport_cap_bits
    private static final int SUPPORTED = 1;
    private static final int IMPLICIT = 2;
    private static final int SEND = 1;
    private static final int RECEIVE = 2;
    private static final int WRITE = 4;
    private static final int READ = 8;
    private static final int ATOMIC = 16;
    private static final int SHARED_RECEIVE = 32;

    private final PagingAttributes attributes;

    OnDemandPaging(PagingAttributes attributes) {
        this.attributes = attributes;
    }

    /**
     * Whether memory can be registered on demand at all.
     *
     * @return false also if library or provider are too old to report it
     */
    public boolean supported() {
        return (attributes.general() & SUPPORTED) != 0;
    }

    /**
     * Whether the device supports a region of the whole address space. This library never registers
     * one: its remote key would give the peer access to all memory of the process.
     *
     * @return a bit of {@code general_caps}
     */
    public boolean implicit() {
        return (attributes.general() & IMPLICIT) != 0;
    }

    /**
     * Whether sends may name such memory.
     *
     * @return a bit of {@code rc_odp_caps}
     */
    public boolean sends() {
        return has(SEND);
    }

    /**
     * Whether receives that are not shared may name such memory.
     *
     * @return a bit of {@code rc_odp_caps}
     */
    public boolean receives() {
        return has(RECEIVE);
    }

    /**
     * Whether receives of a {@link SharedReceiveQueue} may name such memory.
     *
     * @return a bit of {@code rc_odp_caps}
     */
    public boolean sharedReceives() {
        return has(SHARED_RECEIVE);
    }

    /**
     * Whether writes may name such memory, and reach such memory of the peer.
     *
     * @return a bit of {@code rc_odp_caps}
     */
    public boolean writes() {
        return has(WRITE);
    }

    /**
     * Whether reads may name such memory, and reach such memory of the peer.
     *
     * @return a bit of {@code rc_odp_caps}
     */
    public boolean reads() {
        return has(READ);
    }

    /**
     * Whether atomics may name such memory, and reach such memory of the peer.
     *
     * @return a bit of {@code rc_odp_caps}
     */
    public boolean atomics() {
        return has(ATOMIC);
    }

    private boolean has(int operation) {
        return supported() && (attributes.connected() & operation) != 0;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof OnDemandPaging that && attributes.equals(that.attributes);
    }

    @Override
    public int hashCode() {
        return attributes.hashCode();
    }

    @Override
    public String toString() {
        List<String> operations = new ArrayList<>();
        add(operations, sends(), "sends");
        add(operations, receives(), "receives");
        add(operations, sharedReceives(), "shared receives");
        add(operations, writes(), "writes");
        add(operations, reads(), "reads");
        add(operations, atomics(), "atomics");
        return supported()
                ? "OnDemandPaging(for %s)".formatted(String.join(", ", operations))
                : "OnDemandPaging(not supported)";
    }

    private static void add(List<String> operations, boolean supported, String name) {
        if (supported) {
            operations.add(name);
        }
    }
}
