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
 * Posting returns a {@link dev.verbena.Status} and throws for mistakes of the program only, because
 * a full queue or a lost connection is an ordinary result there. Everything else throws {@link
 * dev.verbena.VerbenaException}; so do channels, whose {@link dev.verbena.channel.ChannelException}
 * is one.
 *
 * <p>An interrupt ends calls that only wait for something of the program's or the peer's, such as a
 * buffer, a message, or room for one, with {@link java.lang.InterruptedException}. Control calls
 * that are interrupted throw a {@link dev.verbena.VerbenaException} with CANCELLED, and the thread
 * stays interrupted. Waits for a completion queue go on: {@link dev.verbena.CompletionQueue#await}.
 *
 * <h2>Completions</h2>
 *
 * A request whose post returned SUCCESS has exactly one completion, or none if it is {@linkplain
 * dev.verbena.OpFlags#SILENT_SUCCESS silent} and succeeds. The completion of a silent request that
 * fails comes from the device, as that of any failed request: the next polls return it, and
 * CANCELLED for the requests behind it. This library synthesizes a completion only where the device
 * gives none: for a request that the provider refused after its post had returned SUCCESS, for
 * receives posted to a queue pair that has failed, and for requests that the device does not end
 * within a second after a close.
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
 * <table>
 *   <caption>What may be called from which thread</caption>
 *   <tr><th></th><th>shared queues</th><th>confined queues</th></tr>
 *   <tr><td>created by</td><td>{@code createCompletionQueue}</td><td>{@link dev.verbena.Adapter#createConfinedCompletionQueue createConfinedCompletionQueue}</td></tr>
 *   <tr><td>posts, binds, invalidates; polls, arms, waits, descriptor and event of a completion queue; close of queue pair and completion queue</td><td>any thread</td><td>the thread that created the completion queue; another one gets a {@link java.lang.WrongThreadException}</td></tr>
 *   <tr><td>connecting, disconnecting, {@link dev.verbena.QueuePair#flush flush}, getters, counters</td><td>any thread</td><td>any thread</td></tr>
 *   <tr><td>all other objects</td><td>any thread</td><td>any thread</td></tr>
 *   <tr><td>{@link dev.verbena.BufferList}, {@link dev.verbena.Completions}, {@link dev.verbena.RequestBatch}</td><td colspan="2">one thread at a time</td></tr>
 * </table>
 *
 * <p>The caller serialises posts to one queue and polls of one completion queue, as NDK asks. If it
 * does not, they wait for a lock, which costs time only. Callbacks run on threads of this library,
 * without a lock held; they may block and close any object.
 */
@NullMarked
package dev.verbena;

import org.jspecify.annotations.NullMarked;
