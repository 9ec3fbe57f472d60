package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Adapter;
import dev.verbena.ProtectionDomain;

import java.util.List;

/** One {@link Poller}, or a {@link PollerGroup} that spreads channels over many. */
public sealed interface Pollers extends AutoCloseable permits Poller, PollerGroup {
    /**
     * The device that they poll.
     *
     * @return the adapter
     */
    @CheckReturnValue
    Adapter adapter();

    /**
     * The domain of their queue pairs. Memory that is registered there once can be sent and exposed
     * by the channels of each of them, and windows are made from it.
     *
     * @return the domain; it is closed with them, unless the caller has made it
     */
    @CheckReturnValue
    ProtectionDomain domain();

    /**
     * The poller for the next channel. From any thread.
     *
     * @return the one that has the fewest channels
     */
    @CheckReturnValue
    Poller next();

    /**
     * Each poller.
     *
     * @return one or more; the list cannot be changed
     */
    @CheckReturnValue
    List<Poller> all();

    /**
     * What all of them have counted since they were made. From any thread, also after the close;
     * takes no lock.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    PollerCounters counters();

    @Override
    void close();
}
