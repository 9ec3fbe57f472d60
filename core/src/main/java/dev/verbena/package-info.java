/**
 * One class for each NDK object. An {@link dev.verbena.Adapter} makes completion queues and
 * protection domains; a {@link dev.verbena.ProtectionDomain} registers memory and makes queue
 * pairs, windows and shared receive queues; a {@link dev.verbena.QueuePair} has the operations; a
 * {@link dev.verbena.CompletionQueue} says what became of them, and wakes who waits. A {@link
 * dev.verbena.Connector} connects a queue pair to one at a peer, who has a {@link
 * dev.verbena.Listener}.
 *
 * <h2>Errors</h2>
 *
 * Posting returns a {@link dev.verbena.Status} and neither throws nor allocates, because a full
 * queue and a missing connection are ordinary there. Everything else throws {@link
 * dev.verbena.VerbenaException}.
 *
 * <h2>Lifetime</h2>
 *
 * Every object is closed once, in any order. An object that others were made from stays alive
 * underneath until the last of them is closed, as in NDK, where such a close pends; {@link
 * dev.verbena.MemoryRegion#awaitClosed awaitClosed} of each waits for that, and says when
 * registered memory may be freed. A closed object answers {@link java.lang.IllegalStateException}
 * to whatever would reach the device, a closed queue pair's posts {@link
 * dev.verbena.Status#CONNECTION_INVALID}; what is merely remembered, such as a name or a token, can
 * still be asked for.
 *
 * <h2>Threads</h2>
 *
 * Making and closing objects may be done from any thread. Posts to one queue, and polls of one
 * completion queue, are to be serialised by the caller, as NDK asks; when they are not, they wait
 * for each other and nothing breaks but speed.
 */
@NullMarked
package dev.verbena;

import org.jspecify.annotations.NullMarked;
