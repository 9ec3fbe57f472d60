package dev.verbena.bench;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaIoHandler;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.channel.Channel;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.ServerChannel;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.channel.uring.IoUring;
import io.netty.channel.uring.IoUringIoHandler;
import io.netty.channel.uring.IoUringServerSocketChannel;
import io.netty.channel.uring.IoUringSocketChannel;

/**
 * A transport of Netty's: Verbena on the stand-ins for rdma-core, or TCP on the loopback interface.
 *
 * @param loops the event loops
 * @param address where its servers listen
 * @param server channels of servers
 * @param client channels of clients
 */
record NettyTransport(
        IoHandlerFactory loops,
        String address,
        Class<? extends ServerChannel> server,
        Class<? extends Channel> client) {
    /**
     * Prints what this machine lacks for io_uring, if anything: a kernel or a sandbox may refuse
     * it.
     */
    public static void main(String[] arguments) {
        if (!IoUring.isAvailable()) {
            System.out.println("io_uring: " + IoUring.unavailabilityCause().getMessage());
        }
    }

    /** The transport that is called verbena, nio, epoll or io_uring. */
    static NettyTransport named(String name) {
        return switch (name) {
            case "verbena" ->
                    new NettyTransport(
                            RdmaIoHandler.newFactory("copy0"),
                            "192.0.2.1", // of the stand-in
                            RdmaServerChannel.class,
                            RdmaChannel.class);
            case "nio" ->
                    new NettyTransport(
                            NioIoHandler.newFactory(),
                            "127.0.0.1",
                            NioServerSocketChannel.class,
                            NioSocketChannel.class);
            case "epoll" ->
                    new NettyTransport(
                            EpollIoHandler.newFactory(),
                            "127.0.0.1",
                            EpollServerSocketChannel.class,
                            EpollSocketChannel.class);
            case "io_uring" ->
                    new NettyTransport(
                            IoUringIoHandler.newFactory(),
                            "127.0.0.1",
                            IoUringServerSocketChannel.class,
                            IoUringSocketChannel.class);
            default -> throw new IllegalArgumentException("There is no " + name);
        };
    }
}
