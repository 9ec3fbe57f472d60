package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The GID that an adapter uses for its queue pairs, and the reason. A record, because a choice is
 * always a port and an entry of its GID table.
 *
 * @param port the number of its port
 * @param gid the entry of the port's table
 * @param reason why it was chosen, in words
 */
@CheckReturnValue
public record GidChoice(int port, Port.GidEntry gid, String reason) {
    @Override
    public String toString() {
        return "port %d, GID %s: %s".formatted(port, gid, reason);
    }
}
