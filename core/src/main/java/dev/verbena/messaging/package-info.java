/**
 * Messages between Java programs. Most services begin here; the package uses nothing but the public
 * API of {@link dev.verbena}.
 *
 * <p>This is a whole program, a server that sends each message back, and its client:
 *
 * {@snippet file="dev/verbena/examples/HelloMessages.java" region="program"}
 *
 * <p>A {@link dev.verbena.messaging.Poller} is a thread that polls for many channels; a {@link
 * dev.verbena.messaging.PollerGroup} spreads channels over several. A {@link
 * dev.verbena.messaging.MessageChannel} is a connection with its buffers. A {@link
 * dev.verbena.messaging.MessageServer} accepts channels; a {@link
 * dev.verbena.messaging.MessageClient} connects again when its channel has ended. Begin with {@link
 * dev.verbena.messaging.IdleStrategy#events}, which sleeps while there is nothing to do; {@link
 * dev.verbena.messaging.IdleStrategy#spinThenWait} answers sooner and takes more processor time.
 * Close channels and servers first, then their poller, then the adapter.
 *
 * <p>{@link dev.verbena.messaging.Calls} are requests and answers over messages. {@link
 * dev.verbena.messaging.OwnMemory} exposes memory that the peer may write or read; {@link
 * dev.verbena.messaging.PeerMemory} writes and reads the peer's. A {@link
 * dev.verbena.messaging.RawConnection} has neither the framing nor the credits described below: it
 * is for other protocols, such as NVMe over RDMA.
 *
 * <p>Any number of threads may wait for room, for a message, or for an answer of their own, and
 * they may be virtual threads:
 *
 * {@snippet file="dev/verbena/examples/ThousandThreads.java" region="ask"}
 *
 * <h2>On the wire</h2>
 *
 * <p>Both sides announce their limits in the private data of the connection, little-endian:
 *
 * <table>
 *   <caption>Private data, 20 bytes</caption>
 *   <tr><th>bytes</th><th>content</th></tr>
 *   <tr><td>0 to 3</td><td>"VBCH"</td></tr>
 *   <tr><td>4</td><td>version, 1</td></tr>
 *   <tr><td>5</td><td>1 if this side offers memory for large messages; otherwise 0</td></tr>
 *   <tr><td>6, 7</td><td>number of messages that this side has receives for (it has 5 more: 4
 *       for control frames, and one for a close)</td></tr>
 *   <tr><td>8 to 11</td><td>the longest message that this side receives</td></tr>
 *   <tr><td>12, 13</td><td>number of exposures that this side may have at a time</td></tr>
 *   <tr><td>14, 15</td><td>number of exposures that this side lets its peer have at a time</td></tr>
 *   <tr><td>16 to 19</td><td>the eager limit: the longest message that fits a receive of this
 *       side</td></tr>
 * </table>
 *
 * <p>A server that refuses gives its reason in the private data of the rejection: "VBCH", then a
 * status, little-endian, then a sentence in ASCII. The status is 0xC0000236 if a later attempt may
 * succeed (the server is full or stopping), and 0xC00000BB if none will (another version).
 *
 * <p>After that, each send is one frame: a header of 16 bytes, little-endian, the message, and up
 * to two notes:
 *
 * <table>
 *   <caption>A frame</caption>
 *   <tr><th>bytes</th><th>content</th></tr>
 *   <tr><td>0</td><td>1 message, 2 credit, 3 keep-alive, 4 large message, 5 offer, 6
 *       written, 7 close</td></tr>
 *   <tr><td>1</td><td>version, 1</td></tr>
 *   <tr><td>2</td><td>number of notes after the message: 0 to 2</td></tr>
 *   <tr><td>3</td><td>0</td></tr>
 *   <tr><td>4 to 7</td><td>total number of the peer's messages that this side has released; wraps
 *       around</td></tr>
 *   <tr><td>8 to 11</td><td>length of the message; 16 in an offer; 0 in credit, keep-alive,
 *       written and close frames</td></tr>
 *   <tr><td>12 to 15</td><td>total number of the peer's control frames (credit, keep-alive, offer)
 *       that this side has taken; wraps around</td></tr>
 * </table>
 *
 * <p>Let N be the number of messages that the peer has receives for. A side may send a message
 * while fewer than N of its messages are sent but not yet reported as released. It may send a
 * control frame while fewer than 3 of its control frames are sent but not yet reported as taken;
 * for a frame that itself reports two or more of the peer's control frames the limit is 4. A side
 * that has received nothing for some time sends a keep-alive, and the peer answers with the next
 * frame that it sends. That is a credit frame at once, unless its credit does not allow one.
 *
 * <p>A side that closes the channel in good order sends a close frame, which needs no credit, as
 * its last one, waits until that has arrived, and disconnects. A side that disconnects without it
 * has failed.
 *
 * <p>A receive therefore has room for 32 bytes more than the eager limit. The lower of the limits
 * of both sides holds.
 *
 * <h2>Large messages on the wire</h2>
 *
 * <p>A message above the eager limit takes four steps:
 *
 * <ol>
 *   <li>The sender announces it with a frame of kind 4, which contains only the length. It counts
 *       as the message: the receiver reports it as released when the program has released the
 *       message.
 *   <li>When the receiver has memory for it, it binds a memory window and sends an offer, a control
 *       frame: after the header the address in 8 bytes, the key in 4, and 4 of 0. Offers have the
 *       order of the announcements.
 *   <li>The sender writes the message to that address, in one or more writes.
 *   <li>The sender sends a frame of kind 6, which invalidates the key. It counts neither as a
 *       message nor as a control frame: it uses the receive of the announcement, which was posted
 *       again before the offer.
 * </ol>
 *
 * <p>From the announcement to the last frame of a large message, no other messages are sent, except
 * announcements: so all messages arrive in order.
 *
 * <h2>Remote memory on the wire</h2>
 *
 * <p>A note is about one remote key (NDK: token). A key that a side gives to its peer belongs to a
 * memory window, which is bound on the queue pair of the channel before the frame that mentions it:
 *
 * <table>
 *   <caption>A note, 8 bytes, little-endian</caption>
 *   <tr><th>bytes</th><th>content</th></tr>
 *   <tr><td>0</td><td>1 exposed, 2 asked back, 3 given back</td></tr>
 *   <tr><td>1 to 3</td><td>0</td></tr>
 *   <tr><td>4 to 7</td><td>the key</td></tr>
 * </table>
 *
 * <ul>
 *   <li><b>Exposed:</b> the peer may use this key of the sender. The note is in the frame of the
 *       message that carries the {@link dev.verbena.RemoteMemory}, or in an earlier one. There are
 *       never more keys exposed, or asked back and not yet answered, than the private data of both
 *       sides allow.
 *   <li>A message that is sent with send-and-invalidate takes an exposed key back; the completion
 *       of the receive names the key. No other frame may invalidate it. Only a key that is exposed
 *       may be invalidated, and only once.
 *   <li><b>Asked back:</b> the sender asks the peer to stop using this key. The peer answers with
 *       <b>given back</b>, after the last request that names the key, and with a read fence if
 *       reads by the key are outstanding. It answers even if it has just taken the key back itself.
 *       Then the sender invalidates the key, unless the peer did.
 * </ul>
 *
 * <h2>Calls on the wire</h2>
 *
 * <p>Where the handlers of both sides are {@link dev.verbena.messaging.Calls}, each message begins
 * with a header, which the request, the answer or the text of the error follows:
 *
 * <table>
 *   <caption>The header of a call, 8 bytes, little-endian</caption>
 *   <tr><th>bytes</th><th>content</th></tr>
 *   <tr><td>0</td><td>1 request, 2 answer, 3 error (at most 1,000 bytes of UTF-8)</td></tr>
 *   <tr><td>1</td><td>version, 1</td></tr>
 *   <tr><td>2, 3</td><td>0</td></tr>
 *   <tr><td>4 to 7</td><td>the number of the request, which its answer repeats</td></tr>
 * </table>
 *
 * <p>Each side numbers its own requests, and does not use a number again before it has the answer.
 * A side has at most 512 requests without an answer; one that sends more loses the channel. An
 * answer with another number is ignored.
 */
// core/docs/messaging.md has the path of a message through the classes of this package.
@NullMarked
package dev.verbena.messaging;

import org.jspecify.annotations.NullMarked;
