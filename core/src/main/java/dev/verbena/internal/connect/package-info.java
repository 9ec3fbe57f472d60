/**
 * Connections: NDK's connect sequence on librdmacm, with a queue pair that the library does not
 * know of.
 *
 * <p>Open {@link dev.verbena.internal.connect.ConnectionTable} first: every state, every trigger,
 * what is done and which state comes next. {@link
 * dev.verbena.internal.connect.ConnectionStateMachine} applies it, under its lock, and {@code
 * ConnectionActions} has a method for each action. They use {@code ConnectionStep} (a future with a
 * deadline), {@code ConnectionIdentifier} (the calls of librdmacm), {@code AddressResolution}
 * (local addresses, retries), {@code HeldQueuePair} (the queue pair's states) and {@code
 * FailureMessages}. {@link dev.verbena.internal.connect.Announcement} is the header in front of the
 * caller's private data. {@link dev.verbena.internal.connect.Listening} makes a state machine of
 * each request.
 *
 * <p>Calls come from any thread of the program: {@code Connector} calls the state machine. Events
 * come from the adapter's event thread: {@code AdapterEvents} in {@code internal.runtime} calls
 * {@link dev.verbena.internal.connect.ConnectionEvents}, which calls the state machine or the
 * listener. Nothing here waits, and nothing runs code of the program's under a lock.
 */
@NullMarked
package dev.verbena.internal.connect;

import org.jspecify.annotations.NullMarked;
