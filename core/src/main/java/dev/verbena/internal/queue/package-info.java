/**
 * What NDK promises and verbs does not: which request a completion belongs to, free slots of silent
 * requests, deferral, completions that the device will not report, and which windows are bound.
 *
 * <p>Open {@link dev.verbena.internal.queue.SendQueue} first: a post goes from {@code QueuePair}
 * through {@code SendQueue.post}, which notes the request in a {@link
 * dev.verbena.internal.queue.RequestLedger}, to the downcall in {@code internal.verbs}. Then {@link
 * dev.verbena.internal.queue.CompletionPoller}: a poll finds the ledger by the completion's {@link
 * dev.verbena.internal.queue.WorkId}, retires the request, and delivers. {@code RequestState} has
 * the states of a request in one table, {@link dev.verbena.internal.queue.Operation} each operation
 * in one line.
 *
 * <p>Locks: a send queue, a receive queue and a completion queue have one {@link
 * dev.verbena.internal.queue.QueueLock} each; the order is send or receive queue, completion queue,
 * shared receive queue or window table. No caller's code runs under one.
 *
 * <p>Uses values of the public API and none of its objects, and calls native code only through
 * {@code internal.verbs}.
 */
@NullMarked
package dev.verbena.internal.queue;

import org.jspecify.annotations.NullMarked;
