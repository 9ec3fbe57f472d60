/**
 * Messages between Java programs: what stands between queue pairs and a service. Built on the
 * public API of {@link dev.verbena} alone.
 *
 * <p>A {@link dev.verbena.channel.Poller} is a thread that polls; a {@link
 * dev.verbena.channel.Channel} is a connection with its buffers, which it polls for; a {@link
 * dev.verbena.channel.ChannelServer} accepts channels; a {@link dev.verbena.channel.ChannelClient}
 * connects again when its channel has ended. An {@link dev.verbena.channel.Exposure} is memory that
 * the peer may write or read; {@link dev.verbena.channel.PeerMemory} writes and reads the peer's. A
 * {@link dev.verbena.channel.RawChannel} has none of the framing and credits that follow: for
 * protocols of others, such as NVMe over RDMA.
 *
 * <p>Threads that wait, for room, a message, or an answer of their own, may be virtual ones, and as
 * many as there are:
 *
 * {@snippet file="dev/verbena/examples/ThousandThreads.java" region="ask"}
 *
 * <h2>On the wire</h2>
 *
 * <p>Both sides say in the private data of the connection what they take, little-endian:
 *
 * <table>
 *   <caption>Private data, 16 bytes</caption>
 *   <tr><th>bytes</th><th>what</th></tr>
 *   <tr><td>0 to 3</td><td>"VBCH"</td></tr>
 *   <tr><td>4</td><td>version, 1</td></tr>
 *   <tr><td>5</td><td>0</td></tr>
 *   <tr><td>6, 7</td><td>how many messages this side has receives for (it has 4 more for control
 *       frames)</td></tr>
 *   <tr><td>8 to 11</td><td>the longest message that this side receives</td></tr>
 *   <tr><td>12, 13</td><td>how many exposures this side may have at a time</td></tr>
 *   <tr><td>14, 15</td><td>0</td></tr>
 * </table>
 *
 * <p>A server that refuses says why in the private data of its rejection: "VBCH", then 0xC0000236
 * if a later attempt may succeed (it is full, or stops) or 0xC00000BB if none will (another
 * version), little-endian, then a sentence in ASCII.
 *
 * <p>Then each frame is one send, with a header of 16 bytes, little-endian, the message, and up to
 * two notes:
 *
 * <table>
 *   <caption>A frame</caption>
 *   <tr><th>bytes</th><th>what</th></tr>
 *   <tr><td>0</td><td>1 message, 2 credit, 3 keep-alive</td></tr>
 *   <tr><td>1</td><td>version, 1</td></tr>
 *   <tr><td>2</td><td>how many notes there are behind the message: 0 to 2</td></tr>
 *   <tr><td>3</td><td>0</td></tr>
 *   <tr><td>4 to 7</td><td>how many messages of the peer this side has released, in all; wraps
 *       around</td></tr>
 *   <tr><td>8 to 11</td><td>the length of the message behind the header; 0 in the others</td></tr>
 *   <tr><td>12 to 15</td><td>how many control frames (credit, keep-alive) of the peer this side has
 *       taken, in all; wraps around</td></tr>
 * </table>
 *
 * <p>Let N be the number of messages that the peer has receives for. A side may send a message
 * while the peer has not reported fewer than N of them as released. It may send a control frame
 * while the peer has not reported fewer than 3 of those as taken; the limit is 4 for a frame that
 * itself reports two or more of the peer's control frames. A side that has received nothing for
 * some time sends a keep-alive, and the peer answers with whatever frame it sends next: a credit
 * frame at once, unless it may not send any.
 *
 * <p>So a receive has room for 32 bytes more than the longest message.
 *
 * <h2>Remote memory on the wire</h2>
 *
 * <p>A note is about one remote key (NDK: token). Keys that a side makes for its peer are memory
 * windows, bound on the queue pair of the channel before the frame that mentions them:
 *
 * <table>
 *   <caption>A note, 8 bytes, little-endian</caption>
 *   <tr><th>bytes</th><th>what</th></tr>
 *   <tr><td>0</td><td>1 exposed, 2 asked back, 3 given back</td></tr>
 *   <tr><td>1 to 3</td><td>0</td></tr>
 *   <tr><td>4 to 7</td><td>the key</td></tr>
 * </table>
 *
 * <ul>
 *   <li><b>Exposed:</b> the peer may use this key of the sender's. It is in the frame of the
 *       message that has the {@link dev.verbena.RemoteMemory}, or in one before. At no time are
 *       more keys exposed than the private data says.
 *   <li>A message that is sent with send-and-invalidate takes an exposed key back: the completion
 *       of the receive says which. No other frame may invalidate, and only a key that is exposed,
 *       once.
 *   <li><b>Asked back:</b> the peer is asked not to use this key of the sender's any more. It
 *       answers with <b>given back</b>, behind the last request that names the key, and with a read
 *       fence if reads by it are outstanding; also if it has just taken the key back itself. Then
 *       the sender invalidates the key, if the peer has not.
 * </ul>
 */
@NullMarked
package dev.verbena.channel;

import org.jspecify.annotations.NullMarked;
