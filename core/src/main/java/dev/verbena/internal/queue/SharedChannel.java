package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.CallFailure;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.EventWait;

import org.jspecify.annotations.Nullable;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * A completion channel with many completion queues, and one thread that waits for all of them.
 *
 * <p>Each queue has an {@link Entry}, whose slot is the {@code cq_context} of the native queue: an
 * event names it. An entry waits in {@link #ready} when an event of its queue was taken, or when
 * its queue fired without one. The waiting thread takes entries from there and has each queue look
 * whether it has fired ({@link CompletionEvents#collect}).
 *
 * <p>Its lock is taken inside the lock of {@link CompletionEvents}, held for moments, and never
 * while a queue is asked.
 */
public final class SharedChannel<Q extends SharedChannel.Queue> {
    /** A completion queue of the channel. Its methods are called without a lock. */
    public interface Queue {
        /**
         * Looks whether the queue has fired.
         *
         * @param events how many events of it were taken from the channel
         */
        boolean collect(int events);

        /** Looks for queue pairs that failed without a completion. */
        void lookForFailures();

        /** Fires with an errno if it is armed. */
        void channelFailed(int errno);
    }

    /** One completion queue's place in its channel. */
    public final class Entry implements EventSource {
        private final int slot;
        private @Nullable Q queue; // until then, events of it are dropped
        private int arrived; // events that were taken and not handled
        private boolean waiting; // in ready
        private boolean stale; // nothing is to be looked at, unless events have arrived

        private Entry(int slot) {
            this.slot = slot;
        }

        /** The context that the native queue is to be made with. */
        public long context() {
            return slot;
        }

        /** Has events of this slot handled from now on. */
        public void enter(Q of) {
            synchronized (SharedChannel.this) {
                queue = of;
            }
        }

        @Override
        public void raise() {
            synchronized (SharedChannel.this) {
                stale = false;
                add(this);
            }
        }

        @Override
        public void clear() {
            synchronized (SharedChannel.this) {
                stale = true;
            }
        }

        /**
         * {@inheritDoc}
         *
         * <p>Takes the events of other queues that stand before, too, for the thread that waits.
         */
        @Override
        public void takeUnread(int unread) {
            synchronized (SharedChannel.this) {
                while (arrived < unread && takeEvents(1)) {
                    continue;
                }
                arrived = 0;
            }
        }

        @Override
        public boolean isWatchedElsewhere() {
            synchronized (SharedChannel.this) {
                return joined != NONE;
            }
        }

        /** Gives the slot to another queue. The native queue is destroyed, or about to be. */
        @Override
        public void free() {
            synchronized (SharedChannel.this) {
                queue = null;
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
    private final boolean looks; // a failure may come without an event: look for it now and then
    private final int eventFd;
    private final EventWait wait;

    // Guarded by this object.
    @SuppressWarnings("unchecked") // an array of a class with a type parameter
    private @Nullable Entry[] entries = (@Nullable Entry[]) new SharedChannel<?>.Entry[4];

    private int used; // of entries
    private final Deque<Entry> ready = new ArrayDeque<>();
    private boolean lookAtAll; // an error came between taking an event and noting it
    private boolean sleeping;
    private boolean wokenUp;
    private boolean freed;
    private int joined = NONE; // the descriptor for a loop of the consumer's

    private volatile boolean closed;
    private final LookSchedule schedule =
            new LookSchedule(System::nanoTime); // of the waiting thread
    private final Runnable look = this::lookForFailures;

    /**
     * Uses a channel, which its maker destroys.
     *
     * @param looks whether the device raises no event for some failures
     * @throws CallFailure when no eventfd is to be had
     */
    public SharedChannel(DeviceControl control, long channel, boolean looks) {
        this.control = control;
        this.channel = channel;
        this.looks = looks;
        this.eventFd = (int) CallFailure.check(Descriptors.newEventFd(), "eventfd");
        try {
            this.wait = control.newWait(channel, eventFd);
        } catch (Throwable t) {
            Descriptors.close(eventFd);
            throw t;
        }
    }

    /** The address of the channel. */
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

    /** Adds an entry to those that the waiting thread looks at. The caller holds the lock. */
    private void add(Entry entry) {
        if (!entry.waiting && !freed) {
            entry.waiting = true;
            ready.add(entry);
            if (sleeping || joined != NONE) {
                Descriptors.setReadable(eventFd);
            }
        }
    }

    /** Takes events that are there. The caller holds the lock. */
    private boolean takeEvents(int most) {
        int count = 0;
        lookAtAll = true;
        while (count < most && control.takeEventIfThere(channel, wait)) {
            noteEvent();
            count++;
        }
        lookAtAll = false;
        return count > 0;
    }

    /** Whatever the events were for that an error has lost. The caller holds the lock. */
    private void addAll() {
        for (Entry entry : entries) {
            if (entry != null) {
                entry.stale = false;
                add(entry);
            }
        }
        lookAtAll = false;
    }

    /** An event was taken; of a queue that is closed it is dropped. The caller holds the lock. */
    private void noteEvent() {
        Entry entry = entries[(int) wait.context()];
        if (entry != null) {
            entry.arrived++;
            add(entry);
        }
    }

    /**
     * Waits until a queue has fired. For one thread at a time.
     *
     * @return the queue, or null when the time is over, {@link #wakeUp} was called, or the channel
     *     is closed
     * @throws CallFailure when waiting failed, or events cannot be taken any more, as after the
     *     removal of the device
     */
    public @Nullable Q await(long nanoseconds) {
        long left = nanoseconds;
        long deadline = System.nanoTime() + left;
        boolean last = false;
        while (true) {
            Q fired = nextFired(!last);
            if (fired != null || last) {
                return fired;
            }
            last = left <= 0;
            int ended;
            try {
                ended = closed ? 0 : sleep(last ? 0 : CompletionEvents.milliseconds(left));
            } finally {
                endSleeping(); // before it takes events: nobody has to wake it for those
            }
            if (!closed) {
                handle(ended);
            }
            if (closed || takeWakeUp()) {
                return null;
            }
            left = deadline - System.nanoTime();
        }
    }

    /**
     * The next queue that has fired. Where there is none, the caller sleeps from then on, if it
     * will: what comes up later wakes it.
     */
    private @Nullable Q nextFired(boolean sleepElse) {
        while (true) {
            Entry entry;
            Q queue;
            int events;
            synchronized (this) {
                if (lookAtAll) {
                    addAll();
                }
                entry = ready.poll();
                if (entry == null) {
                    sleeping = sleepElse;
                    return null;
                }
                entry.waiting = false;
                queue = entry.queue;
                events = entry.arrived;
                entry.arrived = 0;
                if (queue == null || (events == 0 && entry.stale)) {
                    continue;
                }
            }
            boolean looked = false;
            try {
                boolean fired = queue.collect(events);
                looked = true;
                if (fired) {
                    return queue;
                }
            } finally {
                if (!looked) {
                    entry.raise(); // an error has ended the look: it is to be done again
                }
            }
        }
    }

    private synchronized void endSleeping() {
        sleeping = false;
    }

    private synchronized boolean takeWakeUp() {
        boolean woken = wokenUp;
        wokenUp = false;
        if (woken && !ready.isEmpty() && !freed) {
            Descriptors.setReadable(eventFd); // for a loop that waits for it: there is more
        }
        return woken;
    }

    private int sleep(int milliseconds) {
        return wait.await(
                looks ? Math.min(milliseconds, schedule.gapMilliseconds()) : milliseconds);
    }

    /** What ended the sleep. */
    private void handle(int answer) {
        if (answer < 0) {
            throw new CallFailure("poll", -answer);
        }
        if ((answer & EventWait.WAKE_UP) != 0) {
            Descriptors.drain(eventFd); // before the look at what it was raised for
        }
        if ((answer & EventWait.EVENT) != 0) {
            takeEventsOrFail();
            if (looks) {
                schedule.eventCame(look);
            }
        } else if (looks) {
            schedule.look(look);
        }
    }

    private void lookForFailures() {
        queues().forEach(Queue::lookForFailures);
    }

    /**
     * Takes what made the channel readable, or finds out why it cannot be taken. Most queues have
     * one event at most, so with one queue no system call is spent on a look for more. What is left
     * makes the channel readable again.
     */
    private void takeEventsOrFail() {
        int error;
        synchronized (this) {
            error = takeEvents(Math.max(1, used)) ? 0 : takeOneOrFail();
        }
        if (error != 0) {
            queues().forEach(queue -> queue.channelFailed(error));
            if (isNothingReady()) { // all that were armed have been notified before
                throw new CallFailure("ibv_get_cq_event", error);
            }
        }
    }

    /** As the last of {@link #takeEvents}, with the errno. The caller holds the lock. */
    private int takeOneOrFail() {
        lookAtAll = true;
        int answer = control.takeEvent(channel, wait);
        if (answer > 0) {
            noteEvent();
        }
        lookAtAll = false;
        return Math.max(0, -answer);
    }

    private synchronized boolean isNothingReady() {
        return ready.isEmpty();
    }

    private synchronized List<Q> queues() {
        List<Q> all = new ArrayList<>();
        for (Entry entry : entries) {
            if (entry != null && entry.queue != null) {
                all.add(entry.queue);
            }
        }
        return all;
    }

    /** Ends the wait that goes on now, or else the next one. From any thread. */
    public synchronized void wakeUp() {
        wokenUp = true;
        if (!freed) {
            Descriptors.setReadable(eventFd);
        }
    }

    /**
     * The descriptor for a loop of the consumer's.
     *
     * @return readable when {@link #await} is to be called until it returns null
     * @throws CallFailure when there is none to be had
     */
    public synchronized int descriptor() {
        if (joined == NONE) {
            joined =
                    (int)
                            CallFailure.check(
                                    Descriptors.join(control.channelDescriptor(channel), eventFd),
                                    "epoll_create1");
            if (!ready.isEmpty()) {
                Descriptors.setReadable(eventFd);
            }
        }
        return joined;
    }

    /** Ends waiting. */
    public void close() {
        closed = true;
        wakeUp();
    }

    /** Whether {@link #close} was called. */
    public boolean closed() {
        return closed;
    }

    /** Frees the descriptors; no thread waits any more, and no queue is left. */
    public synchronized void free() {
        freed = true;
        Descriptors.close(eventFd);
        if (joined != NONE) {
            Descriptors.close(joined);
        }
    }
}
