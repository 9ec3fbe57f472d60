package dev.verbena.nativetest;

import static org.apache.arrow.flight.BackpressureStrategy.WaitResult.READY;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaIoHandler;
import dev.verbena.netty.RdmaServerChannel;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;

import org.apache.arrow.flight.AsyncPutListener;
import org.apache.arrow.flight.BackpressureStrategy;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightGrpcUtils;
import org.apache.arrow.flight.FlightServer;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.NoOpFlightProducer;
import org.apache.arrow.flight.PutResult;
import org.apache.arrow.flight.Ticket;
import org.apache.arrow.flight.grpc.NettyClientBuilder;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.Types.MinorType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.zip.CRC32C;

/**
 * Columns of random numbers in both directions through Arrow Flight, which is unchanged, over RDMA.
 * Both sides report the same line for what one has sent and the other has received: its length and
 * checksum.
 */
@SuppressWarnings("try") // what Flight closes may be interrupted
public final class Columns {
    static final int ROWS = 128 << 10; // of a batch: 1 MiB
    private static final Schema SCHEMA =
            new Schema(List.of(Field.notNullable("number", MinorType.BIGINT.getType())));

    private Columns() {}

    /**
     * Runs one side: a server until it is stopped, or a client that gets and puts as many batches.
     *
     * @param words {@code DEVICE ADDRESS PORT} for a server, and {@code BATCHES} for a client
     */
    public static void main(String[] words) throws Exception {
        EventLoopGroup group =
                new MultiThreadIoEventLoopGroup(1, RdmaIoHandler.newFactory(words[0]));
        Location location = Location.forGrpcInsecure(words[1], Integer.parseInt(words[2]));
        try (BufferAllocator allocator = new RootAllocator()) {
            if (words.length == 3) {
                try (FlightServer server = serve(allocator, group, location, System.out::println)) {
                    System.out.println("Listening on port " + server.getPort());
                    server.awaitTermination();
                }
            } else {
                int batches = Integer.parseInt(words[3]);
                try (FlightClient client = connect(allocator, group, location)) {
                    System.out.println(get(client, batches));
                    System.out.println(put(client, allocator, batches));
                }
            }
        } finally {
            group.shutdownGracefully().sync();
        }
    }

    static FlightServer serve(
            BufferAllocator allocator,
            EventLoopGroup group,
            Location location,
            Consumer<String> log)
            throws IOException {
        return FlightServer.builder(allocator, location, new Producer(allocator, log))
                .transportHint("netty.channelType", RdmaServerChannel.class)
                .transportHint("netty.bossEventLoopGroup", group)
                .transportHint("netty.workerEventLoopGroup", group)
                .build()
                .start();
    }

    static FlightClient connect(
            BufferAllocator allocator, EventLoopGroup group, Location location) {
        return FlightGrpcUtils.createFlightClient(
                allocator,
                new NettyClientBuilder(allocator, location)
                        .build()
                        .channelType(RdmaChannel.class)
                        .eventLoopGroup(group)
                        .build());
    }

    /** Has the server send as many batches. */
    static String get(FlightClient client, int batches) throws Exception {
        Ticket ticket = new Ticket(String.valueOf(batches).getBytes(StandardCharsets.US_ASCII));
        try (FlightStream stream = client.getStream(ticket)) {
            return received("DoGet", stream);
        }
    }

    /** Sends as many batches to the server, and waits until it has them all. */
    static String put(FlightClient client, BufferAllocator allocator, int batches) {
        try (Numbers numbers = new Numbers(VectorSchemaRoot.create(SCHEMA, allocator), 6)) {
            FlightClient.ClientStreamListener listener =
                    client.startPut(
                            FlightDescriptor.path("numbers"), numbers.root, new AsyncPutListener());
            for (int i = 0; i < batches; i++) {
                numbers.next();
                listener.putNext();
            }
            listener.completed();
            listener.getResult();
            return numbers.line("DoPut");
        }
    }

    @SuppressWarnings("resource") // the root is the stream's
    private static String received(String call, FlightStream stream) {
        Numbers numbers = new Numbers(stream.getRoot(), 0);
        while (stream.next()) {
            numbers.add();
        }
        return numbers.line(call);
    }

    /** A column of random numbers, in batches, and the checksum of its bytes. */
    private static final class Numbers implements AutoCloseable {
        private final VectorSchemaRoot root;
        private final SplittableRandom random;
        private final CRC32C sum = new CRC32C();
        private long rows;

        Numbers(VectorSchemaRoot root, long seed) {
            this.root = root;
            random = new SplittableRandom(seed);
        }

        private BigIntVector vector() {
            return (BigIntVector) root.getVector(0);
        }

        /** Writes the next batch. */
        void next() {
            BigIntVector vector = vector();
            vector.allocateNew(ROWS);
            for (int i = 0; i < ROWS; i++) {
                vector.set(i, random.nextLong());
            }
            root.setRowCount(ROWS);
            add();
        }

        /** Counts the batch in the root. */
        void add() {
            rows += root.getRowCount();
            sum.update(vector().getDataBuffer().nioBuffer(0, root.getRowCount() * 8));
        }

        String line(String call) {
            return "%s: %d rows, checksum %08x".formatted(call, rows, sum.getValue());
        }

        @Override
        public void close() {
            root.close();
        }
    }

    /** Sends and takes numbers, and reports both. */
    private static final class Producer extends NoOpFlightProducer {
        private final BufferAllocator allocator;
        private final Consumer<String> log;

        Producer(BufferAllocator allocator, Consumer<String> log) {
            this.allocator = allocator;
            this.log = log;
        }

        /** Sends on a thread of its own: this one reports that there is room. */
        @Override
        public void getStream(CallContext context, Ticket ticket, ServerStreamListener listener) {
            int batches =
                    Integer.parseInt(new String(ticket.getBytes(), StandardCharsets.US_ASCII));
            BackpressureStrategy room = new BackpressureStrategy.CallbackBackpressureStrategy();
            room.register(listener);
            Thread.startVirtualThread(() -> send(batches, listener, room));
        }

        private void send(int batches, ServerStreamListener listener, BackpressureStrategy room) {
            try (Numbers numbers = new Numbers(VectorSchemaRoot.create(SCHEMA, allocator), 5)) {
                listener.start(numbers.root);
                for (int i = 0; i < batches; i++) {
                    BackpressureStrategy.WaitResult result = room.waitForListener(60_000);
                    if (result != READY) {
                        throw new IllegalStateException("The client does not read: " + result);
                    }
                    numbers.next();
                    listener.putNext();
                }
                log.accept(numbers.line("DoGet"));
                listener.completed();
            } catch (RuntimeException e) {
                listener.error(e);
            }
        }

        @Override
        public Runnable acceptPut(
                CallContext context, FlightStream stream, StreamListener<PutResult> results) {
            return () -> {
                log.accept(received("DoPut", stream));
                results.onCompleted();
            };
        }
    }
}
