package dev.verbena;

import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.queue.Domain;
import dev.verbena.internal.queue.Endpoint;
import dev.verbena.internal.queue.NativeQueuePair;
import dev.verbena.internal.queue.Window;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Deque;
import java.util.Objects;
import java.util.concurrent.ConcurrentLinkedDeque;

/**
 * A remote key (NDK: token) for a part of a region that can be revoked at any time: NDK's MW,
 * verbs' {@code ibv_mw} of type 2.
 *
 * <p>{@link QueuePair#bind} binds it. {@link QueuePair#invalidate} invalidates it, and so can the
 * peer of that queue pair with {@link QueuePair#sendAndInvalidate}. Only that peer can use it: NDK
 * would allow any peer, verbs ties a type-2 window to its queue pair. It must be invalidated before
 * it is bound again.
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="lend"}
 *
 * <p>The peer's send-and-invalidate takes the token back:
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="returned"}
 *
 * <p>Each bind changes the lower 8 bits of the remote key. After 255 binds the native window is
 * replaced by a new one, which changes the whole key, so that an old key never becomes valid again;
 * that bind takes longer. So a window has no {@code nativeHandle()}, unlike other objects.
 *
 * <p>May be used from any thread; binds and invalidates follow the rules of their queue pair.
 */
public final class MemoryWindow extends NativeObject {
    private static final String FREE = "ibv_dealloc_mw";

    private final ProtectionDomain domain;
    private final DeviceControl control;
    private final Window window;

    // Guarded by this object's lock, which a bind and an invalidate hold, because two threads may
    // bind one window on two queue pairs.
    private @Nullable MemoryRegion region;
    private long start; // of the last bind
    private long bytes;
    private final Deque<PendingFree> pendingFrees =
            new ConcurrentLinkedDeque<>(); // an add without enough memory changes nothing
    // Failures to free former native windows. The close reports them, not the bind that tried to
    // free them.
    private final Teardown former;

    /**
     * A former native window or region that outstanding requests may still use. Freed when {@code
     * posted} requests of the window have retired.
     */
    record PendingFree(long window, @Nullable MemoryRegion region, int posted) {
        void free(DeviceControl control, Teardown end) {
            if (window != 0) {
                end.check(control.freeWindow(window), FREE);
            }
            if (region != null) {
                end.run(region, MemoryRegion::release);
            }
        }
    }

    MemoryWindow(ProtectionDomain domain) {
        super(domain);
        this.domain = domain;
        this.window = new Natives(domain.handle());
        this.former = teardown();
        this.control = domain.adapter().device().control();
        try {
            if (!domain.adapter().device().reported().invalidatableWindows()) {
                throw new VerbenaException(
                        Status.NOT_SUPPORTED,
                        "%s has no memory windows of type 2; on Soft-RoCE they need Linux 5.14 or later"
                                .formatted(domain.adapter().name()));
            }
            domain.windows().add(window); // first: there may be no memory for it
            Errno.check(renew(), "ibv_alloc_mw(type 2)", "");
        } catch (Throwable t) {
            domain.windows().remove(window);
            abandon();
            throw t;
        }
    }

    /** Allocates a native window. Returns 0, or a negative errno. */
    private long renew() {
        long made = control.allocateWindow(domain.address());
        if (made < 0) {
            return made;
        }
        try {
            int key = control.windowKey(made);
            synchronized (domain.windows()) { // else its queue pair may free the former one
                if (window.address() != 0) { // first: there may be no memory for it
                    pendingFrees.addFirst(new PendingFree(window.address(), null, window.posted()));
                }
                domain.windows().renew(window, made, key);
            }
        } catch (Throwable t) {
            former.check(control.freeWindow(made), FREE);
            throw t;
        }
        freeRetired();
        return 0;
    }

    /**
     * The remote key for the peer's reads and writes (NdkGetRemoteTokenFromMw), which changes as
     * soon as a bind is accepted. Not valid before the first bind.
     *
     * @return 32 opaque bits; as a Java int it may be negative
     */
    public int remoteToken() {
        return window.token();
    }

    /**
     * The memory that the peer may use while the window is bound: address, remote key and length of
     * the last accepted bind.
     *
     * @return the description, to be sent to the peer
     * @throws IllegalStateException before the first bind, and after {@link #releaseRegion}
     */
    public synchronized RemoteMemory remoteMemory() {
        ensureRegion();
        return new RemoteMemory(start, window.token(), bytes);
    }

    /**
     * Writes what {@link #remoteMemory} describes into a message, as {@link RemoteMemory#writeTo}
     * does, without allocating anything.
     *
     * @param message the message
     * @param offset the offset in the message
     * @throws IllegalStateException as {@link #remoteMemory}
     * @throws IndexOutOfBoundsException if the message is too short
     */
    public synchronized void writeTo(MemorySegment message, long offset) {
        ensureRegion();
        RemoteMemory.write(start, window.token(), bytes, message, offset);
    }

    private void ensureRegion() {
        if (region == null) {
            throw new IllegalStateException(
                    "This window was never bound, or has released its region: post a bind first");
        }
    }

    /**
     * Whether its remote key is valid, as far as this side knows. An invalidation by the peer is
     * noticed when the completion of the receive is polled.
     *
     * @return true from the bind until the invalidate
     */
    public boolean bound() {
        return window.bound();
    }

