package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Adapter;

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
