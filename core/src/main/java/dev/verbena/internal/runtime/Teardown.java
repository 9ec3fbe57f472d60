package dev.verbena.internal.runtime;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Runs the steps of a destroy. Each step runs even if an earlier one failed, so that one failed
 * call does not leak everything else. {@link #finish} throws the first failure, with the others as
 * {@linkplain Throwable#getSuppressed suppressed} exceptions.
 *
 * <p>EIO from a device that is gone is not a failure: the kernel has already destroyed the objects
 * and unpinned registered memory. (Unless the environment variable RDMAV_ALLOW_DISASSOC_DESTROY is
 * set, rdma-core's providers pass on the kernel's EIO and leak their own memory, a few hundred
 * bytes for each object.) EBUSY in a later step is not a failure then, either: rdma-core still
 * counts the leaked object as a user of its parent.
 *
 * <p>For one thread at a time.
 */
public final class Teardown {
    private final Supplier<String> object;
    private final BooleanSupplier gone;
    private boolean leaked; // by a provider, because the device is gone
    private @Nullable Throwable failure; // the first

    /**
     * Begins a teardown.
     *
     * @param object describes what is destroyed, for messages
     * @param gone whether its device is gone
     */
    public Teardown(Supplier<String> object, BooleanSupplier gone) {
        this.object = object;
        this.gone = gone;
    }

    /** Objects that use this one may have leaked in a teardown of theirs: EBUSY is no failure. */
    public void dependantsLeaked() {
        leaked = true;
    }

    /**
     * Runs a step of an object and records what it throws. Steps must capture nothing, so that
     * creating them needs no memory.
     */
    public <T> void run(T of, BiConsumer<? super T, Teardown> step) {
        try {
            step.accept(of, this);
        } catch (RuntimeException | Error e) {
            failed(e);
        }
    }

    /** The same, for a step that adds no further steps. */
    public <T> void run(T of, Consumer<? super T> step) {
        try {
            step.accept(of);
        } catch (RuntimeException | Error e) {
            failed(e);
        }
    }

    /**
     * Checks the result of a step, 0 or a negative errno, and records a failure.
     *
     * @return true if it succeeded, or if its errno is explained by the removal of the device
     */
    @CanIgnoreReturnValue
    public boolean check(long answer, String verb) {
        boolean succeeded = answer >= 0 || explainedByRemoval(answer);
        if (!succeeded) {
            failed(
                    new VerbenaException(
                            verb,
                            (int) -answer,
                            "%s is closed, and everything else of it that could be freed was freed."
                                    .formatted(object.get())));
        }
        return succeeded;
    }

    private boolean explainedByRemoval(long answer) {
        if (answer == -Errno.EIO && gone.getAsBoolean()) {
            leaked = true;
            return true;
        }
        return answer == -Errno.EBUSY && leaked;
    }

    /** Records what a step has thrown: an unchecked exception or an error. */
    @SuppressWarnings("ReferenceEquality") // the same object again, not an equal one
    public void failed(Throwable thrown) {
        if (failure == null) {
            failure = thrown;
        } else if (failure != thrown) {
            failure.addSuppressed(thrown);
        }
    }

    public @Nullable Throwable failure() {
        return failure;
    }

    /** Throws the recorded failures, if there are any. */
    public void finish() {
        // No switch over types: linking the first one in a process takes 10 ms.
        if (failure instanceof Error error) {
            throw error;
        } else if (failure != null) {
            throw (RuntimeException) failure; // only unchecked exceptions are recorded
        }
    }
}
