package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The counters of a queue pair since it was created: a snapshot from {@link QueuePair#counters}.
 *
 * @param requests the counters of its send queue (NDK: initiator queue)
 * @param receives the counters of its own receive queue, or of the receives that it took from a
 *     {@link SharedReceiveQueue}
 */
@CheckReturnValue
public record QueuePairCounters(RequestCounters requests, RequestCounters receives) {}
