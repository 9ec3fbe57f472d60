package dev.verbena.trust;

import dev.verbena.Adapter;
import dev.verbena.QueuePair;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.util.Random;
import java.util.function.Consumer;

/** Where requests go: a device, and what it can do. For one life each. */
class Place implements AutoCloseable {
    final Adapter here;
    final Adapter there;

    /** Two ports that reach each other, or the same one twice. */
    Place(Adapter here, Adapter there) {
        this.here = here;
        this.there = there;
    }

    /** Whether the peer's receives report writes with immediate data, and the data. */
    boolean deliversImmediates() {
        return true;
    }

    /** Whether tokens are checked, so that a wrong one fails the request. */
    boolean checksTokens() {
        return true;
    }

    /** Whether reads and atomic operations bring what is in the peer's memory. */
    boolean readsBytes() {
        return true;
    }

    /** Where a connection manager listens, there; null where there is none. */
    @Nullable InetAddress address() {
        return null;
    }

    /** Called with each queue pair. */
    void watch(QueuePair pair) {}

    /** Makes one of the next requests fail, or a post be refused, if this place can. */
    boolean disturb(Random random) {
        return false;
    }

    /** Whether a request that nothing is wrong with may end so; its peer may have ended. */
    boolean mayEndWith(Status status) {
        return true;
    }

    /** Whether a refused request may have been carried out. */
    boolean keepsRefused() {
        return false;
    }

    /** How long a thread waits that finds a queue full, or nothing to poll. */
    long pauseNanos() {
        return 20_000;
    }

    /** Called now and then while requests are posted. */
    void tidy() {}

    /**
     * After all else is closed: complains about what is left. Returns how much that is. A place
     * that cannot tell its own life from others that run at the same time leaves it to {@link
     * RequestLives.Remains}.
     */
    int leaks(Consumer<String> complain) {
        return 0;
    }

    Place(Adapter both) {
        this(both, both);
    }

    @Override
    public void close() {
        here.close();
        there.close();
    }
}
