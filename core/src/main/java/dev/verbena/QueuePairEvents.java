package dev.verbena;

import dev.verbena.internal.events.FlightRecording.DisconnectEvent;
import dev.verbena.internal.events.FlightRecording.FailedCompletionEvent;
import dev.verbena.internal.events.FlightRecording.RefusedPostEvent;
import dev.verbena.internal.events.FlightRecording.WindowBoundEvent;
import dev.verbena.internal.events.FlightRecording.WindowInvalidatedEvent;
import dev.verbena.internal.queue.CompletionStatus;
import dev.verbena.internal.queue.SynthesizedStatus;

/**
 * What happens to queue pairs, for the JDK's Flight Recorder. Only after {@link
 * dev.verbena.internal.events.FlightRecording#on} returned true.
 */
final class QueuePairEvents {
    private QueuePairEvents() {}

    /** The reason of a connection by address that this side has ended. */
    static final String LOCAL = "LOCAL";

    /** The reason of a connection by address that a failed request has ended. */
    static final String REQUEST_FAILED = "REQUEST_FAILED";

    static void disconnected(NativeQueuePair pair, String reason) {
        DisconnectEvent.record(pair.adapter().name(), pair.number(), pair.peer(), reason);
    }

    static void refused(NativeQueuePair pair, String operation, PostResult result) {
        if (RefusedPostEvent.wanted()) {
            RefusedPostEvent.record(
                    pair.adapter().name(),
                    pair.number(),
                    operation,
                    result.status().name(),
                    result.reason());
        }
    }

    static void failed(
            NativeQueuePair pair, OperationType type, long context, int status, int vendorError) {
        if (status != SynthesizedStatus.FLUSHED) {
            FailedCompletionEvent.record(
                    pair.adapter().name(),
                    pair.number(),
                    pair.peer(),
                    type.name(),
                    context,
                    CompletionStatus.of(status, type, pair.adapter().provider()).name(),
                    status,
                    vendorError);
        }
    }

    static void bound(NativeQueuePair pair, int token, long address, long length) {
        if (WindowBoundEvent.wanted()) {
            WindowBoundEvent.record(pair.adapter().name(), pair.number(), token, address, length);
        }
    }

    static void invalidated(NativeQueuePair pair, int token, boolean byPeer) {
        if (WindowInvalidatedEvent.wanted()) {
            WindowInvalidatedEvent.record(pair.adapter().name(), pair.number(), token, byPeer);
        }
    }
}
