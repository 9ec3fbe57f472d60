package dev.verbena;

import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

/**
 * The steps of a destroy. Each is tried whatever became of those before it, so that one call that
 * fails does not leave behind what could be freed. {@link #finish} reports what failed together:
 * the first failure, with the others {@linkplain Throwable#getSuppressed suppressed} in it.
 *
 * <p>EIO from a device that is {@linkplain Adapter#gone gone} is no failure. Its kernel objects
 * went with it, and memory that was registered is not pinned any more. (Unless the environment has
 * RDMAV_ALLOW_DISASSOC_DESTROY, the providers of rdma-core hand the kernel's EIO through and keep
 * their own memory, a few hundred bytes for each object.) Nor is EBUSY behind that: rdma-core
 * counts what it has kept as a user of what comes next.
 *
 * <p>For one thread at a time.
 */
final class Teardown {
    private final NativeObject object;
    private final @Nullable Adapter adapter;
    private boolean kept; // by a provider whose device is gone
    private @Nullable Throwable failure; // the first

    /** For steps that only {@link #run}. */
    Teardown(NativeObject object) {
        this(object, null);
    }

    /** For the end of an object of an adapter; messages name it. */
    Teardown(NativeObject object, @Nullable Adapter adapter) {
        this.object = object;
        this.adapter = adapter;
    }

    /** Takes a step; what it throws is kept. */
    void run(Runnable step) {
        try {
            step.run();
        } catch (RuntimeException | Error e) {
            add(e);
        }
    }

    /**
     * Takes the answer of a step: 0, or a negative errno.
     *
     * @return whether it is no failure
     */
    boolean check(long answer, String verb) {
        boolean fine = answer >= 0 || wentWithTheDevice(answer);
        if (!fine) {
            add(
                    VerbenaException.of(
                            verb,
                            answer,
                            "%s is closed, and all else of it that could be freed is freed."
                                    .formatted(object.describe())));
        }
        return fine;
    }

    private boolean wentWithTheDevice(long answer) {
        if (answer == -Errno.EIO && adapter != null && adapter.gone()) {
            kept = true;
            return true;
        }
        return answer == -Errno.EBUSY && kept;
    }

    @SuppressWarnings("ReferenceEquality") // the same object again, not an equal one
    private void add(Throwable thrown) {
        if (failure == null) {
            failure = thrown;
        } else if (failure != thrown) {
            failure.addSuppressed(thrown);
        }
    }

    /** Throws what was kept, if anything was. */
    void finish() {
        switch (failure) {
            case null -> {}
            case Error e -> throw e;
            case Throwable t -> throw (RuntimeException) t; // run keeps no others
        }
    }
}
