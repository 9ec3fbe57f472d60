package dev.verbena;

import dev.verbena.internal.queue.CompletionEvents;
import dev.verbena.internal.runtime.CallbackLoop;
import dev.verbena.internal.runtime.Uncaught;
import dev.verbena.internal.verbs.CallFailure;

import java.util.function.Consumer;

/** Waits for completions and calls the callback, on the thread of a queue that has one. */
final class CompletionCallback implements CallbackLoop.Work {
    private final CompletionQueue queue;
    private final CompletionEvents events;
    private final Consumer<Status> callback;

    CompletionCallback(CompletionQueue queue, CompletionEvents events, Consumer<Status> callback) {
        this.queue = queue;
        this.events = events;
        this.callback = callback;
    }

    @Override
    public void waitAndCall() {
        int fired;
        try {
            fired = events.waitOnce(-1);
        } catch (CallFailure e) {
            throw queue.waitFailed(e);
        }
        if (fired != CompletionEvents.NOTHING && !events.closed()) {
            call(CompletionQueue.status(fired));
        }
    }

    /**
     * Calls back. A callback that is still polling or arming its queue when another thread closes
     * it has made no mistake: the exception that ends it is not reported.
     */
    private void call(Status status) {
        try {
            callback.accept(status);
        } catch (ClosedException e) {
            if (!queue.isClosed()) {
                Uncaught.report(e);
            }
        } catch (Throwable t) {
            Uncaught.report(t);
        }
    }

    @Override
    public boolean stuck() {
        return events.failedToTake();
    }

    @Override
    public boolean closed() {
        return events.closed();
    }

    @Override
    public void ended() {
        queue.release();
    }
}
