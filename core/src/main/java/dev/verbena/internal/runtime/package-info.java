/**
 * Threads, timers, callbacks and the event loop of an adapter. Does not depend on queues,
 * connections or API objects: they register listeners here.
 *
 * <p>Open {@link dev.verbena.internal.runtime.AdapterEvents} first: each adapter has one thread
 * that waits for events of the device and of rdma_cm, and runs {@link
 * dev.verbena.internal.runtime.Timers} between them. That thread must never wait, so callbacks of
 * the program's run on the threads of {@link dev.verbena.internal.runtime.Threads}: {@link
 * dev.verbena.internal.runtime.Callbacks} loses none when no thread can be started, {@link
 * dev.verbena.internal.runtime.LimitedExecutor} limits how many run at a time, {@link
 * dev.verbena.internal.runtime.SerialCallbacks} runs them one after the other. What a callback
 * throws goes to {@link dev.verbena.internal.util.Uncaught}.
 */
@NullMarked
package dev.verbena.internal.runtime;

import org.jspecify.annotations.NullMarked;
