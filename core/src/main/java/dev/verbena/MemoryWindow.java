package dev.verbena;

import dev.verbena.internal.queue.Window;
import dev.verbena.internal.verbs.DeviceControl;

import org.jspecify.annotations.Nullable;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Objects;

/**
 * A token for a part of a region that can be taken back at once: NDK's MW, verbs' {@code ibv_mw} of
 * type 2.
 *
 * <p>It is bound by {@link QueuePair#bind}, and invalidated by {@link QueuePair#invalidate} or by
 * the peer of that queue pair with {@link QueuePair#sendAndInvalidate}. Only that peer can use it:
 * NDK would allow any, verbs ties a type-2 window to its queue pair. Binding it again takes an
 * invalidate first.
 *
 * <p>Each bind changes the lower 8 bits of the token. After 255 binds the window is made anew,
 * which changes all of it, so that a token from long ago does not fit again; that bind takes
 * longer.
 *
 * <p>May be used from any thread; binds and invalidates follow the rules of their queue pair.
 */
public final class MemoryWindow extends NativeObject {
    private final ProtectionDomain domain;
    private final DeviceControl control;
    private final Window window;

    // Under this object's lock, which a bind and an invalidate hold: two queue pairs may be asked
    // to bind one window.
    private @Nullable MemoryRegion region;
    private long start; // of what it is bound to, or was bound to last
    private long bytes;
    private final Deque<Remains> remains = new ArrayDeque<>();
    // From the first window on that could not be freed: a bind has nothing to do with those that
    // this window had before, so the close reports them.
    private final Teardown end;

    /**
     * What a request that is under way may still need: freed when so many requests of the window
     * have ended.
     */
    record Remains(long window, @Nullable MemoryRegion region, int posted) {
        void free(DeviceControl control, Teardown end) {
            if (window != 0) {
                end.check(control.freeWindow(window), "ibv_dealloc_mw");
            }
            if (region != null) {
                end.run(region::letGo);
            }
        }
    }

    MemoryWindow(ProtectionDomain domain) {
        super(domain);
        this.domain = domain;
        this.window = new Window(domain, new Natives());
        this.end = new Teardown(this, domain.adapter());
        this.control = domain.adapter().control();
        try {
            if (!domain.adapter().attributes().windows()) {
                throw new VerbenaException(
                        Status.NOT_SUPPORTED,
                        "%s has no memory windows of type 2; on Soft-RoCE they need Linux 5.14 or later"
                                .formatted(domain.adapter().name()));
            }
            VerbenaException.check(renew(), "ibv_alloc_mw(type 2)", "");
        } catch (Throwable t) {
            abandon();
            throw t;
        }
        domain.windows().add(window);
    }

    private long renew() {
        long made = control.allocateWindow(domain.address());
        if (made > 0) {
            long before = domain.windows().renew(window, made, control.windowKey(made));
            if (before != 0) {
                leave(new Remains(before, null, window.posted()));
            }
        }
        return Math.min(made, 0);
    }

    /**
     * The token for the peer's reads and writes (NdkGetRemoteTokenFromMw): as of the last bind that
     * was accepted, at once. Before the first bind it is of no use.
     *
     * @return 32 opaque bits; as a Java int it may be negative
     */
    public int remoteToken() {
        return window.token();
    }

    /**
     * What the peer may use while the window is bound: the address, the token and the length of the
     * last bind that was accepted.
     *
     * @return that memory, for a message to the peer
     * @throws IllegalStateException before the first bind
     */
    public synchronized RemoteMemory remoteMemory() {
        if (region == null) {
            throw new IllegalStateException("This window was never bound, so no peer can use it");
        }
        return RemoteMemory.of(start, window.token(), bytes);
    }

    /**
     * Whether its token is good, as far as is known here: what a peer has invalidated is seen when
     * the receive's completion is polled.
     *
     * @return true between a bind and the invalidate
     */
    public boolean bound() {
        return window.bound();
    }

    /**
     * The domain it was made from.
     *
     * @return it may be closed
     */
    public ProtectionDomain domain() {
        return domain;
    }

    Window window() {
        return window;
    }

    /** The native windows, as a bind sees them. */
    private final class Natives implements Window.Natives {
        @Override
        public int prepare() {
            freeWhatIsOver();
            if (window.wornOut()) {
                int error = (int) renew();
                if (error < 0) {
                    return -error;
                }
            }
            control.setWindowKey(window.address(), window.token());
            return 0;
        }

        @Override
        public void freeFormer() {
            freeWhatIsOver();
        }
    }

    private synchronized void freeWhatIsOver() {
        while (!remains.isEmpty() && window.hasRetired(remains.peek().posted())) {
            remains.remove().free(control, end);
        }
    }

    /**
     * A bind was accepted: keeps the region, and lets the one before go when nobody needs it.
     *
     * @return whether it keeps the hold that the caller has on the region
     */
    boolean bind(MemoryRegion bound, long offset, long length) {
        start = bound.start() + offset;
        bytes = length;
        if (bound == region) {
            return false;
        }
        if (region != null) {
            leave(new Remains(0, region, window.posted() - 1)); // this bind came after it
        }
        region = bound;
        return true;
    }

    private void leave(Remains left) {
        if (window.hasRetired(left.posted())) {
            left.free(control, end);
        } else {
            remains.add(left);
        }
    }

    @Override
    synchronized void destroy() {
        domain.windows().remove(window);
        leave(new Remains(window.address(), region, window.posted()));
        freeWhatIsOver();
        // The provider may still read a window that a request names: its queue pair frees it then.
        if (!remains.isEmpty()) {
            QueuePair queuePair = (QueuePair) Objects.requireNonNull(window.queue()).queuePair();
            for (Remains left : remains) {
                if (!queuePair.keep(left)) {
                    left.free(control, end);
                }
            }
        }
        end.finish();
    }

    @Override
    String describe() {
        return "MemoryWindow with token 0x%08x".formatted(remoteToken());
    }
}
