package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

/**
 * The fields of {@code ibv_query_port} that are used here.
 *
 * @param error 0, or a negative errno; then nothing else is valid
 * @param lid the local identifier; 0 on Ethernet
 * @param activeSpeed {@code active_speed_ex}, or where that is 0 {@code active_speed}
 */
public record PortAttributes(
        int error,
        int state,
        int maxMtu,
        int activeMtu,
        int gidTableLength,
        long maxMessage,
        int lid,
        int linkLayer,
        int activeSpeed,
        int activeWidth) {
    /** Whether the link is up. */
    public boolean active() {
        return state == Verbs.IBV_PORT_ACTIVE;
    }

    /** Whether the link is Ethernet (RoCE) rather than InfiniBand. */
    public boolean ethernet() {
        return linkLayer == Verbs.IBV_LINK_LAYER_ETHERNET;
    }
}
