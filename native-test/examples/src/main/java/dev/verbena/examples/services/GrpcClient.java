package dev.verbena.examples.services;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaIoHandler;

import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusException;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.BlockingClientCall;
import io.grpc.stub.ClientCalls;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Calls a {@link GrpcServer} over RDMA in each of gRPC's ways. */
public final class GrpcClient implements AutoCloseable {
    private final ManagedChannel channel;
    private final Duration timeout;

    /**
     * Connects at the first call.
     *
     * @param group event loops over RDMA
     * @param server where the server listens
     * @param credentials for TLS, or none
     * @param timeout of each call
     */
    public GrpcClient(
            EventLoopGroup group,
            InetSocketAddress server,
            ChannelCredentials credentials,
            Duration timeout) {
        channel =
                NettyChannelBuilder.forAddress(server, credentials)
                        .channelType(RdmaChannel.class)
                        .eventLoopGroup(group)
                        .maxInboundMessageSize(GrpcServer.LONGEST)
                        .build();
        this.timeout = timeout;
    }

    /**
     * Makes one call of each kind.
     *
     * @param arguments a device, the server's address and port, and for TLS the file with the
     *     certificate to trust
     * @throws IOException when that file cannot be read
     * @throws InterruptedException when it is interrupted
     * @throws StatusException when a call fails, or takes a minute
     */
    public static void main(String[] arguments)
            throws IOException, InterruptedException, StatusException {
        InetSocketAddress server =
                new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        ChannelCredentials credentials =
                arguments.length == 3
                        ? InsecureChannelCredentials.create()
                        : TlsChannelCredentials.newBuilder()
                                .trustManager(new File(arguments[3]))
                                .build();
        EventLoopGroup group =
                new MultiThreadIoEventLoopGroup(1, RdmaIoHandler.newFactory(arguments[0]));
        try (GrpcClient client =
                new GrpcClient(group, server, credentials, Duration.ofMinutes(1))) {
            System.out.println(client.upper("Hello, RDMA"));
            System.out.println(client.count(7, 3));
            System.out.println(client.join("A", "stream", "of", "words"));
            System.out.println(client.chat("What?", "Why?"));
        } finally {
            group.shutdownGracefully().sync();
        }
    }

    /**
     * One question, one answer.
     *
     * @param text to be sent
     * @return it in upper case
     */
    public String upper(String text) {
        return ClientCalls.blockingUnaryCall(channel, TextMethods.UPPER, options(), text);
    }

    /**
     * The server streams, without end: the client cancels when it has enough.
     *
     * @param from the first number
     * @param many of them
     * @return as many numbers
     * @throws InterruptedException when it is interrupted
     * @throws StatusException when the call fails, or takes too long
     */
    public List<String> count(long from, int many) throws InterruptedException, StatusException {
        BlockingClientCall<String, String> call =
                ClientCalls.blockingV2ServerStreamingCall(
                        channel, TextMethods.COUNT, options(), String.valueOf(from));
        List<String> numbers = new ArrayList<>();
        try {
            while (numbers.size() < many) {
                numbers.add(call.read());
            }
            return numbers;
        } finally {
            call.cancel("enough", null);
            drain(call);
        }
    }

    /** Reads what has come meanwhile: gRPC 1.79 does not release its buffers otherwise. */
    private static void drain(BlockingClientCall<String, String> call) throws InterruptedException {
        try {
            while (call.read() != null) {
                continue;
            }
        } catch (StatusException cancelled) {
            return;
        }
    }

    /**
     * The client streams.
     *
     * @param words to be sent, one a message
     * @return the words in one text
     * @throws InterruptedException when it is interrupted
     * @throws StatusException when the call fails, or takes too long
     */
    public String join(String... words) throws InterruptedException, StatusException {
        BlockingClientCall<String, String> call =
                ClientCalls.blockingClientStreamingCall(channel, TextMethods.JOIN, options());
        for (String word : words) {
            call.write(word);
        }
        call.halfClose();
        return call.read();
    }

    /**
     * Both stream; here each question waits for its answer.
     *
     * @param texts to be sent
     * @return the answers
     * @throws InterruptedException when it is interrupted
     * @throws StatusException when the call fails, or takes too long
     */
    public List<String> chat(String... texts) throws InterruptedException, StatusException {
        BlockingClientCall<String, String> call =
                ClientCalls.blockingBidiStreamingCall(channel, TextMethods.CHAT, options());
        List<String> answers = new ArrayList<>();
        for (String text : texts) {
            call.write(text);
            answers.add(call.read());
        }
        call.halfClose();
        return answers;
    }

    private CallOptions options() {
        return CallOptions.DEFAULT.withDeadlineAfter(timeout); // which runs from now
    }

    /** Ends the connection, and with it what was not answered yet. */
    @Override
    public void close() {
        channel.shutdownNow();
    }
}
