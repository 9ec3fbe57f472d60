package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The GID that an adapter's queue pairs have, and why. A record: what was chosen is a port and an
 * entry of its table, whatever choices are added.
 *
 * @param port the number of its port
 * @param gid the entry of the port's table
 * @param reason why this one, in words
 */
@CheckReturnValue
public record GidChoice(int port, Port.GidEntry gid, String reason) {
    @Override
    public String toString() {
        return "port %d, GID %s: %s".formatted(port, gid, reason);
    }
}
