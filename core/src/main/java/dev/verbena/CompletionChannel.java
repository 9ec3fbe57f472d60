package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.AwaitEvent;
import dev.verbena.internal.queue.EventChannel;
import dev.verbena.internal.queue.QueueLock;
import dev.verbena.internal.runtime.Teardown;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Lets one thread wait for many completion queues: verbs' {@code ibv_comp_channel}; NDK has no
 * counterpart. Made by {@link Adapter#createCompletionChannel}; queues join it as they are created,
 * by {@link CompletionQueueOptions#channel}.
 *
 * <p>Arm each queue, poll it until it is empty, and call {@link #await}. It returns a queue to poll
 * and arm again:
 *
 * {@snippet file="dev/verbena/examples/ManyQueues.java" region="loop"}
 *
 * <p><b>Threads.</b> One thread at a time may wait; meanwhile others may create, arm and close
 * queues. If a channel has {@linkplain CompletionQueueOptions#confined confined} queues, they all
 * belong to one thread, and only that thread may wait.
 */
public final class CompletionChannel extends NativeObject {
    private final Adapter adapter;
    private final EventChannel<CompletionQueue.Events> channel;
    private volatile @Nullable Thread owner; // of its confined queues, while it has some
    private int confined; // queues

    CompletionChannel(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        try {
            this.channel = new EventChannel<>(adapter.device().control());
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /** A confined queue of a thread joins. */
    synchronized void claim(Thread thread) {
        Thread before = owner;
        if (before != null && before != thread) {
            throw new IllegalArgumentException(
                    "All confined completion queues of a channel must belong to the same thread: those of this channel belong to %s, the new one to %s"
                            .formatted(before, thread));
        }
        owner = thread;
        confined++;
    }

    /** A confined queue is destroyed, or could not be created. */
    synchronized void unclaim() {
        confined--;
        if (confined == 0) {
            owner = null;
        }
    }

    /**
     * The address of the {@code ibv_comp_channel}, for functions of libibverbs that this library
     * does not call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(channel.address());
    }

    EventChannel<CompletionQueue.Events> channel() {
        return channel;
    }

    /**
     * Blocks until one of the queues has fired. Interrupts do not end it; {@link #wakeUp} and the
     * close do. A virtual thread keeps its carrier meanwhile. Allocates nothing.
     *
     * <p>A queue that failed (an overrun) fires, too: a poll throws once all that completed has
     * been polled.
     *
     * @param timeout how long to wait at most; with zero, this only checks
     * @return a queue that has fired and is not armed any more; null if none fired in time, or
     *     after {@link #wakeUp}
     * @throws WrongThreadException if its confined queues belong to another thread
     * @throws IllegalStateException if this channel is closed, or is closed during the wait
     * @throws VerbenaException if waiting failed, or the device was removed and all queues that
     *     were armed have been returned
     */
    @CheckReturnValue
    public @Nullable CompletionQueue await(Duration timeout) {
        QueueLock.checkStack();
        acquire();
        try {
            Thread of = owner;
            if (of != null && of != Thread.currentThread()) {
                throw new WrongThreadException(
                        "%s has queues confined to %s, and %s waits for it"
                                .formatted(this, of, Thread.currentThread()));
            }
            CompletionQueue.Events fired = await(channel, this, adapter, timeout);
            if (fired != null) {
                return fired.queue();
            }
            if (channel.closed()) {
                throw new ClosedException(this);
            }
            if (channel.failure() != 0) {
                throw new VerbenaException(
                        "ibv_get_cq_event",
                        channel.failure(),
                        "That was while waiting for %s".formatted(this));
            }
            return null;
        } finally {
            release();
        }
    }

    /** Waits for a queue of a channel, and records it. */
    static CompletionQueue.@Nullable Events await(
            EventChannel<CompletionQueue.Events> channel,
            NativeObject awaited,
            Adapter adapter,
            Duration timeout) {
        AwaitEvent event = FlightRecording.on() ? AwaitEvent.start() : null;
        long nanoseconds = TimeUnit.NANOSECONDS.convert(timeout); // 292 years at most
        CompletionQueue.Events fired = await(channel, awaited, nanoseconds);
        if (event != null) {
            event.end(adapter.name(), fired != null);
        }
        return fired;
    }

    /** Waits for a queue of a channel; exceptions name the object that is waited for. */
    static CompletionQueue.@Nullable Events await(
            EventChannel<CompletionQueue.Events> channel, NativeObject awaited, long nanoseconds) {
        try {
            return channel.await(nanoseconds);
        } catch (VerbenaException e) {
            throw new VerbenaException(
                    e.verb(),
                    e.errno(),
                    "That was while waiting for %s; it may be waited for again".formatted(awaited));
        }
    }

    /**
     * Makes the {@link #await} that is running in another thread return null, or, if none is, the
     * next one that would block. May be called from any thread.
     */
    public void wakeUp() {
        channel.wakeUp();
    }

    /**
     * A file descriptor that becomes readable when a queue may have fired, for a program's own loop
     * over many descriptors. When it is readable, call {@link #await} with zero until that returns
     * null. It belongs to this channel, and is valid until that is closed; only wait for it ({@code
     * poll}, {@code epoll}), do not read or close it.
     *
     * @return the descriptor's number
     * @throws IllegalStateException when this channel is closed
     */
    @CheckReturnValue
    public int eventDescriptor() {
        return call(channel::descriptor);
    }

    /**
     * The adapter it was created from.
     *
     * @return the adapter, which may be closed by now
     */
    public Adapter adapter() {
        return adapter;
    }

    @Override
    void shut(Teardown end) {
        channel.close();
    }

    @Override
    void destroy(Teardown end) {
        if (adapter.device().gone()) {
            end.dependantsLeaked(); // its completion queues
        }
        channel.destroy(end);
    }

    @Override
    String describe() {
        return "CompletionChannel of " + adapter.name();
    }
}
