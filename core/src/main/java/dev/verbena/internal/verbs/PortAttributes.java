package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

/**
 * The fields of {@code ibv_query_port} that are used here.
 *
 * @param error 0, or a negative errno; then nothing else is valid
 * @param state {@code enum ibv_port_state}
 * @param activeMtu {@code enum ibv_mtu}
 * @param gidTableLength entries in the GID table, used or not
 * @param maxMessage the longest message, in bytes
 * @param lid the local identifier; 0 on Ethernet
 * @param linkLayer {@code IBV_LINK_LAYER_…}
 * @param activeSpeed {@code active_speed_ex}, or where that is 0 {@code active_speed}
 * @param activeWidth {@code active_width}
 */
public record PortAttributes(
        int error,
        int state,
        int activeMtu,
        int gidTableLength,
        long maxMessage,
        int lid,
        int linkLayer,
        int activeSpeed,
        int activeWidth) {
    /**
     * Whether the link is up.
     *
     * @return true in {@code IBV_PORT_ACTIVE}
     */
    public boolean active() {
        return state == Verbs.IBV_PORT_ACTIVE;
    }

    /**
     * Whether the link is Ethernet (RoCE) rather than InfiniBand.
     *
     * @return true on Ethernet
     */
    public boolean ethernet() {
        return linkLayer == Verbs.IBV_LINK_LAYER_ETHERNET;
    }
}
