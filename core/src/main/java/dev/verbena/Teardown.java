package dev.verbena;

import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

/**
 * Runs the steps of a destroy. Each step runs even if an earlier one failed, so that one failed
 * call does not leak everything else. {@link #finish} throws the first failure, with the others as
 * {@linkplain Throwable#getSuppressed suppressed} exceptions.
 *
 * <p>EIO from a device that is {@linkplain Adapter#gone gone} is not a failure: the kernel has
 * already destroyed the objects and unpinned registered memory. (Unless the environment variable
 * RDMAV_ALLOW_DISASSOC_DESTROY is set, rdma-core's providers pass on the kernel's EIO and leak
 * their own memory, a few hundred bytes for each object.) EBUSY in a later step is not a failure
 * then, either: rdma-core still counts the leaked object as a user of its parent.
 *
 * <p>For one thread at a time.
 */
final class Teardown {
    private final NativeObject object;
    private final @Nullable Adapter adapter;
    private boolean leaked; // by a provider, because the device is gone
    private @Nullable Throwable failure; // the first

    /** For a teardown that does not use {@link #check}. */
    Teardown(NativeObject object) {
        this(object, null);
    }

    /** For the teardown of an object of an adapter, which error messages name. */
    Teardown(NativeObject object, @Nullable Adapter adapter) {
        this.object = object;
        this.adapter = adapter;
    }

    /** Objects that use this one may have leaked in a teardown of theirs: EBUSY is no failure. */
    void dependantsLeaked() {
        leaked = true;
    }

    /** Runs a step and records what it throws. */
    void run(Runnable step) {
        try {
            step.run();
        } catch (RuntimeException | Error e) {
            failed(e);
        }
    }

    /** Releases a reference to an object, perhaps its last. */
    void release(NativeObject held) {
        try {
            held.release();
        } catch (RuntimeException | Error e) {
            failed(e);
        }
    }

    /**
     * Checks the result of a step, 0 or a negative errno, and records a failure.
     *
     * @return true if it succeeded, or if its errno is explained by the removal of the device
     */
    boolean check(long answer, String verb) {
        boolean succeeded = answer >= 0 || explainedByRemoval(answer);
        if (!succeeded) {
            failed(
                    VerbenaException.of(
                            verb,
                            answer,
                            "%s is closed, and everything else of it that could be freed was freed."
                                    .formatted(object.describe())));
        }
        return succeeded;
    }

    private boolean explainedByRemoval(long answer) {
        if (answer == -Errno.EIO && adapter != null && adapter.gone()) {
            leaked = true;
            return true;
        }
        return answer == -Errno.EBUSY && leaked;
    }

    /** Records what a step has thrown: an unchecked exception or an error. */
    @SuppressWarnings("ReferenceEquality") // the same object again, not an equal one
    void failed(Throwable thrown) {
        if (failure == null) {
            failure = thrown;
        } else if (failure != thrown) {
            failure.addSuppressed(thrown);
        }
    }

    /** Throws the recorded failures, if there are any. */
    void finish() {
        switch (failure) {
            case null -> {}
            case Error e -> throw e;
            case Throwable t ->
                    throw (RuntimeException) t; // only unchecked exceptions are recorded
        }
    }
}
