package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.CallbackThread;
import dev.verbena.internal.queue.CompletionArming;
import dev.verbena.internal.queue.CompletionPoller;
import dev.verbena.internal.queue.CompletionRecords;
import dev.verbena.internal.queue.EventChannel;
import dev.verbena.internal.queue.NativeQueuePair;
import dev.verbena.internal.queue.QueueLock;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Objects;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Where completions of requests are delivered: NDK's CQ, verbs' {@code ibv_cq} with a completion
 * channel.
 *
 * <p><b>Threads.</b> The caller serialises polls and arms, as NDK asks; all other methods may be
 * called from any thread, at any time. A queue that is {@linkplain
 * Adapter#createConfinedCompletionQueue confined} is polled, armed, awaited and closed, and its
 * descriptor and events taken, by its owner thread only.
 *
 * <p><b>Waiting.</b> Arm the queue, then poll until it is empty; a completion that arrives after
 * that makes the queue fire. The program is notified by a callback if the queue was created with
 * one; otherwise by {@link #await}, or by a loop of its own over {@link #eventDescriptor}.
 *
 * {@snippet file="dev/verbena/examples/Hello.java" region="await"}
 */
public final class CompletionQueue extends NativeObject {
    private static final int MOST_MODERATION = 0xFFFF; // the fields have 16 bits

    private final Adapter adapter;
    private volatile int depth;
    private final DeviceControl control;
    private final int vector;
    private final EventChannel<Events> channel;
    private final EventChannel<Events>.Entry entry;
    private final @Nullable CompletionChannel shared; // null: the channel is its own
    private final long address;
    private final CompletionPoller poller;
    private final Events events;
    private final @Nullable Consumer<Status> callback;
    private final @Nullable CallbackThread<Events> callbacks;

    CompletionQueue(Adapter adapter, CompletionQueueOptions options) {
        this(adapter, options, Thread.ofPlatform().daemon().factory());
    }

    /** With the threads that a test has for the callback. */
    CompletionQueue(
            Adapter adapter, CompletionQueueOptions options, ThreadFactory callbackThreads) {
        super(parents(adapter, options));
        this.adapter = adapter;
        this.control = adapter.device().control();
        this.callback = options.callback;
        Thread owner = options.confined ? Thread.currentThread() : null;
        int depth = options.depth;
        Deque<Runnable> undo = new ArrayDeque<>();
        undo.push(this::abandon);
        try {
            checkDepth(depth);
            this.depth = depth;
            this.vector = adapter.device().vector(options.vector);
            AdapterEvents adapterEvents = adapter.device().events();
            this.shared = options.channel;
            if (shared == null) {
                EventChannel<Events> own = new EventChannel<>(control);
                undo.push(() -> control.destroyChannel(own.address()));
                undo.push(own::free);
                this.channel = own;
            } else {
                if (owner != null) {
                    shared.claim(owner);
                    undo.push(shared::unclaim);
                }
                this.channel = shared.channel();
            }
            this.entry = channel.reserve();
            undo.push(entry::free);
            long made =
                    control.createCq(
                            CompletionPoller.DEPTH_FACTOR * depth,
                            channel.address(),
                            vector,
                            entry.context());
            if (made < 0) { // the sentence only now: formatting takes 13 ms in a new JVM
                throw VerbenaException.of(
                        "ibv_create_cq(depth %d)".formatted(CompletionPoller.DEPTH_FACTOR * depth),
                        made,
                        "");
            }
            undo.push(() -> control.destroyCq(made));
            this.address = made;
            this.events = new Events(owner);
            this.poller = events.poller();
            entry.enter(events);
            undo.push(() -> adapterEvents.forget(made));
            adapterEvents.register(made, this, this::handle);
            undo.push(() -> adapter.quirks().remove(events));
            adapter.quirks().add(events);
            if (callback == null) {
                this.callbacks = null;
            } else {
                acquire();
                this.callbacks =
                        new CallbackThread<>(
                                callbackThreads,
                                adapter.name(),
                                channel,
                                this::callBack,
                                () -> CompletionChannel.await(channel, this, Long.MAX_VALUE),
                                this::release);
            }
        } catch (Throwable t) {
            undo.forEach(Runnable::run);
            throw t;
        }
    }

    private static NativeObject[] parents(Adapter adapter, CompletionQueueOptions options) {
        CompletionChannel shared = options.channel;
        if (shared == null) {
            return new NativeObject[] {adapter};
        }
        if (shared.adapter() != adapter) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "A completion queue and its channel must be of the same Adapter object; the queue is of %s, the channel of %s"
                            .formatted(adapter.name(), shared.adapter().name()));
        }
        return new NativeObject[] {adapter, shared};
    }

    /**
     * Calls back. A callback that still polls or arms this queue when another thread closes it has
     * made no mistake: the exception that ends it is not reported.
     */
    private void callBack(Events fired) {
        try {
            Objects.requireNonNull(callback).accept(fired.last());
        } catch (ClosedException e) {
            if (!isClosed()) {
                throw e;
            }
        }
    }

    /** Called by the event thread. */
    private void handle(AdapterEvent.Type event) {
        switch (event) {
            case COMPLETION_QUEUE_FAILED -> poller.ownerTasks().runByOwner(() -> breakDown(true));
            case DEVICE_FAILED -> poller.ownerTasks().runByOwner(() -> breakDown(false));
            default -> {}
        }
    }

    private void checkDepth(int depth) {
        int max =
                adapter.device().reported().maxCompletionQueueDepth()
                        / CompletionPoller.DEPTH_FACTOR;
        if (depth < 1 || depth > max) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "A completion queue of %s is 1 to %d deep, not %d"
                            .formatted(adapter.name(), max, depth));
        }
    }

    /** What this queue is armed for; as a member of its channel, it leads back to the queue. */
    final class Events extends CompletionArming {
        Events(@Nullable Thread owner) {
            super(adapter.queueDevice(), address, owner, entry, callback != null);
        }

        CompletionQueue queue() {
            return CompletionQueue.this;
        }
    }

    private void breakDown(boolean overrun) {
        runUnlessClosed(() -> events.breakDown(overrun));
    }

    /**
     * Takes completions out of the queue (NdkGetCqResultsEx and NdkGetCqResults, {@code
     * ibv_poll_cq}). Completions of one send queue come in posting order, and so do those of one
     * receive queue; between different queues there is no order.
     *
     * <p>Returns at once. Allocates nothing.
     *
     * @param completions receives the completions, and replaces those of the poll before
     * @return the number of completions, 0 when there was none
     * @throws IllegalStateException when this queue is closed
     * @throws VerbenaException when the queue has failed and no completion is left to poll, with
     *     BUFFER_OVERFLOW after an overrun
     */
    public int poll(Completions completions) {
        CompletionRecords records = completions.records();
        records.clear();
        if (!poller.poll(records)) {
            throw new ClosedException(this);
        }
        int count = records.size();
        if (count == 0 && (poller.broken() || events.broken() != null)) {
            count = pollBroken(records);
        }
        if (count > 0) {
            poller.counts().delivered(count);
        }
        return count;
    }

    /**
     * Polls once more, after the failure is known: it was found out after the first poll, or by the
     * owner's tasks in it, and has left completions to be polled.
     */
    private int pollBroken(CompletionRecords records) {
        long kept;
        do {
            kept = poller.counts().keptEver();
            if (!poller.poll(records)) {
                throw new ClosedException(this);
            }
            if (records.size() > 0) {
                return records.size();
            }
        } while (poller.counts().keptEver() != kept); // by its tasks
        throw broken();
    }

    /** The thread that this queue is confined to, or null. */
    @Nullable Thread owner() {
        return poller.lock().owner();
    }

    /** On a confined queue: the owner's, and what other threads have left for it is done. */
    void checkThread() {
        if (owner() != null) {
            poller.lock().checkOwner();
            poller.ownerTasks().runAll();
        }
    }

    private void checkMayWait() {
        if (shared != null) {
            throw new IllegalStateException(
                    "This completion queue shares its channel with others: wait by CompletionChannel.await");
        }
        if (callback != null) {
            throw new IllegalStateException(
                    "This completion queue has a callback: it is called instead of waking a thread that waits");
        }
    }

    private VerbenaException broken() {
        Status status = events.broken();
        return new VerbenaException(
                status == null ? Status.BUFFER_OVERFLOW : status,
                "%s is broken, most likely by an overrun: create it with a greater depth, and its queue pairs and their shared receive queues again"
                        .formatted(this));
    }

    /**
     * Requests one notification of the next completion (NdkArmCq, {@code ibv_req_notify_cq}).
     * Arming again before the notification combines the two types: ANY includes all, SOLICITED
     * includes ERRORS.
     *
     * <p>The queue fires at once if completions arrived since the last notification, and under
     * every type when the queue fails. A notification may come without a completion to poll; none
     * is ever missing.
     *
     * <p>Without a callback, arming again drops a notification that was not taken: a caller that
     * always finds something to poll may arm each time and never wait.
     *
     * @param type which completions to be notified of
     * @return true if the queue has fired already: then the callback is called; {@link #await}
     *     returns at once, unless all completions are polled before; and a loop of the caller's own
     *     need not wait
     * @throws IllegalStateException when this queue is closed
     */
    public boolean arm(NotifyType type) {
        QueueLock.checkStack();
        acquire();
        try {
            checkThread();
            return events.arm(adapter.quirks().toArm(type));
        } finally {
            release();
        }
    }

    /**
     * Blocks until this armed queue fires and there is a completion to poll. For queues without a
     * callback, and one thread at a time. Interrupts do not end the wait; closing the queue does. A
     * virtual thread keeps its carrier thread while it waits: give virtual threads a queue with a
     * callback.
     *
     * @param timeout how long to wait at most
     * @return SUCCESS when there is something to poll, IO_TIMEOUT when nothing came in time (the
     *     queue stays armed), BUFFER_OVERFLOW when the queue overran, INTERNAL_ERROR when the
     *     device failed, or the status of the error by which its events cannot be taken any more
     * @throws IllegalStateException when it is not armed, has a callback, shares a {@link
     *     CompletionChannel}, which then is awaited, or is closed meanwhile
     */
    public Status await(Duration timeout) {
        QueueLock.checkStack();
        acquire();
        try {
            checkThread();
            checkMayWait();
            if (!events.isAwaited()) {
                throw new IllegalStateException("Arm the completion queue before waiting for it");
            }
            boolean fired = CompletionChannel.await(channel, this, adapter, timeout) != null;
            if (!fired && channel.closed()) {
                throw new ClosedException(this);
            }
            poller.counts().waited(!fired);
            return fired ? events.last() : Status.IO_TIMEOUT;
        } finally {
            release();
        }
    }

    /**
     * A file descriptor that becomes readable when this queue may have fired, for a program's own
     * loop over many descriptors. When it is readable, call {@link #takeEvent}. It belongs to this
     * queue, and is valid until that is closed; only wait for it ({@code poll}, {@code epoll}), do
     * not read or close it.
     *
     * @return the descriptor's number
     * @throws IllegalStateException when this queue has a callback, or is closed
     */
    @CheckReturnValue
    public int eventDescriptor() {
        acquire();
        try {
            checkThread();
            checkMayWait();
            return channel.descriptor();
        } finally {
            release();
        }
    }

    /**
     * Takes the event for which {@link #eventDescriptor} became readable. Returns at once.
     *
     * @return SUCCESS when the armed queue has fired, PENDING when the event was an internal one,
     *     BUFFER_OVERFLOW when the queue overran, INTERNAL_ERROR when the device failed, or the
     *     status of the error by which its events cannot be taken any more
     * @throws IllegalStateException when this queue has a callback, or is closed
     */
    @CheckReturnValue
    public Status takeEvent() {
        QueueLock.checkStack();
        acquire();
        try {
            checkThread();
            checkMayWait();
            return channel.takeEvent() == null ? Status.PENDING : events.last();
        } finally {
            release();
        }
    }

    /**
     * Changes how many completions it can hold (NdkResizeCq). Requests may be outstanding.
     *
     * @param depth the new depth; not less than the number of completions in the queue
     * @throws IllegalStateException when this queue is closed
     * @throws VerbenaException with NOT_SUPPORTED when the device does not support it ({@link
     *     AdapterInfo#completionQueueResize}), INVALID_PARAMETER when it refuses the depth
     */
    public void resize(int depth) {
        run(
                () -> {
                    checkDepth(depth);
                    Errno.check(
                            control.resizeCq(address, CompletionPoller.DEPTH_FACTOR * depth),
                            "ibv_resize_cq(%d)".formatted(CompletionPoller.DEPTH_FACTOR * depth),
                            "");
                    this.depth = depth;
                });
    }

    /**
     * Has the device interrupt less often (NdkControlCqInterruptModeration, {@code ibv_modify_cq}):
     * an event comes after some completions, or some time after the first of them. It affects armed
     * queues and the threads that wait for them, not polls. Values above the device's maxima,
     * {@link AdapterInfo#maxModerationCount} and {@link AdapterInfo#maxModerationInterval}, are
     * rounded down.
     *
     * @param completions after how many completions an event comes at the latest; with 0 and 1,
     *     after each. If they are more than the {@link #depth}, the interval alone decides
     * @param interval after which time an event comes at the latest, rounded down to microseconds;
     *     with zero, at once. If it is that of {@link ChronoUnit#FOREVER} (NDK: MAXULONG), the
     *     completions alone decide, but the device still has its maximum
     * @throws IllegalArgumentException for a negative value
     * @throws IllegalStateException when this queue is closed
     * @throws VerbenaException with INVALID_PARAMETER_MIX when neither would decide; NOT_SUPPORTED
     *     when the device cannot do it, as Soft-RoCE
     */
    public void moderate(int completions, Duration interval) {
        if (completions < 0 || interval.isNegative()) {
            throw new IllegalArgumentException(
                    "Interrupts cannot wait for %,d completions and %s"
                            .formatted(completions, Text.time(interval)));
        }
        int depth = this.depth;
        if (completions > depth && interval.equals(ChronoUnit.FOREVER.getDuration())) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "%s holds %d completions: with an interval of ChronoUnit.FOREVER and more completions, it would never interrupt"
                            .formatted(this, depth));
        }
        run(
                () -> {
                    AdapterInfo device = adapter.device().reported();
                    int count = roundedDown(completions, device.maxModerationCount());
                    int microseconds =
                            roundedDown(
                                    TimeUnit.MICROSECONDS.convert(interval),
                                    TimeUnit.MICROSECONDS.convert(device.maxModerationInterval()));
                    Errno.check(
                            control.moderateCq(address, count, microseconds),
                            "ibv_modify_cq(%d completions, %d us)".formatted(count, microseconds),
                            "Its interrupts stay as they are");
                });
    }

    /** The device's maximum is 0 if it is not known. */
    private static int roundedDown(long value, long maximum) {
        return (int) Math.min(value, maximum == 0 ? MOST_MODERATION : maximum);
    }

    Events events() {
        return events;
    }

    /**
     * How many completions it can hold.
     *
     * @return the depth it was created with, or was last {@linkplain #resize resized} to
     */
    public int depth() {
        return depth;
    }

    /**
     * The counters of this queue since it was created. May be called from any thread, also for a
     * {@linkplain Adapter#createConfinedCompletionQueue confined} queue, and after the close. Takes
     * no lock: while another thread polls, the counts may be slightly behind, and from different
     * moments. Counts only grow.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    public CompletionQueueCounters counters() {
        return poller.counts().counters();
    }

    /**
     * The completion vector that signals its events (NDK: affinity).
     *
     * @return 0 to {@link Adapter#completionVectors} - 1
     */
    public int vector() {
        return vector;
    }

    /**
     * The adapter it was created from.
     *
     * @return the adapter, which may be closed by now
     */
    public Adapter adapter() {
        return adapter;
    }

    /**
     * The address of the {@code ibv_cq}, for functions of libibverbs that this library does not
     * call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(address);
    }

    @Override
    void checkMayClose() {
        poller.lock().checkOwner();
    }

    /**
     * Destroys this queue and its queue pairs if they are confined to a thread that ended: nobody
     * may close them. What was outstanding is not reported, as nobody may poll it either.
     */
    void reclaimIfOrphaned(Teardown end) {
        Thread owner = poller == null ? null : owner(); // null: its thread is creating it just now
        if (owner != null && !owner.isAlive()) {
            for (NativeQueuePair each : events.queuePairs().all()) {
                ((QueuePair.Handle) each).queuePair().reclaim(end);
            }
            reclaim(end);
        }
    }

    @Override
    void shut(Teardown end) {
        end.run(poller, CompletionPoller::close);
        events.close();
        if (shared == null) {
            end.run(channel, EventChannel::close);
        }
        if (callbacks != null) {
            end.run(callbacks, CompletionQueue::join);
        }
    }

    private static void join(CallbackThread<Events> callbacks) {
        if (!callbacks.join()) {
            throw VerbenaException.stillRunning("its callback", CallbackThread.CLOSE_TIMEOUT);
        }
    }

    @Override
    void destroy(Teardown end) {
        if (!poller.lock().isForeign()) {
            poller.lock().close(); // for a close that an error has cut short: no poll from now on
        }
        end.run(this, queue -> queue.adapter.device().events().forget(queue.address));
        adapter.quirks().remove(events);
        entry.free();
        end.check(control.destroyCq(address), "ibv_destroy_cq");
        if (shared == null) {
            channel.destroy(end);
        } else if (owner() != null) {
            shared.unclaim();
        }
    }

    @Override
    String describe() {
        return "CompletionQueue of " + adapter.name();
    }
}
