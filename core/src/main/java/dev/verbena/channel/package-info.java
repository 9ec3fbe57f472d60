/**
 * Messages between Java programs: what stands between queue pairs and a service. Built on the
 * public API of {@link dev.verbena} alone.
 *
 * <p>A {@link dev.verbena.channel.Poller} is a thread that polls; a {@link
 * dev.verbena.channel.Channel} is a connection with its buffers, which it polls for; a {@link
 * dev.verbena.channel.ChannelServer} accepts channels; a {@link dev.verbena.channel.ChannelClient}
 * connects again when its channel has ended. A {@link dev.verbena.channel.RawChannel} has none of
 * the framing and credits that follow: for protocols of others, such as NVMe over RDMA.
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
 *   <tr><td>12 to 15</td><td>0</td></tr>
 * </table>
 *
 * <p>A server that refuses says why in the private data of its rejection: "VBCH", then 0xC0000236
 * if a later attempt may succeed (it is full, or stops) or 0xC00000BB if none will (another
 * version), little-endian, then a sentence in ASCII.
 *
 * <p>Then each frame is one send, with a header of 16 bytes, little-endian:
 *
 * <table>
 *   <caption>A frame</caption>
 *   <tr><th>bytes</th><th>what</th></tr>
 *   <tr><td>0</td><td>1 message, 2 credit, 3 keep-alive</td></tr>
 *   <tr><td>1</td><td>version, 1</td></tr>
 *   <tr><td>2, 3</td><td>0</td></tr>
 *   <tr><td>4 to 7</td><td>how many messages of the peer this side has released, in all; wraps
 *       around</td></tr>
 *   <tr><td>8 to 11</td><td>the length of the message behind the header; 0 in the others</td></tr>
 *   <tr><td>12 to 15</td><td>how many control frames (credit, keep-alive) of the peer this side has
 *       taken, in all; wraps around</td></tr>
 * </table>
 *
 * <p>A side sends a message only if fewer than the peer has receives for are not reported as
 * released, and a control frame only if fewer than 3 are not reported as taken, or 4 if it reports
 * two or more itself. A side that has received nothing for some time sends a keep-alive, and the
 * peer answers with whatever frame it sends next: a credit frame at once, unless it may not send
 * any.
 */
@NullMarked
package dev.verbena.channel;

import org.jspecify.annotations.NullMarked;
