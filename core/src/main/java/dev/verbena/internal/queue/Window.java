package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

/**
 * The state of a memory window of type 2. A window is bound or free. It becomes free when an
 * invalidate is accepted, because later requests of that queue pair execute after it.
 *
 * <p>Guarded by the lock of its {@link WindowTable}.
 */
@SuppressWarnings("NonAtomicVolatileUpdate") // changed under the lock, only read without it
public abstract class Window {
    /**
     * A token's low 8 bits count binds; after 256 of them a stale token would fit again, so a
     * window is replaced before that.
     */
    static final int GENERATIONS = 255;

    // Read without the lock, too: by posts that check before they change something.
    private volatile long address;
    private volatile int token;
    private volatile int generation;
    private volatile boolean bound;
    private volatile @Nullable Endpoint queue; // on which it was bound, or invalidated, last
    private volatile int posted; // requests that name it: so many were accepted,
    private volatile int retired; // and so many of them have ended

    // Since the last bind was accepted: the peer has invalidated it, or a request has failed.
    private boolean revoked;

    private final Domain domain;

    /** Makes a window that has no native one yet. */
    protected Window(Domain domain) {
        this.domain = domain;
    }

    /**
     * Makes ready for a bind: allocates a new native window where that is needed. Returns 0, or a
     * positive errno.
     */
    protected abstract int prepare();

    /** Frees the native windows that it had before, and that no request names any more. */
    protected abstract void freeFormer();

    Domain domain() {
        return domain;
    }

    void renew(long address, int token) {
        this.address = address;
        this.token = token;
        this.generation = 0;
    }

    /** The address of the {@code ibv_mw}, or 0 when it has none. */
    public long address() {
        return address;
    }

    /** The token that the peer uses, as of the last bind that was accepted. */
    public int token() {
        return token;
    }

    public boolean bound() {
        return bound;
    }

    /** Whether its tokens are used up: the next bind needs a new native window. */
    public boolean wornOut() {
        return address == 0 || generation == GENERATIONS;
    }

    /** Whether no request that names it is outstanding. */
    public boolean idle() {
        return posted == retired;
    }

    /** How many requests that name it were accepted. */
    public int posted() {
        return posted;
    }

    public boolean hasRetired(int count) {
        return retired - count >= 0;
    }

    /** The queue pair on which requests that name it were posted last; null when there is none. */
    public @Nullable Endpoint queue() {
        return queue;
    }

    /** The token that the next bind gives it, as by {@code ibv_inc_rkey}: the next lower 8 bits. */
    public int nextToken() {
        return token & ~0xFF | token + 1 & 0xFF;
    }

    void bind(Endpoint queue) {
        token = nextToken();
        generation++;
        bound = true;
        revoked = false;
        this.queue = queue;
        posted++;
    }

    void invalidate() {
        bound = false;
        posted++;
    }

    /**
     * A bind, or an invalidate, was refused after all. What completions have said meanwhile stays.
     */
    void takeBack(boolean bind) {
        if (bind) {
            token = token & ~0xFF | token - 1 & 0xFF;
            generation -= revoked ? 0 : 1;
        }
        bound = !bind && !revoked;
        posted--;
    }

    /** It is free, even if an invalidate is taken back now. */
    void revoke() {
        bound = false;
        revoked = true;
    }

    /**
     * A bind or an invalidate failed. The device's state is unknown, so the next bind allocates a
     * new native window.
     */
    void spoil() {
        revoke();
        generation = GENERATIONS;
    }

    /** Its queue pair is gone, and the native window with it. */
    void lose() {
        bound = false;
        address = 0;
        queue = null;
        retired = posted; // nothing that names it can end any more
    }

    /** A queue pair is about to bind it: until then it is not another's to lose. */
    void claim(Endpoint queue) {
        this.queue = queue;
    }

    void retire() {
        retired++;
    }
}
