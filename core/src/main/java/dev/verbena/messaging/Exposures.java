package dev.verbena.messaging;

import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Closing;
import dev.verbena.internal.util.IntMap;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Objects;
import java.util.concurrent.locks.Condition;

/**
 * The memory that a {@link MessageChannel} exposes to its peer: one memory window for each {@link
 * Exposure}, kept for the next one. Guarded by the lock of the channel.
 *
 * <p>A key is invalidated by the peer or here, never by both: see {@link Exposure}. A window that
 * the peer has taken back after it was asked to give it back is used again when the peer's answer
 * has come: so the peer never has more answers to give than this side has windows.
 */
final class Exposures {
    /** An exposure's token, the attachment, was invalidated here. */
    static final SendCallback INVALIDATED =
            (channel, exposure, status) -> {
                if (status.isSuccess() && exposure instanceof Exposure invalidated) {
                    channel.exposures.invalidated(invalidated);
                }
            };

    /** The windows that there are, and what they are used for. */
    private static final class Windows {
        static final Windows NONE = new Windows(); // of all channels that have none; never written

        final ArrayList<MemoryWindow> all = new ArrayList<>(0);
        final ArrayList<MemoryWindow> free = new ArrayList<>(0);
        final ArrayList<MemoryWindow> holding = new ArrayList<>(0); // regions, for no exposure
        final IntMap<Exposure> exposed = new IntMap<>(0); // those that have not ended
        final IntMap<MemoryWindow> unanswered = new IntMap<>(0); // asked for, and taken back
    }

