package dev.verbena.messaging;

import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.OperationType;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.CompletableFuture;

/**
 * What a {@link Poller} polls for: the attachment of a queue pair.
 *
 * <p>Whatever goes wrong with one, the others go on: an Error in its part of the polling thread
 * ends it alone, at the next tick if there is no memory to end it at once.
 */
abstract class Polled {
    /** Added to the poller's tasks when the channel has ended. Created ahead: that may not fail. */
    final Tasks.Task tearDown = new Tasks.Task(this::tearDown, true);

    private @Nullable Throwable trouble; // of the polling thread: it has to end because of that

    /**
     * Calls all callbacks, and frees everything. By the polling thread, after the end; again at the
     * next tick if it throws.
     */
    abstract void tearDown();

    /** A completion of its queue pair's. By the polling thread. */
    abstract void completed(Completions from, int index);

    /** Looks at deadlines. By the polling thread. */
    abstract void tick(int now);

    /** Whether its queue pair reports to that queue. */
    abstract boolean reportsTo(PollerQueue queue);

    /** Whether messages take their receives from there. */
    boolean takesFrom(RawReceives receives) {
        return false;
    }

    static boolean isReceive(OperationType type) {
        return switch (type) {
            case RECEIVE, RECEIVE_AND_INVALIDATE, RECEIVE_OF_WRITE -> true;
            default -> false;
        };
    }

    /** Ends it, if it has not ended before. From any thread; does not wait. */
    abstract void fail(Status status, String why, @Nullable Throwable cause);

    /** A completion of its queue pair's, whatever that throws. */
    final void dispatch(Completions from, int index) {
        try {
            completed(from, index);
        } catch (Throwable t) {
            endFor(t);
        }
    }

    /** Looks at deadlines, whatever that throws; and ends it if that had to wait. */
    final void tickSafely(int now) {
        try {
            if (trouble == null) {
                tick(now);
            } else {
                endFor(trouble);
            }
        } catch (Throwable t) {
            endFor(t);
        }
    }

    /** The program's code threw, which ends the channel and is logged. */
    final void failedInProgram(String code, Throwable t) {
        fail(Status.INTERNAL_ERROR, code + " threw", t);
        MessagingLog.error("%s: %s threw; the channel ends".formatted(this, code), t);
    }

    /** Closes a part of it. What fails is logged, and the rest goes on. */
    final void closeQuietly(@Nullable AutoCloseable part) {
        try {
            if (part != null) {
                part.close();
            }
        } catch (Throwable t) {
            MessagingLog.warn(this + " could not close all of its parts", t);
        }
    }

    private void endFor(Throwable t) {
        trouble = t;
        try {
            fail(Status.INTERNAL_ERROR, "an event of it could not be handled", t);
            trouble = null;
        } catch (Throwable again) {
            // The next tick tries again.
        }
    }

    /**
     * Disconnects the peer, which waits for what is outstanding, then does the rest of a close: at
     * once if the connector is closed, by the program or by an end for another reason, which was
     * noted before.
     */
    static void disconnect(Connector by, ConnectionOptions options, Runnable then) {
        CompletableFuture<Void> ended;
        try {
            ended = by.disconnectAsync(options);
        } catch (IllegalStateException closed) {
            then.run();
            return;
        }
        var _ = ended.whenComplete((nothing, thrown) -> then.run());
    }
}
