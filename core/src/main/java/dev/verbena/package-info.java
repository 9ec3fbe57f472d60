/**
 * RDMA with the semantics of NDK, one class for each NDK object. Start with {@link
 * dev.verbena.Adapter}, which opens a device and creates completion queues and protection domains.
 * A {@link dev.verbena.ProtectionDomain} registers memory and creates queue pairs, memory windows
 * and shared receive queues. Requests are posted to a {@link dev.verbena.QueuePair}; their
 * completions are polled from a {@link dev.verbena.CompletionQueue}, which can also wait for the
 * next completion, or call back. A {@link dev.verbena.Connector} connects a queue pair to a peer
 * that has a {@link dev.verbena.Listener}.
 *
 * <h2>Errors</h2>
 *
 * Posting returns a {@link dev.verbena.Status} and neither throws nor allocates, because a full
 * queue or a lost connection is an ordinary result there. Everything else throws {@link
 * dev.verbena.VerbenaException}; so do channels, whose {@link dev.verbena.channel.ChannelException}
 * is one.
 *
 * <p>An interrupt ends calls that only wait for something of the program's or the peer's, such as a
 * buffer, a message, or room for one, with {@link java.lang.InterruptedException}. Control calls
 * that are interrupted throw a {@link dev.verbena.VerbenaException} with CANCELLED, and the thread
 * stays interrupted. Waits for a completion queue go on: {@link dev.verbena.CompletionQueue#await}.
 *
 * <h2>Lifetime</h2>
 *
 * Close every object once, in any order. The native object behind an object is destroyed when the
 * last object created from it is closed, too (in NDK, the close pends until then). {@link
 * dev.verbena.MemoryRegion#awaitClosed awaitClosed}, which every object has, waits for that;
 * registered memory may be freed when it returns. On a closed object, calls that need the device
 * throw {@link java.lang.IllegalStateException}, and posts to a closed queue pair return {@link
 * dev.verbena.Status#CONNECTION_INVALID}. Getters of stored values, such as a name or a remote key
 * (NDK: token), keep working.
 *
 * <h2>Threads</h2>
 *
 * Objects may be created and closed on any thread. Posts to one queue, and polls of one completion
 * queue, are to be serialised by the caller, as NDK asks; when they are not, they wait for each
 * other and nothing breaks but speed.
 *
 * <p>A program whose thread owns its queues says so, and they take no locks: {@link
 * dev.verbena.Adapter#createConfinedCompletionQueue} has the rules.
 */
@NullMarked
package dev.verbena;

import org.jspecify.annotations.NullMarked;
