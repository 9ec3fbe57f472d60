package dev.verbena;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The life of every NDK object: closed once by its owner, destroyed when nothing made from it is
 * left.
 *
 * <p>NDK lets the close of an object pend on its dependants, where verbs answers EBUSY. A count
 * does that: one for the owner, one for each dependant; whoever brings it to zero runs the native
 * destroy.
 */
abstract class NativeObject implements AutoCloseable {
    private final NativeObject[] parents;
    private final AtomicInteger holders = new AtomicInteger(1);
    private final AtomicBoolean closed = new AtomicBoolean();

    /** Holds the parents; a subclass that cannot be made after all calls {@link #abandon}. */
    NativeObject(NativeObject... parents) {
        this.parents = parents;
        int held = 0;
        try {
            for (NativeObject parent : parents) {
                parent.hold();
                held++;
            }
        } finally {
            if (held < parents.length) {
                letGo(held);
            }
        }
    }

    /** Frees the native object; runs once, after the last dependant's. */
    abstract void destroy();

    /** What has to be stopped at the owner's close already, before dependants are gone. */
    void shut() {}

    /** Undoes the constructor where the native object could not be made. */
    final void abandon() {
        closed.set(true);
        letGo(parents.length);
    }

    /** Lets the first parents go. */
    private void letGo(int count) {
        Teardown end = new Teardown(this);
        for (int i = 0; i < count; i++) {
            end.run(parents[i]::letGo);
        }
        end.finish();
    }

    final void ensureOpen() {
        if (closed.get()) {
            throw new IllegalStateException(this + " is closed");
        }
    }

    /** Keeps the native object alive until {@link #letGo}, whoever closes what meanwhile. */
    final void hold() {
        ensureOpen();
        int seen;
        do {
            seen = holders.get();
            if (seen == 0) {
                throw new IllegalStateException(this + " is closed");
            }
        } while (!holders.compareAndSet(seen, seen + 1));
    }

    /**
     * Keeps the native object alive beyond the close, until {@link #letGo}: for {@link #shut},
     * which runs while the owner's own hold is still there.
     */
    final void pend() {
        holders.incrementAndGet();
    }

    final void letGo() {
        if (holders.decrementAndGet() == 0) {
            Teardown end = new Teardown(this);
            end.run(this::destroy);
            end.run(() -> letGo(parents.length));
            end.finish();
        }
    }

    /**
     * Closes this object; again does nothing. What was made from it stays usable, and the native
     * object is destroyed with the last of that.
     *
     * <p>Every step is tried, also when one before it failed.
     *
     * @throws VerbenaException when the native destroy fails; the object is closed all the same. It
     *     names the first step that failed, and has the others {@linkplain Throwable#getSuppressed
     *     suppressed}: of this object, and of those whose close pended on it
     */
    @Override
    public final void close() {
        if (closed.compareAndSet(false, true)) {
            Teardown end = new Teardown(this);
            end.run(this::shut);
            end.run(this::letGo);
            end.finish();
        }
    }
}
