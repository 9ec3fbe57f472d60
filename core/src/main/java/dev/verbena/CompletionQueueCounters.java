package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The counters of a completion queue since it was created: a snapshot from {@link
 * CompletionQueue#counters}.
 *
 * @param delivered how many completions polls returned, with any status
 * @param failed how many completions reported any status but SUCCESS and CANCELLED; some of them
 *     may not be delivered yet
 * @param cancelled how many completions reported CANCELLED; some of them may not be delivered yet
 * @param synthesized how many of the failed and cancelled completions this library synthesized
 *     because the device gave none: for requests that the provider refused late, for receives
 *     posted to a queue pair that had failed, and where the device did not complete a request in
 *     time
 * @param internalSignals how many completions this library requested to free slots of silent
 *     requests, and discarded; no poll returned them
 * @param kept how many completions this library polled itself and kept for the program's next poll:
 *     when a post found its queue full, at an arm, at a close
 * @param waits how many calls of {@link CompletionQueue#await} returned a status
 * @param timeouts how many of these waits returned IO_TIMEOUT
 */
@CheckReturnValue
public record CompletionQueueCounters(
        long delivered,
        long failed,
        long cancelled,
        long synthesized,
        long internalSignals,
        long kept,
        long waits,
        long timeouts) {}
