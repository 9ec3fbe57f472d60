package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.trust.Trust;

import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightServer;
import org.apache.arrow.flight.Location;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Unchanged Arrow Flight: columns in both directions, compared by checksums. */
@SuppressWarnings("try") // what Flight closes may be interrupted
@Timeout(1200)
class FlightTest {
    private static final int BATCHES = Trust.size(24, 4096); // of 1 MiB

    @Test
    void columnsArriveAsTheyWereSent() throws Exception {
        List<String> ofServer = new CopyOnWriteArrayList<>();
        try (NettySides sides = new NettySides(1);
                BufferAllocator allocator = new RootAllocator()) {
            String host = sides.address.getAddress().getHostAddress();
            try (FlightServer server =
                            Columns.serve(
                                    allocator,
                                    sides.servers,
                                    Location.forGrpcInsecure(host, 0),
                                    ofServer::add);
                    FlightClient client =
                            Columns.connect(
                                    allocator,
                                    sides.clients,
                                    Location.forGrpcInsecure(host, server.getPort()))) {
                String got = Columns.get(client, BATCHES);
                assertThat(got).startsWith("DoGet: " + (long) BATCHES * Columns.ROWS + " rows");
                String put = Columns.put(client, allocator, BATCHES);
                assertThat(ofServer).containsExactly(got, put);
            }
        }
    }
}
