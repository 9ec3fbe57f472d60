package dev.verbena.messaging;

/**
 * Checks that the peer of a {@link MessageChannel} is there: it is asked when nothing came for some
 * time, and has to answer. Times are ticks, which wrap around. Guarded by the lock of the channel.
 *
 * <p>Each channel's interval is reduced by its index (the number of connections that its poller had
 * before, modulo half of the interval), so that channels do not all send keep-alives in the same
 * tick.
 */
final class KeepAlive {
    private final int interval; // without a frame, after which the peer is asked
    private final int timeout;
    private boolean heard; // since the last tick
    private int lastHeard;
    private boolean asked; // and the peer has not answered
    private int askedAt;

    KeepAlive(int interval, int timeout, int index) {
        this.interval = interval - index % Math.max(1, interval / 2);
        this.timeout = timeout;
    }

    /** A frame has come, or the connection has just been established. */
    void heard() {
        heard = true;
        asked = false;
    }

    boolean isAsked() {
        return asked;
    }

    /** At a tick: whether the peer was asked and has not answered in time. */
    boolean isSilent(int now) {
        return asked && now - askedAt > timeout;
    }

    /** At a tick: whether the peer is to be asked now; it counts as asked. */
    boolean asks(int now) {
        if (heard) {
            heard = false;
            lastHeard = now;
        }
        if (asked || now - lastHeard < interval) {
            return false;
        }
        asked = true;
        askedAt = now;
        return true;
    }
}
