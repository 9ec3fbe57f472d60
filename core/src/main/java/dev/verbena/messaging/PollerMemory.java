package dev.verbena.messaging;

import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePairLimits;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Closing;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * The memory that the message channels of a {@link Poller} share: their receives, the buffers that
 * they compose frames in, and blocks for large messages. It grows with what they use at the same
 * time, and shrinks at ticks. Channels take from it on any thread that may create them.
 */
final class PollerMemory implements AutoCloseable {
    private static final int FRAMES_AT_ONCE = 16; // registered
    private static final int FRAME_BYTES_AT_ONCE = 1 << 20; // or less, if one has less

    private final Poller poller;
    private final ProtectionDomain domain;
    private final boolean confined; // to one thread
    private final LargeMemory large;
    private final List<RawReceives> receives = new CopyOnWriteArrayList<>();
    private final List<FrameBuffers> frames = new CopyOnWriteArrayList<>();
    private final FrameBuffers inline;
    private final ReentrantLock lock = new ReentrantLock(); // of what posts use
    private final Condition givenBack = lock.newCondition();
    private @Nullable PostScratch scratch; // of the polling thread
    private @Nullable PostScratch spare; // the first of those that other threads may borrow
    private int mostBuffers; // of a request
    private volatile @Nullable QueuePairLimits limits; // of the last channel
    private final Consumer<RawReceives> tickReceives = RawReceives::tick; // no iterator
    private final Consumer<FrameBuffers> tickFrames = FrameBuffers::tick;

    PollerMemory(Poller poller, ProtectionDomain domain, boolean confined) {
        this.poller = poller;
        this.domain = domain;
        this.confined = confined;
        this.large = new LargeMemory(domain, () -> poller.connections().size());
        this.inline = new FrameBuffers(domain, PostScratch.BYTES, FRAMES_AT_ONCE);
    }

    /**
     * The shared receives for frames of a length; null on a device that cannot share any.
     *
     * @param depth how many a channel needs at most
     */
    @Nullable RawReceives receives(int bytes, int depth) {
        int most = domain.adapter().info().maxSharedReceiveDepth();
        if (most == 0) {
            return null;
        }
        synchronized (receives) {
            for (RawReceives pool : receives) {
                if (pool.fits(bytes, depth)) {
                    return pool;
                }
            }
            RawReceives made = RawReceives.ofMessages(poller, depth, most, bytes);
            receives.add(made);
            return made;
        }
    }

    /** The same limits, as one object of all channels that have them: they differ in depths. */
    QueuePairLimits shared(QueuePairLimits made) {
        QueuePairLimits last = limits;
        if (last != null
                && last.initiatorDepth() == made.initiatorDepth()
                && last.receiveDepth() == made.receiveDepth()) {
            return last;
        }
        limits = made;
        return made;
    }

    /** The buffers of frames of this length that are not inline. */
    FrameBuffers frames(int bytes) {
        synchronized (frames) {
            for (FrameBuffers one : frames) {
                if (one.bytes() == bytes) {
                    return one;
                }
            }
            int slab = Math.clamp(FRAME_BYTES_AT_ONCE / bytes, 1, FRAMES_AT_ONCE);
            FrameBuffers made = new FrameBuffers(domain, bytes, slab);
            frames.add(made);
            return made;
        }
    }

    /**
     * What a post on the polling thread uses.
     *
     * @param buffers of a request: the same number for all channels of a device
     */
    PostScratch scratch(int buffers) {
        lock.lock();
        try {
            PostScratch made = scratch;
            if (made == null) {
                mostBuffers = buffers;
                made = new PostScratch(inline, buffers);
                spare = new PostScratch(inline, buffers);
                scratch = made;
            }
            return made;
        } finally {
            lock.unlock();
        }
    }

    /** Whether only this thread uses {@link #scratch} during a post. */
    boolean mayUseScratch() {
        return confined || poller.onPollingThread();
    }

    /**
     * What a post on another thread uses; to be given back. If there is no memory for another one,
     * waits until one is given back, because control frames must not fail for lack of memory. At
     * least one always exists.
     */
    PostScratch borrow() {
        lock.lock();
        try {
            PostScratch one = spare;
            while (one == null) {
                try {
                    return new PostScratch(inline, mostBuffers);
                } catch (VerbenaException | OutOfMemoryError e) {
                    givenBack.awaitUninterruptibly();
                    one = spare;
                }
            }
            spare = one.next;
            return one;
        } finally {
            lock.unlock();
        }
    }

    void giveBack(PostScratch borrowed) {
        lock.lock();
        try {
            borrowed.next = spare;
            spare = borrowed;
            givenBack.signal();
        } finally {
            lock.unlock();
        }
    }

    /** Registered memory for large messages. */
    LargeMemory large() {
        return large;
    }

    /** At a tick, by the polling thread: grows or shrinks. */
    void tick(int now) {
        large.tick(now);
        receives.forEach(tickReceives);
        frames.forEach(tickFrames);
    }

    @Override
    public void close() {
        try (large) {
            receives.forEach(one -> Closing.quietly(poller, one));
            frames.forEach(FrameBuffers::close);
            inline.close();
        }
    }
}
