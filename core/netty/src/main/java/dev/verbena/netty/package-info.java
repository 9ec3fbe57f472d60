/**
 * A transport for Netty 4.2 over RDMA: a service runs on it with other classes in two lines.
 *
 * <pre>{@code
 * EventLoopGroup group = new MultiThreadIoEventLoopGroup(RdmaIoHandler.newFactory("roce0"));
 * new ServerBootstrap().group(group).channel(RdmaServerChannel.class) …
 * new Bootstrap().group(group).channel(RdmaChannel.class) …
 * }</pre>
 */
@NullMarked
package dev.verbena.netty;

import org.jspecify.annotations.NullMarked;
