package dev.verbena.internal.queue;

import dev.verbena.VerbenaException;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.EventWait;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A completion channel ({@code ibv_comp_channel}) and the one thread that waits for its completion
 * queues: a single one, or many.
 *
 * <p>Each queue has an {@link Entry}, whose slot is the {@code cq_context} of the native queue: an
 * event names it. An entry is ready if an event of its queue was taken, or if its queue fired
 * without one, as it does in the arm race ({@link CompletionArming}). The waiting thread takes
 * entries from there and has each queue check whether it has fired ({@link Member#collect}).
 *
 * <p>Its lock is acquired inside the lock of {@link CompletionArming}, held briefly, and never
 * while it calls a queue.
 */
public final class EventChannel<M extends EventChannel.Member> {
    /** A completion queue of the channel. Its methods are called without a lock. */
    public interface Member {
        /**
         * Checks whether the queue has fired.
         *
         * @param events how many events of it were taken from the channel
         */
        boolean collect(int events);

        /** Whether the device has an event for this queue, or raises one any moment. */
        boolean expectsEvent();

        /** Fires with an errno if it is armed. */
        void channelFailed(int errno);
    }

    /** One completion queue's slot in its channel. */
    public final class Entry {
        private final int slot;
        private @Nullable M member; // until it enters, its events are dropped
        private int arrived; // events that were taken and not handled
        private boolean waiting; // is ready
        private @Nullable Entry next; // is ready, too: to add one needs no memory
        private boolean stale; // there is nothing to check, unless events have arrived

        private Entry(int slot) {
            this.slot = slot;
        }

        /** The context to create the native queue with. */
        public long context() {
            return slot;
        }

        /** Handles events of this slot from now on. */
        public void enter(M of) {
            synchronized (EventChannel.this) {
                member = of;
            }
        }

        /** Has the waiting thread check the queue. From any thread. */
        public void raise() {
            synchronized (EventChannel.this) {
                stale = false;
                add(this);
                wakeWaiting();
            }
        }

        /** Undoes {@link #raise}: the queue is armed again before the consumer was notified. */
        void clear() {
            synchronized (EventChannel.this) {
                stale = true;
                boolean others = first != null && (first != this || next != null);
                if (joined != NONE && !others && !wokenUp && !lookAtAll) {
                    Descriptors.drain(eventFd); // or the program's loop would wake for it
                }
            }
        }

        /**
         * Takes events that nobody waited for: they would end the next wait at once, and the kernel
         * would keep each of them until the channel is destroyed. Takes the events of other queues
         * that come before them, too, for the waiting thread. A thread that sleeps takes the events
         * itself.
         *
         * <p>Takes one system call if an event was requested and nobody waited for it, otherwise
         * none. An event that is still on its way when the channel is found empty is not counted
         * any more. The channel stays bounded all the same: from then on each request takes one
         * event and adds one.
         *
         * @param unread how many were requested and not taken
         * @return how many there are now
         */
        int takeUnread(int unread) {
            synchronized (EventChannel.this) {
                if (sleeping) {
                    return unread;
                }
                try {
                    while (arrived < unread && takeEvents(1, this)) {
                        continue;
                    }
                } finally {
                    if (tookOthers) { // their events make the channel readable no longer
                        tookOthers = false;
                        wakeWaiting();
                    }
                }
                arrived = 0;
                return 0;
            }
        }

        /** Gives the slot to another queue. The native queue is destroyed, or about to be. */
        public void free() {
            synchronized (EventChannel.this) {
                member = null;
                if (entries[slot] == this) {
                    entries[slot] = null;
                    used--;
                }
            }
        }
    }

    private static final int NONE = -1;

    private final DeviceControl control;
    private final long channel;
    private final int eventFd;
    private final EventWait wait;

    // Guarded by this object.
    @SuppressWarnings("unchecked") // an array of a class with a type parameter
    private @Nullable Entry[] entries = (@Nullable Entry[]) new EventChannel<?>.Entry[1];

    private int used; // of entries
    private @Nullable Entry first; // of the ready ones, which are linked
    private @Nullable Entry last;
    private boolean tookOthers; // an arm took events of queues that are not being armed
    private boolean lookAtAll; // an error came between taking an event and noting it
    private boolean sleeping;
    private boolean wokenUp;
    private boolean freed;
    private int joined = NONE; // the descriptor for the program's own loop

    private volatile boolean closed;
    private int failure; // of the waiting thread

    /**
     * Creates the native channel.
     *
     * @throws VerbenaException if there are no more file descriptors
     */
    public EventChannel(DeviceControl control) {
        this.control = control;
        this.channel = Errno.check(control.createChannel(), "ibv_create_comp_channel", "");
        int descriptor = NONE;
        try {
            descriptor = (int) Errno.check(Descriptors.newEventFd(), "eventfd", "");
            this.eventFd = descriptor;
            this.wait = control.newWait(channel, eventFd);
        } catch (Throwable t) {
            if (descriptor != NONE) {
                Descriptors.close(descriptor);
            }
            control.destroyChannel(channel);
            throw t;
        }
    }

    /** The address of the {@code ibv_comp_channel}. */
    public long address() {
        return channel;
    }

    /** Takes a slot for a completion queue, which {@link Entry#free} gives back. */
    public synchronized Entry reserve() {
        int slot = 0;
        while (slot < entries.length && entries[slot] != null) {
            slot++;
        }
        if (slot == entries.length) {
            entries = Arrays.copyOf(entries, 2 * slot);
        }
        Entry entry = new Entry(slot);
        entries[slot] = entry;
        used++;
        return entry;
    }

    /** Adds an entry to those that the waiting thread checks. The caller holds the lock. */
    private void add(Entry entry) {
        if (!entry.waiting && !freed) {
            entry.waiting = true;
            if (last == null) {
                first = entry;
            } else {
                last.next = entry;
            }
            last = entry;
        }
    }

    /** Wakes the sleeping thread, or an event loop of the program. The caller holds the lock. */
    private void wakeWaiting() {
        if ((sleeping || joined != NONE) && !freed) {
            Descriptors.setReadable(eventFd);
        }
    }

    /**
     * Takes events that are there. The caller holds the lock.
     *
     * @param arming the queue that is being armed, whose events are of no use; or null
     */
    private boolean takeEvents(int most, @Nullable Entry arming) {
        int count = 0;
        if (lookAtAll) {
            addAll(); // before it is forgotten here
        }
        lookAtAll = true;
        try {
            while (count < most && control.takeEventIfThere(channel, wait)) {
                noteEvent(arming);
                count++;
            }
            lookAtAll = false;
        } finally {
            if (lookAtAll) {
                wakeWaiting(); // to check all of them
            }
        }
        return count > 0;
    }

    /** Whatever the events were for that an error has lost. The caller holds the lock. */
    private void addAll() {
        for (Entry entry : entries) {
            if (entry != null) {
                entry.arrived++;
                add(entry);
            }
        }
        lookAtAll = false;
    }

    /** An event was taken. If its queue is closed, it is dropped. The caller holds the lock. */
    private void noteEvent(@Nullable Entry arming) {
        Entry entry = entries[(int) wait.context()];
        if (entry != null) {
            entry.arrived++;
            if (entry != arming) {
                add(entry);
                tookOthers |= arming != null;
            }
        }
    }

    // ---- waiting

    /**
     * Waits until a queue has fired. For one thread at a time.
     *
     * @return the queue, or null when the time is over, {@link #wakeUp} was called, the channel is
     *     closed, or it has a {@link #failure}
     * @throws VerbenaException if waiting failed; it may be tried again
     */
    public @Nullable M await(long nanoseconds) {
        failure = 0;
        long left = nanoseconds;
        long deadline = System.nanoTime() + left;
        boolean last = false;
        while (true) {
            M fired = nextFired(!last);
            if (fired != null || last) {
                return fired;
            }
            last = left <= 0;
            int ended;
            try {
                ended = closed || takeExpected() ? 0 : wait.await(last ? 0 : milliseconds(left));
            } finally {
                endSleeping(); // before it takes events: no thread has to wake it for those
            }
            if (!closed) {
                handle(ended);
            }
            if (closed || takeWakeUp() || (failure != 0 && isNothingReady())) {
                return null;
            }
            left = deadline - System.nanoTime();
        }
    }

    /** Rounded up: the rest would be waited for in a loop. */
    static int milliseconds(long nanoseconds) {
        return (int) Math.min(Integer.MAX_VALUE, TimeUnit.NANOSECONDS.toMillis(nanoseconds) + 1);
    }

    /**
     * Takes the event that made {@link #descriptor} readable, for a channel with one queue. Returns
     * at once.
     *
     * @return the queue if it has fired, otherwise null
     */
    public @Nullable M takeEvent() {
        failure = 0;
        handle(EventWait.WAKE_UP | EventWait.EVENT);
        return nextFired(false);
    }

    /**
     * The next queue that has fired. If there is none, the caller may sleep: from then on, whatever
     * comes up wakes it.
     */
    private @Nullable M nextFired(boolean sleepElse) {
        while (true) {
            Entry entry;
            M member;
            int events;
            synchronized (this) {
                if (lookAtAll) {
                    addAll();
                }
                entry = first;
                if (entry == null) {
                    sleeping = sleepElse;
                    return null;
                }
                first = entry.next;
                last = first == null ? null : last;
                entry.next = null;
                entry.waiting = false;
                member = entry.member;
                events = entry.arrived;
                entry.arrived = 0;
                if (member == null || (events == 0 && entry.stale)) {
                    continue;
                }
            }
            boolean checked = false;
            try {
                boolean fired = member.collect(events);
                checked = true;
                if (fired) {
                    return member;
                }
            } finally {
                if (!checked) {
                    giveBack(entry, events); // an error has ended the check: it is done again
                }
            }
        }
    }

    private synchronized void giveBack(Entry entry, int events) {
        entry.arrived += events;
        entry.raise();
    }

    /**
     * A completion that is there usually has its event: taking that at once saves {@code poll(2)}.
     * Only with a single queue, because each queue has to be polled for this.
     */
    private boolean takeExpected() {
        M only = only();
        if (only == null || !only.expectsEvent()) {
            return false;
        }
        synchronized (this) {
            return takeEvents(1, null);
        }
    }

    private synchronized @Nullable M only() {
        Entry first = entries[0];
        return used == 1 && first != null ? first.member : null;
    }

    private synchronized void endSleeping() {
        sleeping = false;
    }

    private synchronized boolean takeWakeUp() {
        boolean woken = wokenUp;
        wokenUp = false;
        if (woken && first != null) {
            wakeWaiting(); // for an event loop of the program: there is more
        }
        return woken;
    }

    /** What ended the sleep. */
    private void handle(int answer) {
        if (answer < 0) {
            throw new VerbenaException("poll", -answer, "");
        }
        if ((answer & EventWait.WAKE_UP) != 0) {
            Descriptors.drain(eventFd); // before the check of what it was raised for
        }
        if ((answer & EventWait.EVENT) != 0) {
            takeEventsOrFail();
        }
    }

    /**
     * Takes what made the channel readable, or finds out why it cannot be taken. Most queues have
     * one event at most, so with one queue no system call is spent on a second event. What is left
     * makes the channel readable again.
     */
    private void takeEventsOrFail() {
        synchronized (this) {
            failure = takeEvents(Math.max(1, used), null) ? 0 : takeOneOrFail();
        }
        if (failure != 0) {
            members().forEach(member -> member.channelFailed(failure));
        }
    }

    /** As the last of {@link #takeEvents}, with the errno. The caller holds the lock. */
    private int takeOneOrFail() {
        lookAtAll = true;
        int answer = control.takeEvent(channel, wait);
        if (answer > 0) {
            noteEvent(null);
        }
        lookAtAll = false;
        return Math.max(0, -answer);
    }

    /**
     * Why events could not be taken in the last wait, as after the removal of the device: a
     * positive errno, or 0. All queues that were armed have fired with it. The descriptor stays
     * readable, so the next wait ends at once.
     */
    public int failure() {
        return failure;
    }

    private synchronized boolean isNothingReady() {
        return first == null;
    }

    private synchronized List<M> members() {
        List<M> all = new ArrayList<>();
        for (Entry entry : entries) {
            if (entry != null && entry.member != null) {
                all.add(entry.member);
            }
        }
        return all;
    }

    // ---- any thread

    /** Ends the wait in progress, or else the next one. */
    public synchronized void wakeUp() {
        wokenUp = true;
        if (!freed) {
            Descriptors.setReadable(eventFd);
        }
    }

    /**
     * The descriptor for the program's own loop.
     *
     * @return readable when {@link #await} should be called until it returns null
     * @throws VerbenaException if there are no more file descriptors
     */
    public synchronized int descriptor() {
        if (joined == NONE) {
            int own = control.channelDescriptor(channel);
            joined = (int) Errno.check(Descriptors.join(own, eventFd), "epoll_create1", "");
            if (first != null) {
                Descriptors.setReadable(eventFd);
            }
        }
        return joined;
    }

    public void close() {
        closed = true;
        wakeUp();
    }

    public boolean closed() {
        return closed;
    }

    /** Closes the descriptors; no thread waits any more, and no queue is left. */
    public synchronized void free() {
        freed = true;
        Descriptors.close(eventFd);
        if (joined != NONE) {
            Descriptors.close(joined);
        }
    }

    /** Adds the steps that destroy it. */
    public void destroy(Teardown end) {
        end.run(this, EventChannel::free);
        int answer = control.destroyChannel(channel);
        if (end.check(answer, "ibv_destroy_comp_channel") && answer != 0) {
            // The library keeps the channel with the queue of a device that is gone; its descriptor
            // would stay open until the process ends.
            end.run(this, of -> Descriptors.close(of.control.channelDescriptor(of.channel)));
        }
    }
}
