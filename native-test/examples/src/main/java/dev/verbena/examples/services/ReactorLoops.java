package dev.verbena.examples.services;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.channel.Channel;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.socket.ServerSocketChannel;
import io.netty.channel.socket.SocketChannel;

import reactor.core.publisher.Mono;
import reactor.netty.resources.LoopResources;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Lets Reactor Netty, and so Spring WebFlux, run over RDMA.
 *
 * <pre>{@code
 * LoopResources loops = new ReactorLoops(RdmaIoHandler.newFactory("roce0"), 2);
 * HttpServer.create().runOn(loops) …
 * HttpClient.create().runOn(loops).resolver(DefaultAddressResolverGroup.INSTANCE) …
 * }</pre>
 *
 * <p>By default, Reactor Netty asks DNS servers with datagrams, which RDMA does not have: a client
 * needs the JDK's resolver.
 */
public final class ReactorLoops implements LoopResources {
    private final EventLoopGroup group;

    /**
     * Event loops of one device, for servers and clients.
     *
     * @param factory makes the event loops of the device
     * @param threads how many event loops
     */
    public ReactorLoops(IoHandlerFactory factory, int threads) {
        group = new MultiThreadIoEventLoopGroup(threads, factory);
    }

    @Override
    public EventLoopGroup onServer(boolean useNative) {
        return group;
    }

    @Override
    public EventLoopGroup onClient(boolean useNative) {
        return group;
    }

    @Override
    public <C extends Channel> C onChannel(Class<C> type, EventLoopGroup ignored) {
        if (type == SocketChannel.class) {
            return type.cast(new RdmaChannel());
        } else if (type == ServerSocketChannel.class) {
            return type.cast(new RdmaServerChannel());
        }
        throw unsupported(type);
    }

    @Override
    public <C extends Channel> Class<? extends C> onChannelClass(
            Class<C> type, EventLoopGroup ignored) {
        if (type == SocketChannel.class) {
            return RdmaChannel.class.asSubclass(type);
        } else if (type == ServerSocketChannel.class) {
            return RdmaServerChannel.class.asSubclass(type);
        }
        throw unsupported(type);
    }

    private static UnsupportedOperationException unsupported(Class<?> type) {
        return new UnsupportedOperationException(
                "RDMA has no " + type.getSimpleName() + ": use the JDK's resolver of names");
    }

    @Override
    public Mono<Void> disposeLater(Duration quietPeriod, Duration timeout) {
        return Mono.create(
                end ->
                        group.shutdownGracefully(
                                        quietPeriod.toMillis(),
                                        timeout.toMillis(),
                                        TimeUnit.MILLISECONDS)
                                .addListener(ended -> end.success()));
    }
}
