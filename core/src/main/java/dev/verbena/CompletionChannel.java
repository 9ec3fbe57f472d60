package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.SharedChannel;
import dev.verbena.internal.verbs.CallFailure;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * One place where a thread waits for many completion queues: verbs' {@code ibv_comp_channel}, which
 * NDK has no name for. Made by {@link Adapter#createCompletionChannel}; queues join it as they are
 * created, by {@link CompletionQueueOptions#channel}.
 *
 * <p>Arm each queue, poll it until nothing comes, and wait here. What {@link #await} returns is to
 * be polled, and armed again:
 *
 * {@snippet file="dev/verbena/examples/ManyQueues.java" region="loop"}
 *
 * <p><b>Threads.</b> One thread at a time waits. Queues may be created, armed and closed by others
 * meanwhile. The {@linkplain CompletionQueueOptions#confined confined} queues of one channel belong
 * to one thread, which is also the only one that may wait.
 */
public final class CompletionChannel extends NativeObject {
    private final Adapter adapter;
    private final long address;
    private final SharedChannel<ChannelMember> channel;
    private volatile @Nullable Thread owner; // of its confined queues

    CompletionChannel(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        long made = 0;
        try {
            made =
                    VerbenaException.check(
                            adapter.control().createChannel(), "ibv_create_comp_channel", "");
            this.address = made;
            this.channel =
                    new SharedChannel<>(
                            adapter.control(), made, adapter.provider().forgetsLateReceives());
        } catch (Throwable t) {
            if (made > 0) {
                adapter.control().destroyChannel(made);
            }
            abandon();
            if (t instanceof CallFailure e) {
                throw VerbenaException.of(e, "");
            }
            throw t;
        }
    }

    /** A confined queue of a thread joins. */
    synchronized void claim(Thread thread) {
        Thread before = owner;
        if (before != null && before != thread && before.isAlive()) {
            throw new IllegalArgumentException(
                    "The confined completion queues of one channel belong to one thread: here to %s, not to %s"
                            .formatted(before, thread));
        }
        owner = thread;
    }

    SharedChannel<ChannelMember> channel() {
        return channel;
    }

    /**
     * Sleeps until one of the queues has fired. Does not react to interrupts; {@link #wakeUp} and
     * the close end it. A virtual thread holds its carrier meanwhile. Allocates nothing.
     *
     * <p>A queue that broke fires, too: its next poll throws.
     *
     * @param timeout how long at most; with zero, this only looks
     * @return a queue that has fired and is not armed any more; null when none has in time, or
     *     after {@link #wakeUp}
     * @throws WrongThreadException when its confined queues belong to another thread
     * @throws IllegalStateException when this channel is closed, also meanwhile
     * @throws VerbenaException when waiting failed, or the device was removed and all queues that
     *     were armed have been returned
     */
    @CheckReturnValue
    public @Nullable CompletionQueue await(Duration timeout) {
        hold();
        try {
            Thread of = owner;
            if (of != null && of != Thread.currentThread()) {
                throw new WrongThreadException(
                        "%s has queues confined to %s, and %s waits for it"
                                .formatted(this, of, Thread.currentThread()));
            }
            ChannelMember fired = channel.await(TimeUnit.NANOSECONDS.convert(timeout));
            if (fired == null && channel.closed()) {
                throw new ClosedException(this);
            }
            return fired == null ? null : fired.queue();
        } catch (CallFailure e) {
            throw VerbenaException.of(e, "That was while waiting for %s".formatted(this));
        } finally {
            letGo();
        }
    }

    /**
     * Ends the {@link #await} that another thread is in, or else the next one that would sleep: it
     * returns null. From any thread.
     */
    public void wakeUp() {
        channel.wakeUp();
    }

    /**
     * For a loop over many descriptors: the one that becomes readable when there is something to do
     * here. Then call {@link #await} with zero until it returns null. The descriptor belongs to
     * this channel, is good until it is closed, and may be watched and nothing else.
     *
     * @return its number
     * @throws IllegalStateException when this channel is closed
     */
    @CheckReturnValue
    public int eventDescriptor() {
        hold();
        try {
            return channel.descriptor();
        } catch (CallFailure e) {
            throw VerbenaException.of(e, "");
        } finally {
            letGo();
        }
    }

    /**
     * The adapter it was made from.
     *
     * @return it may be closed
     */
    public Adapter adapter() {
        return adapter;
    }

    @Override
    void shut() {
        channel.close();
    }

    @Override
    void destroy() {
        Teardown end = new Teardown(this, adapter);
        end.run(channel::free);
        if (adapter.gone()) {
            end.dependantsLeaked(); // its completion queues
        }
        CompletionQueue.destroyChannel(adapter.control(), address, end);
        end.finish();
    }

    @Override
    String describe() {
        return "CompletionChannel of " + adapter.name();
    }
}
