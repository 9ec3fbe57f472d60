package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.runtime.Teardown;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;

/** The part of a queue pair that its completions and windows use. */
public class Endpoint {
    private final WindowTable windows;
    private final RequestCounts sendCounts = new RequestCounts();
    private final RequestCounts receiveCounts = new RequestCounts();
    private volatile @Nullable Object attachment; // the caller's: here, a completion has it at once
    private volatile boolean failed; // two completion queues may both set it, which does no harm

    // Guarded by this. Frees windows and regions that were closed while requests named them; null
    // when the queue pair is destroyed.
    private @Nullable List<Consumer<Teardown>> remains = List.of();

    /**
     * Makes an endpoint.
     *
     * @param windows the windows that its peer may invalidate
     */
    Endpoint(WindowTable windows) {
        this.windows = windows;
    }

    /**
     * One of its requests has failed, and with it the connection. Called by the thread that polls,
     * without a lock.
     */
    void connectionFailed() {}

    /**
     * A request has failed or was flushed. Called with the completion queue's lock held, after its
     * completion was delivered or kept.
     */
    void requestFailed(OperationType type, long context, int status, int vendorError) {}

    /**
     * A message of the peer has invalidated a token of this side. Called with the completion
     * queue's lock held, after its completion was delivered or kept.
     *
     * @param token which one; it need not be a window's
     */
    void tokenInvalidated(int token) {}

    /**
     * Keeps something of a closed window until no request of this queue pair can name it any more.
     *
     * @param free frees it
     * @return false when that is so already
     */
    public final synchronized boolean keep(Consumer<Teardown> free) {
        if (remains != null && remains.isEmpty()) {
            remains = new ArrayList<>();
        }
        return remains != null && remains.add(free);
    }

    /** Frees everything that was kept, because no request can name it any more. */
    final void freeRemains(Teardown end) {
        List<Consumer<Teardown>> taken;
        synchronized (this) {
            taken = Objects.requireNonNull(remains, "destroyed twice");
            remains = null;
        }
        taken.forEach(free -> free.accept(end));
    }

    /** Attaches the caller's object for it. */
    public final void attach(@Nullable Object object) {
        attachment = object;
    }

    /** What was attached last. */
    public final @Nullable Object attachment() {
        return attachment;
    }

    public final RequestCounts sendCounts() {
        return sendCounts;
    }

    public final RequestCounts receiveCounts() {
        return receiveCounts;
    }

    final RequestCounts counts(OperationType type) {
        return type.isReceive() ? receiveCounts : sendCounts;
    }

    final WindowTable windows() {
        return windows;
    }

    /** Notes a failure; true the first time. */
    final boolean failsFirst() {
        boolean first = !failed;
        failed = true;
        return first;
    }
}
