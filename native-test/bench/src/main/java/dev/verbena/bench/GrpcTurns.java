package dev.verbena.bench;

import static java.util.concurrent.TimeUnit.SECONDS;

import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.util.concurrent.CompletableFuture;

/**
 * Processor time of a unary call of grpc-java, whose request and answer have 64 bytes. Client and
 * server are on one event loop, and their code runs there: over Verbena on the stand-ins for
 * rdma-core, or over TCP on the loopback interface. Prints one line for each round.
 */
public final class GrpcTurns {
    private static final int BYTES = 64;
    private static final int BATCH = 500;

    private GrpcTurns() {}

    /**
     * Measures one of them.
     *
     * @param arguments {@code verbena|nio|epoll|io_uring}, and options
     * @throws Exception when the connection fails
     */
    public static void main(String[] arguments) throws Exception {
        Options options =
                new Options(
                        "GrpcTurns verbena|nio|epoll|io_uring [--ms N] [--rounds N]",
                        1,
                        arguments,
                        "--ms",
                        "--rounds");
        String what = options.argument(0);
        NettyTransport transport = NettyTransport.named(what);
        EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, transport.loops());
        MethodDescriptor<byte[], byte[]> echo =
                MethodDescriptor.<byte[], byte[]>newBuilder()
                        .setType(MethodDescriptor.MethodType.UNARY)
                        .setFullMethodName("verbena.Bench/Echo")
                        .setRequestMarshaller(new Bytes())
                        .setResponseMarshaller(new Bytes())
                        .build();
        Server server =
                NettyServerBuilder.forAddress(new InetSocketAddress(transport.address(), 0))
                        .channelType(transport.server())
                        .bossEventLoopGroup(group)
                        .workerEventLoopGroup(group)
                        .directExecutor()
                        .addService(
                                ServerServiceDefinition.builder("verbena.Bench")
                                        .addMethod(
                                                echo,
                                                ServerCalls.asyncUnaryCall(
                                                        (byte[] request,
                                                                StreamObserver<byte[]> answer) -> {
                                                            answer.onNext(request);
                                                            answer.onCompleted();
                                                        }))
                                        .build())
                        .build()
                        .start();
        ManagedChannel channel =
                NettyChannelBuilder.forAddress(
                                new InetSocketAddress(transport.address(), server.getPort()))
                        .channelType(transport.client())
                        .eventLoopGroup(group)
                        .directExecutor()
                        .usePlaintext()
                        .build();
        try {
            Calls calls = new Calls(channel, echo, what, options);
            calls.next();
            calls.over.get();
        } finally {
            channel.shutdownNow();
            server.shutdownNow();
            var _ = channel.awaitTermination(10, SECONDS);
            var _ = server.awaitTermination(10, SECONDS);
            group.shutdownGracefully(0, 10, SECONDS).sync();
        }
    }

    /** Bytes as they are. */
    private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
        @Override
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readNBytes(stream.available()); // gRPC knows the length
            } catch (IOException e) {
                throw Status.INTERNAL.withCause(e).asRuntimeException();
            }
        }
    }

    /** One call after the other, each from the event loop by the end of the one before. */
    private static final class Calls implements StreamObserver<byte[]> {
        final CompletableFuture<Void> over = new CompletableFuture<>();
        private final ManagedChannel channel;
        private final MethodDescriptor<byte[], byte[]> method;
        private final LoopRounds rounds;
        private final byte[] request = new byte[BYTES];

        Calls(
                ManagedChannel channel,
                MethodDescriptor<byte[], byte[]> method,
                String what,
                Options options) {
            this.channel = channel;
            this.method = method;
            this.rounds =
                    new LoopRounds(
                            options,
                            10,
                            BATCH,
                            (nanos, heap) -> Results.print("netty-grpc", what, nanos, "ns"));
        }

        void next() {
            ClientCalls.asyncUnaryCall(channel.newCall(method, CallOptions.DEFAULT), request, this);
        }

        @Override
        public void onNext(byte[] answer) {
            if (answer.length != BYTES) {
                throw new IllegalStateException(answer.length + " bytes came");
            }
        }

        @Override
        public void onCompleted() {
            if (rounds.goesOn()) {
                next();
            } else {
                over.complete(null);
            }
        }

        @Override
        public void onError(Throwable thrown) {
            over.completeExceptionally(thrown);
        }
    }
}