    /**
     * Releases the region of the last bind, if neither the peer nor an outstanding request can use
     * it any more. Without this call the window keeps the region, and a close of the region pends,
     * until the window is bound to another one or closed. NDK has no such function: there, too, the
     * close of a region pends on its windows.
     *
     * @return true if it holds no region now; false while it is bound, and while completions of its
     *     bind or invalidate were not polled: try again after the next poll
     */
    public synchronized boolean releaseRegion() {
        boolean idle = window.idle(); // first: another thread may poll meanwhile
        freeRetired();
        MemoryRegion last = region;
        if (last != null && !window.bound() && idle) {
            region = null;
            if (window.wornOut()) { // the device still has it bound if its invalidate failed
                freeNative();
            }
            last.release();
        }
        return region == null;
    }

    /** Frees the native window, unless its queue pair does; the next bind allocates a new one. */
    private void freeNative() {
        synchronized (domain.windows()) { // a queue pair also frees its windows under this lock
            long before = domain.windows().renew(window, 0, window.token());
            if (before != 0) {
                former.check(control.freeWindow(before), FREE);
            }
        }
    }

    /** The operations on native windows that a bind needs. */
    private final class Natives extends Window {
        Natives(Domain domain) {
            super(domain);
        }

        @Override
        protected int prepare() {
            freeRetired();
            if (wornOut()) {
                int error = (int) renew();
                if (error < 0) {
                    return -error;
                }
            }
            control.setWindowKey(address(), token());
            return 0;
        }

        @Override
        protected void freeFormer() {
            freeRetired();
        }
    }

    /**
     * Frees former windows and regions that no outstanding request uses. If the window has to be
     * replaced, an invalidate may have failed: the device still has it bound, perhaps to one of
     * these regions, so the window is freed first.
     */
    private synchronized void freeRetired() {
        while (!pendingFrees.isEmpty() && window.hasRetired(pendingFrees.peek().posted())) {
            if (pendingFrees.peek().window() == 0 && !window.bound() && window.wornOut()) {
                if (!window.idle()) {
                    return;
                }
                freeNative();
            }
            pendingFrees.remove().free(control, former);
        }
    }

    /** Posts a bind: see {@link QueuePair#bind}. */
    PostResult bind(
            NativeQueuePair by,
            long context,
            MemoryRegion to,
            long offset,
            long length,
            int flags) {
        to.acquire();
        boolean kept = false;
        boolean replaces = false;
        synchronized (this) {
            boolean wasIdle = window.idle();
            try {
                ensureOpen(); // the close waits for this lock
                MemoryRegion before = region;
                if (before != null && before != to) {
                    // This bind does not use the former region. But an earlier invalidate may still
                    // be outstanding, and may fail. That is known once this bind has completed.
                    // Noted before the post, as there may be no memory for it.
                    pendingFrees.add(new PendingFree(0, before, window.posted() + 1));
                    replaces = true;
                }
                PostResult answer =
                        by.windowRequests()
                                .bind(context, window, to.registered(), offset, length, flags);
                if (answer == PostResult.ACCEPTED) {
                    region = to;
                    start = to.start() + offset;
                    bytes = length;
                    kept = before != to;
                    record(by, window.token(), true);
                }
                return answer;
            } finally {
                if (!kept) {
                    to.release();
                }
                if (replaces && (wasIdle || !kept)) {
                    PendingFree noted = pendingFrees.removeLast();
                    if (kept) { // no earlier request is outstanding
                        noted.free(control, former);
                    }
                }
            }
        }
    }

    /** Into the Flight Recorder, which must not cost a request that was posted. */
    private void record(NativeQueuePair by, int token, boolean bound) {
        try {
            if (bound) {
                FlightRecording.bound(by.deviceName(), by.number(), token, start, bytes);
            } else {
                FlightRecording.invalidated(by.deviceName(), by.number(), token, false);
            }
        } catch (Error e) {
            // The completion tells of the request.
        }
    }

    /** Posts an invalidate: see {@link QueuePair#invalidate}. */
    synchronized PostResult invalidate(NativeQueuePair by, long context, int flags) {
        ensureOpen(); // the close waits for this lock
        int token = window.token();
        PostResult answer = by.windowRequests().invalidate(context, window, flags);
        if (answer == PostResult.ACCEPTED) {
            record(by, token, false);
        }
        return answer;
    }

    @Override
    synchronized void destroy(Teardown end) {
        // Its queue pair may be closing, which frees the native windows that are bound on it before
        // it is destroyed: it finds this one, or waits until this one is freed or kept.
        synchronized (domain.windows()) {
            domain.windows().remove(window);
            // A native window goes before the regions that it may be bound to.
            boolean ignored = forClose(this, MemoryWindow::retire);
            domain.windows().renew(window, 0, window.token());
            freeRetired();
            // The provider may still read a window that an outstanding request names. Then its
            // queue pair frees it.
            while (!pendingFrees.isEmpty()) {
                boolean kept = forClose(this, MemoryWindow::keepFirst);
                PendingFree first = pendingFrees.remove();
                if (!kept) {
                    first.free(control, end);
                }
            }
        }
        region = null; // a late call finds nothing that it could free again
        end.run(former, Teardown::finish);
    }

    private boolean retire() {
        return pendingFrees.offerFirst(new PendingFree(window.address(), region, window.posted()));
    }

    private boolean keepFirst() {
        PendingFree first = pendingFrees.element();
        Endpoint queuePair = Objects.requireNonNull(window.queue());
        return queuePair.keep(end -> first.free(control, end));
    }

    @Override
    String describe() {
        return "MemoryWindow with token " + Text.key(remoteToken());
    }
}
