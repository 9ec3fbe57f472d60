package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * What became of an adapter's connections since it was opened (NDK: OID_NDK_STATISTICS): a snapshot
 * from {@link Adapter#connectionCounters}. Counts {@link Connector connectors}; queue pairs that
 * were connected by address are not among them.
 *
 * @param connects how many connections this side asked for and established
 * @param accepts how many connections peers asked for and this side established
 * @param connectFailures how many calls of connect and accept led to no connection, for any reason:
 *     refused by either side, timed out, cancelled or closed. Requests of peers that this side
 *     never accepted are not counted
 * @param connectionErrors how many established connections ended by a failure: of a request, of the
 *     device, or of the adapter's event thread. Ends by either side's disconnect are not counted
 * @param active how many connections are established now and have not {@linkplain
 *     Connector#onDisconnect ended}
 * @param listeners how many listeners accept requests now; paused ones do not count
 */
@CheckReturnValue
public record ConnectionCounters(
        long connects,
        long accepts,
        long connectFailures,
        long connectionErrors,
        int active,
        int listeners) {}
