/**
 * RDMA with the semantics of NDK, the Network Direct Kernel interface. Each NDK object has a class
 * of its own.
 *
 * <p>Most services begin with {@linkplain dev.verbena.messaging channels}, which carry messages.
 * This is a whole program, a server that sends each message back, and its client:
 *
 * {@snippet file="dev/verbena/examples/HelloMessages.java" region="program"}
 *
 * <p>Below channels, start with {@link dev.verbena.Adapter}, which opens a device and creates
 * completion queues and protection domains. A {@link dev.verbena.ProtectionDomain} registers memory
 * and creates queue pairs, memory windows and shared receive queues. Requests are posted to a
 * {@link dev.verbena.QueuePair}. Their completions are polled from a {@link
 * dev.verbena.CompletionQueue}, which can also wait for the next completion, or call back. A {@link
 * dev.verbena.Connector} connects a queue pair to a peer that has a {@link dev.verbena.Listener}.
 *
 * <h2>Errors</h2>
 *
 * Posting returns a {@link dev.verbena.PostResult}, which has a status and the exact reason,
 * because a full queue or a lost connection is an ordinary result there; it throws only for
 * programming errors. Everything else throws {@link dev.verbena.VerbenaException}. Channels throw
 * its subclass {@link dev.verbena.messaging.MessagingException}.
 *
 * <p>An interrupt ends calls that only wait for something from the program or the peer, such as a
 * buffer, a message, or room for one: they throw {@link java.lang.InterruptedException}. A control
 * call that is interrupted throws a {@link dev.verbena.VerbenaException} with CANCELLED, and the
 * thread stays interrupted. A wait for a completion queue is not interruptible: see {@link
 * dev.verbena.CompletionQueue#await}.
 *
 * <h2>Completions</h2>
 *
 * A request whose post returned ACCEPTED has exactly one completion, or none if it is {@linkplain
 * dev.verbena.OpFlags#SILENT_SUCCESS silent} and succeeds. If a silent request fails, the device
 * completes it like any failed request: the next polls return that completion, and CANCELLED for
 * the requests after it. This library synthesizes a completion only where the device gives none:
 * for a request that the provider refused after its post had returned ACCEPTED, for receives posted
 * to a queue pair that has failed, and for requests that the device has not completed one second
 * after a close.
 *
 * <h2>Lifetime</h2>
 *
 * Close every object once, in any order. The native object is destroyed when the last object
 * created from it is closed as well (in NDK, the close pends until then). {@link
 * dev.verbena.MemoryRegion#awaitClosed awaitClosed}, which every object has, waits for that;
 * registered memory may be freed when it returns. On a closed object, calls that need the device
 * throw {@link java.lang.IllegalStateException}, and posts to a closed queue pair return {@link
 * dev.verbena.Status#CONNECTION_INVALID}. Getters of stored values, such as a name or a remote key
 * (NDK: token), keep working.
 *
 * <h2>Native handles</h2>
 *
 * Libibverbs has functions that this library does not call. For these, {@code nativeHandle()} of an
 * adapter, a protection domain, a memory region, a queue pair, a completion queue, a completion
 * channel and a shared receive queue returns the address of its verbs object. The caller is
 * responsible for what it does with it:
 *
 * <ul>
 *   <li>The address is valid until the object is closed, and {@code nativeHandle()} of a closed
 *       object throws. Nothing stops a close while a native call is using the address.
 *   <li>Nothing checks the thread. Objects of confined queues still belong to their owner.
 *   <li>This library does not notice what happens natively. Do not change the state of a queue
 *       pair, post, poll, arm, resize, deregister or destroy: the library would account for
 *       completions that do not come, or free the object twice. Queries are safe.
 * </ul>
 *
 * <p>A {@link dev.verbena.MemoryWindow} has no handle, because a bind may replace its native
 * window.
 *
 * <h2>Threads</h2>
 *
 * <table>
 *   <caption>What may be called from which thread</caption>
 *   <tr><th></th><th>shared queues</th><th>confined queues</th></tr>
 *   <tr><td>created by</td><td>{@code createCompletionQueue}</td><td>{@link dev.verbena.Adapter#createConfinedCompletionQueue createConfinedCompletionQueue}</td></tr>
 *   <tr><td>creation and close of a queue pair that reports to the completion queue, also of one that takes its receives from a {@link dev.verbena.SharedReceiveQueue}</td><td>any thread</td><td>the owner: the thread that created the completion queue; another one gets a {@link java.lang.WrongThreadException}</td></tr>
 *   <tr><td>posts, binds, invalidates; polls, arms, waits, descriptor, event and close of a completion queue; waits for a {@link dev.verbena.CompletionChannel} with confined queues</td><td>any thread</td><td>the owner</td></tr>
 *   <tr><td>connecting, disconnecting, {@link dev.verbena.QueuePair#flush flush}, getters, counters</td><td>any thread</td><td>any thread</td></tr>
 *   <tr><td>all other objects, among them shared receive queues and their posts</td><td>any thread</td><td>any thread</td></tr>
 *   <tr><td>{@link dev.verbena.BufferList}, {@link dev.verbena.Completions}, {@link dev.verbena.RequestBatch}</td><td colspan="2">one thread at a time</td></tr>
 * </table>
 *
 * <p>No thread takes over the queues of an owner that ended without closing them. They are
 * destroyed when the adapter is closed, by any thread.
 *
 * <p>The caller serialises posts to one queue and polls of one completion queue, as NDK requires.
 * Concurrent calls are still safe: they wait for a lock. Callbacks run on threads of this library,
 * without a lock held; they may block, and may close any object.
 */
@NullMarked
package dev.verbena;

import org.jspecify.annotations.NullMarked;
