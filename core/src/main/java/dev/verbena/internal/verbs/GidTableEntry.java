package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

/**
 * One used entry of the GID tables, from {@code ibv_query_gid_table}.
 *
 * @param port the port, from 1
 * @param high the GID's first eight bytes as a big-endian number
 * @param low the GID's last eight bytes as a big-endian number
 * @param networkInterface the index of its network interface; 0 if it has none
 */
public record GidTableEntry(
        int port, int index, int type, long high, long low, int networkInterface) {
    /**
     * Whether this is a RoCE v2 GID.
     *
     * @return true for version 2
     */
    public boolean roceV2() {
        return type == Verbs.IBV_GID_TYPE_ROCE_V2;
    }

    /**
     * Whether this is a RoCE v1 GID.
     *
     * @return true for version 1
     */
    public boolean roceV1() {
        return type == Verbs.IBV_GID_TYPE_ROCE_V1;
    }
}
