package dev.verbena.examples.services;

import dev.verbena.netty.RdmaIoHandler;
import dev.verbena.netty.RdmaServerChannel;

import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.ServerServiceDefinition;
import io.grpc.TlsServerCredentials;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.function.Consumer;

/** A service of gRPC over RDMA, for {@link GrpcClient}: each kind of call, with and without TLS. */
public final class GrpcServer {
    /** Of a message, in bytes; gRPC's own limit is 4 MiB. */
    static final int LONGEST = 8 << 20;

    private final Consumer<String> log;

    private GrpcServer(Consumer<String> log) {
        this.log = log;
    }

    /**
     * Serves until the process is stopped.
     *
     * @param arguments a device, an address of it, and a port; for TLS then the files with the
     *     server's certificate and its key
     * @throws IOException when the address cannot be listened to
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        InetSocketAddress address =
                new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        ServerCredentials credentials =
                arguments.length == 3
                        ? InsecureServerCredentials.create()
                        : TlsServerCredentials.create(
                                new File(arguments[3]), new File(arguments[4]));
        EventLoopGroup group =
                new MultiThreadIoEventLoopGroup(RdmaIoHandler.newFactory(arguments[0]));
        try {
            Server server = start(group, address, credentials, System.out::println);
            System.out.println("Listening on " + server.getListenSockets().getFirst());
            server.awaitTermination();
        } finally { // their threads would keep the process alive
            group.shutdownGracefully().sync();
        }
    }

    /**
     * Starts a server.
     *
     * @param group event loops over RDMA
     * @param address an address of their device; port 0 lets the kernel choose
     * @param credentials for TLS, or none
     * @param log gets a line when a client cancels a call
     * @return the server, to be shut down by the caller
     * @throws IOException when the address cannot be listened to
     */
    public static Server start(
            EventLoopGroup group,
            InetSocketAddress address,
            ServerCredentials credentials,
            Consumer<String> log)
            throws IOException {
        GrpcServer texts = new GrpcServer(log);
        return NettyServerBuilder.forAddress(address, credentials)
                .channelType(RdmaServerChannel.class)
                .bossEventLoopGroup(group)
                .workerEventLoopGroup(group)
                .maxInboundMessageSize(LONGEST)
                .addService(
                        ServerServiceDefinition.builder(TextMethods.SERVICE)
                                .addMethod(
                                        TextMethods.UPPER,
                                        ServerCalls.asyncUnaryCall(GrpcServer::upper))
                                .addMethod(
                                        TextMethods.COUNT,
                                        ServerCalls.asyncServerStreamingCall(texts::count))
                                .addMethod(
                                        TextMethods.JOIN,
                                        ServerCalls.asyncClientStreamingCall(GrpcServer::join))
                                .addMethod(
                                        TextMethods.CHAT,
                                        ServerCalls.asyncBidiStreamingCall(GrpcServer::chat))
                                .build())
                .build()
                .start();
    }

    private static void upper(String text, StreamObserver<String> answer) {
        answer.onNext(text.toUpperCase(Locale.ROOT));
        answer.onCompleted();
    }

    /** Counts from a number on, as fast as the client reads, until it cancels. */
    private void count(String from, StreamObserver<String> answers) {
        ServerCallStreamObserver<String> call = (ServerCallStreamObserver<String>) answers;
        long[] next = {Long.parseLong(from)};
        call.setOnReadyHandler(
                () -> {
                    while (call.isReady() && !call.isCancelled()) {
                        call.onNext(String.valueOf(next[0]++));
                    }
                });
        call.setOnCancelHandler(() -> log.accept("Cancelled before " + next[0]));
    }

    private static StreamObserver<String> join(StreamObserver<String> answer) {
        StringJoiner joined = new StringJoiner(" ");
        return new Requests(answer) {
            @Override
            public void onNext(String word) {
                joined.add(word);
            }

            @Override
            public void onCompleted() {
                answer.onNext(joined.toString());
                super.onCompleted();
            }
        };
    }

    private static StreamObserver<String> chat(StreamObserver<String> answers) {
        return new Requests(answers) {
            @Override
            public void onNext(String text) {
                answers.onNext("You say: " + text);
            }
        };
    }

    /** Of a call whose client streams. */
    private abstract static class Requests implements StreamObserver<String> {
        private final StreamObserver<String> answers;

        Requests(StreamObserver<String> answers) {
            this.answers = answers;
        }

        @Override
        public void onError(Throwable cancelled) {
            // gRPC has ended the call already
        }

        @Override
        public void onCompleted() {
            answers.onCompleted();
        }
    }
}