    private static final int TICKS_PER_MIB = 10; // to write to an offer
    private static final OpFlags WITH_NEXT = OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER);

    private final MessageChannel channel;
    private final ProtectionDomain domain;
    private final QueuePair pair;
    private int most; // without the offers
    private final int mostOffers;
    private final int timeoutTicks;
    private @Nullable Condition changed; // null until a thread waits
    private Windows windows = Windows.NONE;
    private @Nullable Exposure reusable; // the first of those that are linked
    private int offers; // of those that have not ended
    private int bindsPosted; // counts, which wrap around
    private int bindsEnded; // of those, as far as known

    Exposures(MessageChannel channel) {
        this.channel = channel;
        this.domain = channel.poller.domain();
        this.pair = channel.pair;
        this.most = channel.options.exposures;
        this.mostOffers = channel.options.offers();
        this.timeoutTicks = PollerClock.ticks(channel.options.timeout);
    }

    /** The peer is known, and how many exposures it can keep track of. */
    void open(int ofPeer) {
        most = Math.min(most, ofPeer);
    }

    /**
     * How many requests it has outstanding at most: a bind of each window, and an invalidate of
     * each that is no offer.
     */
    static int requests(int most, int mostOffers) {
        return 2 * most + mostOffers;
    }

    /** How many there may be at a time, without the offers. */
    int most() {
        return most;
    }

    // ---- exposing

    /** Exposes memory if there is a free window. The caller holds the lock. */
    @Nullable Exposure begin(
            MemoryRegion region,
            long offset,
            long length,
            OpFlags rights,
            Duration within,
            @Nullable ExposureCallback callback,
            @Nullable Object attachment) {
        if (!channel.takesRequests()
                || !channel.outbox.established
                || windows.exposed.size() - offers + windows.unanswered.size() >= most) {
            return null;
        }
        Exposure own =
                callback == null
                        ? new Exposure(
                                channel,
                                new RemoteMemory(
                                        region.remoteMemory().address() + offset,
                                        0,
                                        Math.max(0, length)))
                        : null;
        MemoryWindow window = bind(region, offset, length, rights); // last: it cannot be undone
        if (window == null) {
            return null;
        }
        Exposure exposure = own == null ? takeReusable() : own;
        exposure.begin(window, callback, attachment, PollerClock.ticks(within));
        boolean isNew = windows.exposed.get(exposure.token) == null;
        if (!isNew || !channel.outbox.notes.add(Notes.EXPOSED, exposure.token)) {
            throw new AssertionError("There is room for one token of each window");
        }
        windows.exposed.put(exposure.token, exposure);
        return exposure;
    }

    /**
     * Exposes memory that the peer is to write a large message to; null when there is no free
     * window. The peer has to be told by the caller. Under the lock.
     */
    @Nullable Exposure offer(Message message, MemoryRegion region, long length) {
        MemoryWindow window =
                offers == mostOffers ? null : bind(region, 0, length, OpFlags.ALLOW_REMOTE_WRITE);
        if (window == null) {
            return null;
        }
        Exposure exposure = takeReusable();
        exposure.begin(window, null, null, 2 * timeoutTicks + (int) (length * TICKS_PER_MIB >> 20));
        exposure.offeredFor = message;
        offers++;
        windows.exposed.put(exposure.token, exposure);
        return exposure;
    }

    /** After a bind: an exposure that is used again after its end. */
    private Exposure takeReusable() {
        Exposure exposure = Objects.requireNonNull(reusable);
        reusable = exposure.next;
        exposure.next = null;
        return exposure;
    }

    private void reuse(Exposure exposure) {
        exposure.next = reusable;
        reusable = exposure;
    }

    private @Nullable MemoryWindow bind(
            MemoryRegion region, long offset, long length, OpFlags rights) {
        if (bindsPosted - bindsEnded == most + mostOffers) {
            return null; // there may be no slot for one more in the send queue
        }
        if (reusable == null) {
            reusable = new Exposure(channel, null);
        }
        MemoryWindow window = windows.free.isEmpty() ? newWindow() : windows.free.removeLast();
        PostResult result = null; // if it throws
        try {
            result = pair.bind(0, window, region, offset, length, rights.and(WITH_NEXT));
        } finally {
            if (result != PostResult.ACCEPTED) {
                windows.free.add(window);
            }
        }
        if (result == PostResult.NOT_CONNECTED) {
            channel.reason.refused("a bind", result.status());
            return null;
        }
        result.orThrow();
        bindsPosted++;
        return window;
    }

    /** Makes a window, and room for it wherever it may be: from then on, that needs no memory. */
    @SuppressWarnings("ReferenceEquality") // it is about that object
    private MemoryWindow newWindow() {
        windows = windows == Windows.NONE ? new Windows() : windows;
        int count = windows.all.size() + 1;
        windows.all.ensureCapacity(count);
        windows.free.ensureCapacity(count);
        windows.holding.ensureCapacity(count);
        windows.exposed.ensureCapacity(count);
        windows.unanswered.ensureCapacity(count);
        MemoryWindow window = domain.createMemoryWindow();
        windows.all.add(window);
        return window;
    }

    // ---- revoking

    void revoke(Exposure exposure) {
        try (var _ = channel.lock.hold()) {
            revoke(exposure, Status.CANCELLED);
        }
    }

    private void revoke(Exposure exposure, Status why) {
        if (exposure.state != Exposure.State.EXPOSED || !channel.isOpen()) {
            return;
        }
        exposure.why = why;
        exposure.timeOut(timeoutTicks);
        if (channel.outbox.notes.withdrawExposed(exposure.token)) {
            invalidate(exposure); // the peer has not got the key
        } else {
            exposure.state = Exposure.State.ASKED_BACK;
            if (!channel.outbox.notes.add(Notes.ASKED_BACK, exposure.token)) {
                throw new AssertionError("There is room for two notes of each window");
            }
            channel.outbox.reportIfDue();
        }
    }

    private void invalidate(Exposure exposure) {
        MemoryWindow window = exposure.window;
        if (window == null) {
            throw new AssertionError("It has not ended");
        }
        exposure.state = Exposure.State.INVALIDATING;
        channel.outbox.invalidate(exposure, window);
    }

    /** Revokes it, and waits for the end. */
    void close(Exposure exposure) {
        Poller poller = channel.poller;
        boolean polls = poller.onPollingThread();
        boolean waits = !poller.isDispatchingHere();
        int use;
        try (var _ = channel.lock.hold()) {
            revoke(exposure, Status.CANCELLED);
            use = exposure.use;
            while (waits && !polls && exposure.isIn(use)) {
                changed = changed == null ? channel.lock.newCondition() : changed;
                changed.awaitUninterruptibly(); // the memory is not the caller's before
            }
        }
        while (waits && polls && exposure.isIn(use)) {
            int ignored = poller.await(Duration.ofNanos(PollerClock.TICK_NANOSECONDS));
        }
    }

    // ---- by the polling thread

    /**
     * A frame of the peer's has invalidated a key. The caller then calls {@link OwnMemory#serve}.
     *
     * @param written the large message that is to be written first
     * @return null when the key was not exposed, or not for a frame of this kind
     */
    @Nullable Exposure takenBack(int token, byte kind, @Nullable Message written) {
        Exposure exposure = windows.exposed.get(token);
        if (exposure == null
                || exposure.state == Exposure.State.INVALIDATING
                || kind != (exposure.offeredFor == null ? Frame.MESSAGE : Frame.WRITTEN)
                || (kind == Frame.WRITTEN && exposure.offeredFor != written)) {
            return null; // it was not the peer's to take
        }
        var _ = windows.exposed.remove(token);
        MemoryWindow window = end(exposure);
        if (exposure.state == Exposure.State.ASKED_BACK) {
            windows.unanswered.put(token, window); // as many as there are windows
        } else {
            windows.free.add(window);
        }
        exposure.state = Exposure.State.ENDED;
        if (exposure.offeredFor != null) {
            exposure.offeredFor = null;
            offers--;
            reuse(exposure);
        }
        return exposure;
    }

    /**
     * The peer has answered that it will not use a key any more. The caller then calls {@link
     * OwnMemory#serve}.
     *
     * @return false when it was not asked
     */
    boolean givenBack(int token) {
        Exposure exposure = windows.exposed.get(token);
        if (exposure != null && exposure.state == Exposure.State.ASKED_BACK) {
            if (channel.isOpen()) {
                invalidate(exposure);
            } // else its end is that of the channel
            return true;
        }
        MemoryWindow window = windows.unanswered.remove(token);
        if (window == null) {
            return false;
        }
        windows.free.add(window);
        return true;
    }

    /** A local invalidate has ended well. Without the lock. */
    private void invalidated(Exposure exposure) {
        try (var _ = channel.lock.hold()) {
            var _ = windows.exposed.remove(exposure.token);
            windows.free.add(end(exposure));
            exposure.state = Exposure.State.ENDED;
            channel.ownMemory.serve();
        }
        report(exposure, exposure.why, null);
    }

    /** A peer of another connection has invalidated a key that was to be invalidated here. */
    void invalidatedByOther(Exposure exposure) {
        if (channel.isOpen()) { // else its end is that of the channel
            invalidated(exposure);
        }
    }

    private MemoryWindow end(Exposure exposure) {
        MemoryWindow window = exposure.window;
        if (window == null) {
            throw new AssertionError("It has not ended");
        }
        exposure.window = null;
        if (!window.releaseRegion() && !windows.holding.contains(window)) {
            windows.holding.add(window);
        }
        channel.lock.signalAll(changed);
        return window;
    }

    /** Reports an end. Without the lock. */
    void report(Exposure exposure, Status status, @Nullable Message message) {
        ExposureCallback callback = exposure.callback;
        if (callback == null) {
            exposure.complete(status, message);
            return;
        }
        try {
            callback.ended(exposure, status, message);
        } catch (Throwable t) {
            channel.failedInProgram("a callback", t);
        }
        try (var _ = channel.lock.hold()) {
            exposure.callback = null;
            exposure.attachment = null;
            reuse(exposure);
        }
    }

    /** How many binds were posted so far. */
    int bindsPosted() {
        return bindsPosted;
    }

    /** A request has ended that was posted when so many binds had been. */
    void bindsEnded(int count) {
        if (count - bindsEnded > 0) {
            bindsEnded = count;
            channel.ownMemory.serve();
        }
        for (int i = windows.holding.size() - 1; i >= 0; i--) {
            MemoryWindow window = windows.holding.get(i);
            if (window.bound() || window.releaseRegion()) {
                var _ = windows.holding.remove(i);
            }
        }
    }

    /**
     * Looks at deadlines.
     *
     * @return what the peer has not done in time, or null
     */
    @Nullable String late(int now) {
        String late = null;
        for (int i = 0; i < windows.exposed.places() && inUse(); i++) {
            Exposure exposure = windows.exposed.at(i);
            if (exposure != null && exposure.isLate(now)) {
                if (exposure.offeredFor != null) {
                    late =
                            "the peer did not write to memory that it was offered for a large message";
                } else if (exposure.state == Exposure.State.EXPOSED) {
                    revoke(exposure, Status.IO_TIMEOUT);
                } else if (exposure.state == Exposure.State.ASKED_BACK) {
                    // an invalidate has a deadline of its own
                    late = "the peer did not give back memory that was asked back";
                }
            }
        }
        return late;
    }

    // ---- the end

    boolean inUse() {
        return windows.exposed.size() > 0;
    }

    /** Whether something ends only when the queue pair is destroyed, which may be later. */
    boolean awaitDestroy() {
        return inUse() && !isPairDestroyed();
    }

    private boolean isPairDestroyed() {
        try {
            channel.pair.awaitClosed(Duration.ZERO);
            return true;
        } catch (VerbenaException e) {
            // Otherwise the destroy has failed; or the thread was interrupted and cannot know.
            return e.status() != Status.IO_TIMEOUT && e.status() != Status.CANCELLED;
        }
    }

    /**
     * The queue pair is destroyed, and with it what was exposed. Without the lock. What is left
     * when it throws, for lack of memory, is done when it is called again.
     */
    void endAll(Status status) {
        while (!windows.all.isEmpty()) {
            Closing.quietly(channel, windows.all.getLast());
            windows.all.removeLast();
        }
        Exposure exposure = endAny();
        while (exposure != null) {
            report(exposure, status, null);
            forget(exposure);
            exposure = endAny();
        }
    }

    /** One that was exposed and has ended now; null when there is none. */
    private @Nullable Exposure endAny() {
        try (var _ = channel.lock.hold()) {
            Exposure exposure = windows.exposed.any();
            if (exposure != null) {
                exposure.state = Exposure.State.ENDED;
                channel.lock.signalAll(changed);
            }
            return exposure;
        }
    }

    private void forget(Exposure exposure) {
        try (var _ = channel.lock.hold()) {
            var _ = windows.exposed.remove(exposure.token);
        }
    }
}
