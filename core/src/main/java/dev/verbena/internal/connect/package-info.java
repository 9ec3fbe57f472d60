/**
 * Connections: NDK's connect sequence on librdmacm, with a queue pair that librdmacm does not know.
 *
 * <p>A connection consists of four files. {@link dev.verbena.internal.connect.ConnectionInput}
 * lists the calls. {@link dev.verbena.internal.connect.ConnectionTable} has, for every state and
 * every trigger, the action and the next state. {@link
 * dev.verbena.internal.connect.ConnectionStateMachine} applies it to calls, events and timers,
 * under its lock, and {@code ConnectionActions} has a method for each action. They use {@code
 * ConnectionStep} (a future with a deadline), {@code AddressResolution} (local addresses, retries),
 * {@code QueuePairHandle} (the queue pair's states), {@code FailureMessages}, {@code PrivateData}
 * and {@link dev.verbena.internal.connect.Announcement} (the header in front of it). {@link
 * dev.verbena.internal.connect.Listening} creates a state machine for each request.
 *
 * <p>Calls come from any thread of the program: {@code Connector} calls the state machine. Events
 * come from the adapter's event thread: {@code AdapterEvents} in {@code internal.runtime} calls
 * {@link dev.verbena.internal.connect.ConnectionEvents}, which calls the state machine or the
 * listener. Nothing here waits, and nothing runs the program's code under a lock.
 */
@NullMarked
package dev.verbena.internal.connect;

import org.jspecify.annotations.NullMarked;
