package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.util.IntMap;

import java.util.ArrayList;
import java.util.List;

/**
 * The windows of one protection domain, by their tokens: which one a peer's send-with-invalidate
 * has invalidated, and which ones end with their queue pair.
 */
public final class WindowTable {
    // Not this object, which others hold while they allocate and free native windows: polls would
    // wait for that.
    private final Object lock = new Object();
    private final IntMap<Window> byToken = new IntMap<>(4);
    private final List<Window> all = new ArrayList<>();

    public void add(Window window) {
        synchronized (lock) {
            byToken.ensureCapacity(all.size() + 1); // so that no bind needs memory
            all.add(window);
        }
    }

    /** Forgets a window that is being closed. */
    public void remove(Window window) {
        synchronized (lock) {
            forget(window);
            window.revoke();
            all.remove(window);
        }
    }

    /**
     * A queue pair is about to bind a window: the end of another that bound it before does not take
     * it along any more.
     *
     * @param window a free window without requests outstanding on another queue pair
     */
    public void claim(Window window, Endpoint queue) {
        synchronized (lock) {
            window.claim(queue);
        }
    }

    /**
     * Gives a window its native window.
     *
     * @param window a new one, or a claimed one that is free
     * @return the native window it had, to be freed by the caller when no request names it, or 0
     */
    public long renew(Window window, long address, int token) {
        synchronized (lock) {
            forget(window);
            long before = window.address();
            window.renew(address, token);
            return before;
        }
    }

    /** A bind was accepted: the window has its next token, and it may be used at once. */
    void bind(Window window, Endpoint queue) {
        synchronized (lock) {
            forget(window);
            window.bind(queue);
            byToken.put(window.token(), window);
        }
    }

    /**
     * An invalidate was accepted: what follows it on its queue pair finds the window free. Its
     * token is known until the next bind, in case the provider refuses the invalidate after all.
     */
    void invalidate(Window window) {
        synchronized (lock) {
            window.invalidate();
        }
    }

    /**
     * The provider refused a bind or an invalidate after all: nothing has changed for the device.
     */
    void takeBack(Window window, OperationType type) {
        synchronized (lock) {
            boolean bind = type == OperationType.BIND;
            if (bind) {
                forget(window);
            }
            window.takeBack(bind);
        }
    }

    /**
     * A bind or an invalidate has ended.
     *
     * @param failed whether it failed: nobody knows then what the device has, and the next bind
     *     makes the window anew
     */
    void retire(Window window, boolean failed) {
        synchronized (lock) {
            if (failed) {
                forget(window);
                window.spoil();
            }
            window.retire();
        }
    }

    /**
     * A receive says that the peer has invalidated a remote key. It may be any: NDK lets a peer
     * invalidate what it likes, a window of this domain or a token that nobody knows.
     */
    void invalidated(int token) {
        synchronized (lock) {
            Window window = byToken.get(token);
            if (window != null) {
                forget(window);
                window.revoke();
            }
        }
    }

    /**
     * A window whose queue pair goes away.
     *
     * @param window which one; it has no native window any more
     */
    public record Lost(Window window, long address) {}

    /**
     * A queue pair goes away, and windows bound on it are of no use to any other.
     *
     * @return its windows; the caller frees the native ones, and {@linkplain Window#freeFormer
     *     those before them}, before the queue pair
     */
    @SuppressWarnings("ReferenceEquality") // the queue pair that is meant, or another
    public List<Lost> lost(Endpoint queue) {
        synchronized (lock) {
            List<Lost> lost = new ArrayList<>(0); // most queue pairs have bound none
            for (Window window : all) {
                if (window.queue() == queue && window.address() != 0) {
                    lost.add(new Lost(window, window.address()));
                }
            }
            for (Lost one : lost) {
                forget(one.window());
                one.window().lose();
            }
            return lost;
        }
    }

    /** Forgets the token of a window, unless it is another's by now. */
    @SuppressWarnings("ReferenceEquality") // the window that is meant, or another
    private void forget(Window window) {
        if (byToken.get(window.token()) == window) {
            var _ = byToken.remove(window.token());
        }
    }
}
