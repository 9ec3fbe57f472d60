package dev.verbena.nativetest;

import static org.apache.arrow.flight.BackpressureStrategy.WaitResult.READY;
import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.netty.RdmaChannel;
import dev.verbena.netty.RdmaServerChannel;
import dev.verbena.trust.Trust;

import io.grpc.ManagedChannel;

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
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.Types.MinorType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;

/** Unchanged Arrow Flight: columns in both directions, compared by checksums. */
@SuppressWarnings("try") // what Flight closes may be interrupted
@Timeout(1200)
class FlightTest {
    private static final int ROWS = 128 << 10; // of a batch: 1 MiB
    private static final int BATCHES = Trust.size(24, 4096);
    private static final Schema SCHEMA =
            new Schema(List.of(Field.notNullable("number", MinorType.BIGINT.getType())));

    /** A column of random numbers, in batches, and the checksum of its bytes. */
    private static final class Numbers implements AutoCloseable {
        final VectorSchemaRoot root;
        final CRC32C sum = new CRC32C();
        long rows;
        private final SplittableRandom random;

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
            ArrowBuf data = vector().getDataBuffer();
            ByteBuffer bytes = data.nioBuffer(0, root.getRowCount() * 8);
            sum.update(bytes);
        }

        @Override
        public String toString() {
            return rows + " rows, checksum " + Long.toHexString(sum.getValue());
        }

        @Override
        public void close() {
            root.close();
        }
    }

    /** Sends and takes numbers; its answers to both say what they were. */
    private static final class Producer extends NoOpFlightProducer {
        private final BufferAllocator allocator;
        final StringBuffer sent = new StringBuffer();

        Producer(BufferAllocator allocator) {
            this.allocator = allocator;
        }

        /** Sends on a thread of its own: this one reports that there is room. */
        @Override
        public void getStream(CallContext context, Ticket ticket, ServerStreamListener listener) {
            BackpressureStrategy room = new BackpressureStrategy.CallbackBackpressureStrategy();
            room.register(listener);
            Thread.startVirtualThread(() -> send(listener, room));
        }

        private void send(ServerStreamListener listener, BackpressureStrategy room) {
            try (Numbers numbers = new Numbers(VectorSchemaRoot.create(SCHEMA, allocator), 5)) {
                listener.start(numbers.root);
                for (int i = 0; i < BATCHES; i++) {
                    assertThat(room.waitForListener(60_000)).isEqualTo(READY);
                    numbers.next();
                    listener.putNext();
                }
                sent.append(numbers);
                listener.completed();
            }
        }

        @Override
        public Runnable acceptPut(
                CallContext context, FlightStream stream, StreamListener<PutResult> results) {
            return () -> {
                Numbers numbers = new Numbers(stream.getRoot(), 0);
                while (stream.next()) {
                    numbers.add();
                }
                byte[] text = numbers.toString().getBytes(StandardCharsets.US_ASCII);
                try (ArrowBuf answer = allocator.buffer(text.length)) {
                    answer.writeBytes(text);
                    results.onNext(PutResult.metadata(answer));
                }
                results.onCompleted();
            };
        }
    }

    @Test
    void columnsArriveAsTheyWereSent() throws Exception {
        try (NettySides sides = new NettySides(1);
                BufferAllocator allocator = new RootAllocator()) {
            Producer producer = new Producer(allocator);
            try (FlightServer server =
                    FlightServer.builder(
                                    allocator,
                                    Location.forGrpcInsecure(
                                            sides.address.getAddress().getHostAddress(), 0),
                                    producer)
                            .transportHint("netty.channelType", RdmaServerChannel.class)
                            .transportHint("netty.bossEventLoopGroup", sides.servers)
                            .transportHint("netty.workerEventLoopGroup", sides.servers)
                            .build()
                            .start()) {
                ManagedChannel channel =
                        new NettyClientBuilder(
                                        allocator,
                                        Location.forGrpcInsecure(
                                                sides.address.getAddress().getHostAddress(),
                                                server.getPort()))
                                .build()
                                .channelType(RdmaChannel.class)
                                .eventLoopGroup(sides.clients)
                                .build();
                try (FlightClient client = FlightGrpcUtils.createFlightClient(allocator, channel)) {
                    get(client, producer);
                    put(client, allocator);
                }
            }
        }
    }

    private static void get(FlightClient client, Producer producer) throws Exception {
        try (FlightStream stream = client.getStream(new Ticket(new byte[1]))) {
            Numbers numbers = new Numbers(stream.getRoot(), 0);
            while (stream.next()) {
                numbers.add();
            }
            assertThat(numbers.rows).isEqualTo((long) BATCHES * ROWS);
            assertThat(numbers).hasToString(producer.sent.toString());
        }
    }

    private static void put(FlightClient client, BufferAllocator allocator) {
        StringBuffer answer = new StringBuffer();
        try (Numbers numbers = new Numbers(VectorSchemaRoot.create(SCHEMA, allocator), 6)) {
            FlightClient.ClientStreamListener listener =
                    client.startPut(
                            FlightDescriptor.path("numbers"),
                            numbers.root,
                            new AsyncPutListener() {
                                @Override
                                public void onNext(PutResult result) {
                                    ArrowBuf text = result.getApplicationMetadata();
                                    byte[] bytes = new byte[(int) text.readableBytes()];
                                    text.getBytes(0, bytes);
                                    answer.append(new String(bytes, StandardCharsets.US_ASCII));
                                }
                            });
            for (int i = 0; i < BATCHES; i++) {
                numbers.next();
                listener.putNext();
            }
            listener.completed();
            listener.getResult();
            assertThat(answer).hasToString(numbers.toString());
        }
    }
}
