package dev.verbena.nativetest;

import io.netty.channel.socket.ServerSocketChannel;

/** A server of Netty's in a process of its own, which sends back what it gets. */
final class NettyEchoProgram {
    private NettyEchoProgram() {}

    /** Serves on the first device until the process ends; prints the port. */
    static void main(String[] arguments) throws InterruptedException {
        try (NettySides sides = new NettySides(1)) {
            ServerSocketChannel server = sides.echo();
            System.out.println(server.localAddress().getPort());
            server.closeFuture().sync();
        }
    }
}
