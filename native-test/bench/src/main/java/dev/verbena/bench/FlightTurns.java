package dev.verbena.bench;

import static java.util.concurrent.TimeUnit.SECONDS;

import com.sun.management.OperatingSystemMXBean;

import io.grpc.ManagedChannel;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import org.apache.arrow.flight.BackpressureStrategy;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightGrpcUtils;
import org.apache.arrow.flight.FlightServer;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.NoOpFlightProducer;
import org.apache.arrow.flight.Ticket;
import org.apache.arrow.flight.grpc.NettyClientBuilder;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.Types.MinorType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;

import java.lang.management.ManagementFactory;
import java.util.List;

/**
 * Processor time of a MiB that Arrow Flight's {@code DoGet} brings: of the whole process, which is
 * client and server, over Verbena on the stand-ins for rdma-core, or over TCP on the loopback
 * interface. Prints one line for each round.
 */
@SuppressWarnings("try") // what Flight closes may be interrupted
public final class FlightTurns {
    private static final int ROWS = 128 << 10; // of a batch: 1 MiB
    private static final int BATCHES = 64; // of a stream
    private static final int WARM_UPS = 4; // gRPC and Flight are compiled then
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final Schema SCHEMA =
            new Schema(List.of(Field.notNullable("number", MinorType.BIGINT.getType())));

    private FlightTurns() {}

    /**
     * Measures one of them.
     *
     * @param arguments {@code verbena|nio|epoll|io_uring}, and options
     * @throws Exception when the connection fails
     */
    public static void main(String[] arguments) throws Exception {
        Options options =
                new Options(
                        "FlightTurns verbena|nio|epoll|io_uring [--ms N] [--rounds N]",
                        1,
                        arguments,
                        "--ms",
                        "--rounds");
        String what = options.argument(0);
        NettyTransport transport = NettyTransport.named(what);
        EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, transport.loops());
        try (BufferAllocator allocator = new RootAllocator();
                FlightServer server =
                        FlightServer.builder(
                                        allocator,
                                        Location.forGrpcInsecure(transport.address(), 0),
                                        new Producer(allocator))
                                .transportHint("netty.channelType", transport.server())
                                .transportHint("netty.bossEventLoopGroup", group)
                                .transportHint("netty.workerEventLoopGroup", group)
                                .build()
                                .start()) {
            ManagedChannel channel =
                    new NettyClientBuilder(
                                    allocator,
                                    Location.forGrpcInsecure(transport.address(), server.getPort()))
                            .build()
                            .channelType(transport.client())
                            .eventLoopGroup(group)
                            .build();
            try (FlightClient client = FlightGrpcUtils.createFlightClient(allocator, channel)) {
                int rounds = options.number("--rounds", 2);
                long nanos = options.number("--ms", 150) * 1_000_000L;
                for (int round = -WARM_UPS; round < rounds; round++) {
                    double each = round(client, round < 0 ? 2 * nanos : nanos);
                    if (round >= 0) {
                        Results.print("netty-flight", what, each, "ns");
                    }
                }
            }
        } finally {
            group.shutdownGracefully(0, 10, SECONDS).sync();
        }
    }

    private static double round(FlightClient client, long nanos) throws Exception {
        long rows = 0;
        long start = SYSTEM.getProcessCpuTime();
        long took;
        do {
            try (FlightStream stream = client.getStream(new Ticket(new byte[1]))) {
                while (stream.next()) {
                    rows += stream.getRoot().getRowCount();
                }
            }
            took = SYSTEM.getProcessCpuTime() - start;
        } while (took < nanos);
        return (double) took * ROWS / rows;
    }

    /** Sends the same batch again and again. */
    private static final class Producer extends NoOpFlightProducer {
        private final BufferAllocator allocator;

        Producer(BufferAllocator allocator) {
            this.allocator = allocator;
        }

        /** On a thread of its own: this one reports that there is room. */
        @Override
        public void getStream(CallContext context, Ticket ticket, ServerStreamListener listener) {
            BackpressureStrategy room = new BackpressureStrategy.CallbackBackpressureStrategy();
            room.register(listener);
            Thread.startVirtualThread(() -> send(listener, room));
        }

        private void send(ServerStreamListener listener, BackpressureStrategy room) {
            try (VectorSchemaRoot root = VectorSchemaRoot.create(SCHEMA, allocator)) {
                BigIntVector vector = (BigIntVector) root.getVector(0);
                vector.allocateNew(ROWS);
                for (int i = 0; i < ROWS; i++) {
                    vector.set(i, i);
                }
                root.setRowCount(ROWS);
                listener.start(root);
                for (int i = 0; i < BATCHES; i++) {
                    if (room.waitForListener(60_000) != BackpressureStrategy.WaitResult.READY) {
                        throw new IllegalStateException("The client does not read");
                    }
                    listener.putNext();
                }
                listener.completed();
            } catch (RuntimeException e) {
                listener.error(e);
            }
        }
    }
}
