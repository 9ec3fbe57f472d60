package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.CallFailure;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.EventWait;

/**
 * A completion channel with one completion queue, and an eventfd that wakes its waiting thread. Of
 * the methods that wait or take events, one at a time may run.
 */
final class PrivateChannel implements EventSource {
    private static final int NONE = -1;

    private final DeviceControl control;
    private final long channel;
    private final int descriptor;
    private final int eventFd;
    private final EventWait wait;
    private volatile int joined = NONE; // the descriptor for a loop of the consumer's

    /**
     * Uses a channel, which its maker destroys.
     *
     * @throws CallFailure when no eventfd is to be had
     */
    PrivateChannel(DeviceControl control, long channel) {
        this.control = control;
        this.channel = channel;
        this.descriptor = control.channelDescriptor(channel);
        this.eventFd = (int) CallFailure.check(Descriptors.newEventFd(), "eventfd");
        try {
            this.wait = control.newWait(channel, eventFd);
        } catch (Throwable t) {
            Descriptors.close(eventFd);
            throw t;
        }
    }

    @Override
    public void raise() {
        Descriptors.setReadable(eventFd);
    }

    @Override
    public void clear() {
        if (joined != NONE) {
            Descriptors.drain(eventFd); // or the consumer's loop would wake for it
        }
    }

    /** Lowers what {@link #raise} has raised. */
    void lower() {
        Descriptors.drain(eventFd);
    }

    /**
     * {@inheritDoc}
     *
     * <p>Takes one system call if an event was requested and nobody waited for it, otherwise none.
     * An event that is still on its way when the channel is found empty is not counted any more.
     * The channel stays bounded all the same: from then on each request takes one event and adds
     * one, so it never holds more than were on their way at one time, and two.
     */
    @Override
    public void takeUnread(int unread) {
        int left = unread;
        while (left > 0 && takeIfThere()) {
            left--;
        }
    }

    @Override
    public boolean isWatchedElsewhere() {
        return joined != NONE;
    }

    /** {@link DeviceControl#takeEventIfThere}. */
    boolean takeIfThere() {
        return control.takeEventIfThere(channel, wait);
    }

    /** {@link DeviceControl#takeEvent}. */
    int take() {
        return control.takeEvent(channel, wait);
    }

    /** {@link EventWait#await}. */
    int await(int milliseconds) {
        return wait.await(milliseconds);
    }

    /** The descriptor that is readable with an event, or when {@link #raise} was called. */
    int joinedDescriptor() {
        if (joined == NONE) {
            joined =
                    (int) CallFailure.check(Descriptors.join(descriptor, eventFd), "epoll_create1");
        }
        return joined;
    }

    @Override
    public void free() {
        Descriptors.close(eventFd);
        if (joined != NONE) {
            Descriptors.close(joined);
        }
    }
}
