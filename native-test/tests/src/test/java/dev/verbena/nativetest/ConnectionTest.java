package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.ConnectionInfo;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.SharedEndpoint;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.opentest4j.TestAbortedException;

import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Connections between two sides of this library, by IP address. */
@NeedsDevices
@Timeout(600)
class ConnectionTest {
    /** {@code -Dverbena.connections=10000} for a longer look. */
    private static final int CONNECTIONS = Integer.getInteger("verbena.connections", 100);

    private static final int ROUNDS = 5;

    private static final QueuePairLimits SMALL = QueuePairLimits.depths(2, 2);
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(16, 16);

    private final Pair pair = new Pair(LIMITS);
    private final Pair.Side client = pair.left;
    private final Pair.Side server = pair.right;
    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();

    @AfterEach
    void close() {
        pair.close();
    }

    private InetSocketAddress any(Pair.Side side) {
        return new InetSocketAddress(side.adapter.gid().gid().gid().toInetAddress(), 0);
    }

    private Connector request() throws InterruptedException {
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as("a request").isNotNull();
        return request;
    }

    @Test
    void connectsAndSendsBothWays() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            assertThat(listener.localAddress().getPort()).isPositive();
            var connecting =
                    connector.connectAsync(
                            client.queuePair,
                            listener.localAddress(),
                            ConnectionOptions.DEFAULTS.withPrivateData(new byte[] {1, 2, 0}));
            try (Connector accepted = request()) {
                assertThat(accepted.connectionData().privateData()).containsExactly(1, 2, 0);
                assertThat(accepted.connectionData().exact()).isTrue();
                var accepting =
                        accepted.acceptAsync(
                                server.queuePair,
                                ConnectionOptions.DEFAULTS.withPrivateData(new byte[] {9}));
                connecting.get(30, TimeUnit.SECONDS);
                assertThat(connector.connectionData().privateData()).containsExactly(9);
                assertThat(accepting).isNotDone();
                connector.completeConnect();
                accepting.get(30, TimeUnit.SECONDS);
                assertThat(client.adapter.connections())
                        .contains(established(connector, client.queuePair, false));
                assertThat(server.adapter.connections())
                        .contains(established(accepted, server.queuePair, true));
                var to = server.memory(64);
                var from = client.filled(64, 7);
                assertThat(server.queuePair.receive(1, Pair.whole(to)).status())
                        .isEqualTo(Status.SUCCESS);
                assertThat(client.queuePair.send(2, Pair.whole(from)).status())
                        .isEqualTo(Status.SUCCESS);
                assertThat(server.ends(1)).containsExactly("RECEIVE 1 SUCCESS");
                assertThat(client.ends(1)).containsExactly("SEND 2 SUCCESS");
                assertThat(to.memory().mismatch(from.memory())).isEqualTo(-1);
                CompletableFuture<Status> over = new CompletableFuture<>();
                accepted.onDisconnect(over::complete);
                connector.disconnect();
                assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
                accepted.disconnect();
            }
        }
    }

    private static ConnectionInfo established(Connector one, QueuePair by, boolean inbound) {
        return new ConnectionInfo(
                one.localAddress(),
                one.peerAddress(),
                ConnectionInfo.State.ESTABLISHED,
                inbound,
                by.address().queuePairNumber());
    }

    private CompletableFuture<Void> connecting(Connector connector, Listener listener) {
        return connector.connectAsync(
                client.queuePair, listener.localAddress(), ConnectionOptions.DEFAULTS);
    }

    /** Connects the two sides of the pair, each with its connector. */
    private Connector[] connect(Listener listener, QueuePair here, QueuePair there)
            throws Exception {
        Connector connector = client.adapter.createConnector();
        var connecting =
                connector.connectAsync(here, listener.localAddress(), ConnectionOptions.DEFAULTS);
        Connector accepted = request();
        var accepting = accepted.acceptAsync(there, ConnectionOptions.DEFAULTS);
        connecting.get(30, TimeUnit.SECONDS);
        connector.completeConnect();
        accepting.get(30, TimeUnit.SECONDS);
        return new Connector[] {connector, accepted};
    }

    private static VerbenaException failure(CompletableFuture<?> future) {
        return (VerbenaException)
                catchThrowableOfType(
                                ExecutionException.class, () -> future.get(30, TimeUnit.SECONDS))
                        .getCause();
    }

    private static VerbenaException failure(ThrowingCallable call) {
        return catchThrowableOfType(VerbenaException.class, call);
    }

    @Test
    void privateDataOfEveryLengthComeAsTheyWere() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            for (int length : new int[] {0, 1, 43, 44}) {
                byte[] said = new byte[length];
                new Random(length).nextBytes(said);
                byte[] refused = new byte[length * 3];
                new Random(-length).nextBytes(refused);
                var connecting =
                        connector.connectAsync(
                                client.queuePair,
                                listener.localAddress(),
                                ConnectionOptions.DEFAULTS.withPrivateData(said));
                try (Connector request = request()) {
                    assertThat(request.connectionData().privateData()).isEqualTo(said);
                    request.reject(refused);
                }
                assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
                assertThat(connector.connectionData().privateData()).isEqualTo(refused);
            }
        }
    }

    @Test
    void theConnectingSideMayRefuseLate() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            var connecting = connecting(connector, listener);
            try (Connector request = request()) {
                byte[] most = new byte[184];
                new Random(1).nextBytes(most);
                var accepting =
                        request.acceptAsync(
                                server.queuePair, ConnectionOptions.DEFAULTS.withPrivateData(most));
                connecting.get(30, TimeUnit.SECONDS);
                assertThat(connector.connectionData().privateData()).isEqualTo(most);
                connector.reject(new byte[] {5});
                assertThat(failure(accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
            }
        }
    }

    @Test
    void aServerThatNeverAnswersIsGivenUp() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            ConnectionOptions soon = ConnectionOptions.DEFAULTS.withDeadline(Duration.ofSeconds(3));
            VerbenaException e =
                    failure(
                            () ->
                                    connector.connect(
                                            client.queuePair, listener.localAddress(), soon));
            assertThat(e.status()).isEqualTo(Status.IO_TIMEOUT);
            try (Connector request = request()) {
                // The kernel reports no end of a request that was not accepted; accepting fails.
                assertThat(failure(() -> request.accept(server.queuePair)).status())
                        .isEqualTo(Status.CONNECTION_ABORTED);
            }
        }
    }

    @Test
    void aClientThatNeverCompletesIsGivenUp() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            var connecting = connecting(connector, listener);
            try (Connector request = request()) {
                ConnectionOptions soon =
                        ConnectionOptions.DEFAULTS.withDeadline(Duration.ofMillis(700));
                assertThat(failure(() -> request.accept(server.queuePair, soon)).status())
                        .isEqualTo(Status.IO_TIMEOUT);
            }
            connecting.get(30, TimeUnit.SECONDS);
            Deadline deadline = Deadline.of("word that the server gave up");
            while (!connector.toString().contains("(")) {
                deadline.check();
            }
            assertThat(failure(() -> connector.completeConnect()).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
        }
    }

    @Test
    void outstandingRequestsEndBeforeADisconnect() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add)) {
            Connector[] both = connect(listener, client.queuePair, server.queuePair);
            var to = server.memory(1 << 16, Access.REMOTE_WRITE);
            var from = client.filled(1 << 16, 3);
            for (int i = 0; i < 4; i++) {
                assertThat(
                                client.queuePair
                                        .write(
                                                i,
                                                Pair.whole(from),
                                                to.memory().address(),
                                                to.remoteToken(),
                                                OpFlags.SILENT_SUCCESS)
                                        .status())
                        .isEqualTo(Status.SUCCESS);
            }
            both[0].disconnect();
            assertThat(client.endsNow()).as("silent, and successful").isEmpty();
            assertThat(to.memory().mismatch(from.memory())).isEqualTo(-1);
            both[0].close();
            both[1].close();
        }
    }

    @Test
    void thePeersDisconnectCancelsNothing() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add)) {
            Connector[] both = connect(listener, client.queuePair, server.queuePair);
            CompletableFuture<Status> over = new CompletableFuture<>();
            both[1].onDisconnect(over::complete);
            server.queuePair.receive(3, Pair.whole(server.memory(64))).orThrow();
            both[0].disconnect();
            assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(both[1].disconnectReason())
                    .isEqualTo("RDMA_CM_EVENT_DISCONNECTED, status 0");
            assertThat(server.endsNow()).isEmpty();
            assertThat(server.queuePair.send(1, Pair.whole(server.memory(64))).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            both[1].disconnect();
            assertThat(server.ends(1)).containsExactly("RECEIVE 3 CANCELLED");
            both[0].close();
            both[1].close();
        }
    }

    /**
     * The initiator gets ACCESS_VIOLATION, and both sides hear that the connection is over,
     * although neither disconnects: its own side as soon as it polls, the peer by the disconnect
     * that follows.
     */
    @ParameterizedTest
    @CsvSource({
        "write, true",
        "write, false",
        "silent write, true",
        "read, true",
        "read, false",
    })
    void aBadTokenEndsTheConnectionAtBothEnds(String request, boolean ofTheConnectingSide)
            throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add)) {
            Connector[] both = connect(listener, client.queuePair, server.queuePair);
            Pair.Side here = ofTheConnectingSide ? client : server;
            Pair.Side there = ofTheConnectingSide ? server : client;
            Connector ours = both[ofTheConnectingSide ? 0 : 1];
            Connector theirs = both[ofTheConnectingSide ? 1 : 0];
            BlockingQueue<Status> heardHere = new LinkedBlockingQueue<>();
            BlockingQueue<Status> heardThere = new LinkedBlockingQueue<>();
            ours.onDisconnect(heardHere::add);
            theirs.onDisconnect(heardThere::add);
            MemoryRegion memory = here.filled(64, 1);
            MemoryRegion target = there.filled(64, 2);
            byte[] before = target.memory().toArray(ValueLayout.JAVA_BYTE);
            there.queuePair.receive(7, Pair.whole(there.memory(64))).orThrow();
            here.queuePair.receive(8, Pair.whole(here.memory(64))).orThrow();

            BufferList bytes = Pair.whole(memory);
            long at = target.memory().address();
            int badToken = target.remoteToken() ^ 0x5500;
            // Posted with the send, which would be refused after the peer's disconnect.
            OpFlags flags = OpFlags.DEFER;
            if (request.startsWith("silent")) {
                flags = flags.and(OpFlags.SILENT_SUCCESS);
            }
            boolean reads = request.equals("read");
            PostResult posted =
                    reads
                            ? here.queuePair.read(1, bytes, at, badToken, flags)
                            : here.queuePair.write(1, bytes, at, badToken, flags);
            posted.orThrow();
            here.queuePair.send(2, new BufferList(1)).orThrow();
            Completions failed = here.completion();
            assertThat(failed.context(0)).isEqualTo(1);
            assertThat(failed.type(0)).isEqualTo(reads ? OperationType.READ : OperationType.WRITE);
            assertThat(failed.status(0)).isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(here.ends(2))
                    .containsExactlyInAnyOrder("SEND 2 CANCELLED", "RECEIVE 8 CANCELLED");

            List<Status> reasons =
                    Arrays.asList(
                            heardHere.poll(10, TimeUnit.SECONDS),
                            heardThere.poll(10, TimeUnit.SECONDS));
            assertThat(reasons)
                    .as(
                            "reasons at this end and at the peer: the first to see the failure disconnects")
                    .contains(Status.CONNECTION_ABORTED)
                    .isSubsetOf(Status.CONNECTION_ABORTED, Status.CONNECTION_INVALID);
            for (Pair.Side side : List.of(here, there)) {
                assertThat(side.queuePair.connected()).isFalse();
                assertThat(side.queuePair.send(3, new BufferList(1)).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
            }
            assertThat(target.memory().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(before);

            theirs.disconnect();
            assertThat(there.ends(1)).containsExactly("RECEIVE 7 CANCELLED");
            ours.disconnect();
            ours.close();
            theirs.close();
            assertThat(heardHere).isEmpty();
            assertThat(heardThere).isEmpty();
        }
    }

    /** As soon as it polls: its queue pair failed by the peer's mistake. */
    @Test
    void aBadTokenFailsTheReceivesOfTheSideThatGotIt() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add)) {
            Connector[] both = connect(listener, client.queuePair, server.queuePair);
            BlockingQueue<Status> heardByClient = new LinkedBlockingQueue<>();
            BlockingQueue<Status> heardByServer = new LinkedBlockingQueue<>();
            both[0].onDisconnect(heardByClient::add);
            both[1].onDisconnect(heardByServer::add);
            MemoryRegion target = server.filled(64, 2);
            server.queuePair.receive(7, Pair.whole(server.memory(64))).orThrow();
            client.queuePair
                    .write(
                            1,
                            Pair.whole(client.filled(64, 1)),
                            target.memory().address(),
                            target.remoteToken() ^ 0x5500,
                            OpFlags.NONE)
                    .orThrow();
            // Not polled at the client: nobody has disconnected until the server does.
            assertThat(server.ends(1)).containsExactly("RECEIVE 7 CANCELLED");
            assertThat(heardByServer.poll(10, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(heardByClient.poll(10, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(client.ends(1)).containsExactly("WRITE 1 ACCESS_VIOLATION");
            both[0].disconnect();
            both[1].disconnect();
            both[0].close();
            both[1].close();
        }
    }

    @Test
    void aPausedListenerIsNobodyAndKeepsItsAddress() throws Exception {
        Listener listener = server.adapter.listen(any(server), 0, requests::add);
        InetSocketAddress address = listener.localAddress();
        listener.pause();
        try (Connector connector = client.adapter.createConnector()) {
            assertThat(failure(() -> connector.connect(client.queuePair, address)))
                    .hasMessageContaining("nobody listens");
        }
        assertThat(failure(() -> server.adapter.listen(address, 0, c -> {})).status())
                .isEqualTo(Status.SHARING_VIOLATION);
        listener.resume();
        Connector[] both = connect(listener, client.queuePair, server.queuePair);
        listener.close(); // frees the address, while a connector that came from it lives
        server.adapter.listen(address, 0, c -> {}).close();
        both[0].disconnect();
        both[0].close();
        both[1].close();
    }

    @Test
    void connectorsShareAnEndpoint() throws Exception {
        try (Listener one = server.adapter.listen(any(server), 0, requests::add);
                Listener two = server.adapter.listen(any(server), 0, requests::add);
                SharedEndpoint endpoint = client.adapter.createSharedEndpoint(any(client));
                QueuePair second =
                        client.domain.createQueuePair(
                                client.completionQueue, client.completionQueue, SMALL);
                Connector first = client.adapter.createConnector();
                Connector other = client.adapter.createConnector()) {
            var shared = ConnectionOptions.DEFAULTS.withSharedEndpoint(endpoint);
            var connecting = first.connectAsync(client.queuePair, one.localAddress(), shared);
            try (Connector request = request()) {
                assertThat(request.peerAddress()).isEqualTo(endpoint.localAddress());
                var accepting = request.acceptAsync(server.queuePair, ConnectionOptions.DEFAULTS);
                connecting.get(30, TimeUnit.SECONDS);
                first.completeConnect();
                accepting.get(30, TimeUnit.SECONDS);
                other.connectAsync(second, two.localAddress(), shared);
                try (Connector alike = request()) {
                    assertThat(alike.peerAddress()).isEqualTo(endpoint.localAddress());
                }
            }
        }
    }

    @Test
    void connectsByIpv6() throws Exception {
        // The devices' GIDs of link-local addresses need their interface as scope.
        InetAddress here = linkLocal(client);
        InetAddress there = linkLocal(server);
        try (Listener listener =
                        server.adapter.listen(new InetSocketAddress(there, 0), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            InetSocketAddress peer =
                    new InetSocketAddress(
                            Inet6Address.getByAddress(
                                    null, there.getAddress(), ((Inet6Address) here).getScopeId()),
                            listener.localAddress().getPort());
            var connecting =
                    connector.connectAsync(
                            client.queuePair,
                            peer,
                            ConnectionOptions.DEFAULTS.withLocalAddress(
                                    new InetSocketAddress(here, 0)));
            try (Connector request = request()) {
                var accepting = request.acceptAsync(server.queuePair, ConnectionOptions.DEFAULTS);
                connecting.get(30, TimeUnit.SECONDS);
                connector.completeConnect();
                accepting.get(30, TimeUnit.SECONDS);
                assertThat(request.peerAddress().getAddress()).isInstanceOf(Inet6Address.class);
            }
        }
    }

    /** Of the network interface that the side's device stands on. */
    private static InetAddress linkLocal(Pair.Side side) throws Exception {
        InetAddress ip = side.adapter.gid().gid().gid().toInetAddress();
        NetworkInterface on = NetworkInterface.getByInetAddress(ip);
        return on.inetAddresses()
                .filter(a -> a instanceof Inet6Address && a.isLinkLocalAddress())
                .findFirst()
                .orElseGet(
                        () -> {
                            System.err.println("SKIPPED: " + on + " has no link-local address");
                            throw new TestAbortedException("no link-local address on " + on);
                        });
    }

    @Test
    void comesAndGoesWithoutATrace() throws Exception {
        churn(CONNECTIONS / 4); // everything loaded and linked that ever will be
        long descriptors = descriptors();
        int threads = ManagementFactory.getThreadMXBean().getThreadCount();
        long heapGrowth = Long.MAX_VALUE;
        long residentGrowth = Long.MAX_VALUE;
        // What leaks does so in every round; the JVM's own compiling and heap do not.
        for (int round = 0;
                round < ROUNDS && (heapGrowth >= 200 || residentGrowth >= 20_000);
                round++) {
            long heap = heap();
            long resident = residentKilobytes();
            churn(CONNECTIONS);
            heapGrowth = Math.min(heapGrowth, (heap() - heap) / CONNECTIONS);
            residentGrowth =
                    Math.min(residentGrowth, (residentKilobytes() - resident) * 1024 / CONNECTIONS);
            System.out.printf(
                    "%d connections: at most %d bytes of heap and %d resident for each%n",
                    CONNECTIONS, heapGrowth, residentGrowth);
        }
        assertThat(descriptors()).as("file descriptors").isEqualTo(descriptors);
        // The last callbacks' threads are on their way out; the JVM's own come and go.
        Deadline deadline = Deadline.of("end of threads");
        while (ManagementFactory.getThreadMXBean().getThreadCount() > threads + 2) {
            deadline.check();
        }
        assertThat(heapGrowth).as("heap bytes for each").isLessThan(200);
        assertThat(residentGrowth).as("resident bytes for each").isLessThan(20_000);
    }

    private void churn(int connections) throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add)) {
            for (int i = 0; i < connections; i++) {
                try (QueuePair here =
                                client.domain.createQueuePair(
                                        client.completionQueue, client.completionQueue, SMALL);
                        QueuePair there =
                                server.domain.createQueuePair(
                                        server.completionQueue, server.completionQueue, SMALL)) {
                    Connector[] both = connect(listener, here, there);
                    if (i % 2 == 0) {
                        both[0].disconnect();
                    } // or cut by the close
                    both[0].close();
                    both[1].close();
                }
            }
        }
    }

    private static long descriptors() throws IOException {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.count();
        }
    }

    private static long heap() {
        long least = Long.MAX_VALUE;
        for (int i = 0; i < 3; i++) {
            System.gc();
            Runtime runtime = Runtime.getRuntime();
            least = Math.min(least, runtime.totalMemory() - runtime.freeMemory());
        }
        return least;
    }

    private static long residentKilobytes() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmRSS:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
                .sum();
    }

    @Test
    void isRefusedWhereNobodyListens() {
        InetSocketAddress nobody = new InetSocketAddress(any(server).getAddress(), 7777);
        try (Connector connector = client.adapter.createConnector()) {
            assertThatThrownBy(() -> connector.connect(client.queuePair, nobody))
                    .hasMessageContaining("nobody listens")
                    .extracting(e -> ((VerbenaException) e).status())
                    .isEqualTo(Status.CONNECTION_REFUSED);
        }
    }

    @Test
    void explainsLoopback() {
        InetSocketAddress loopback = new InetSocketAddress(InetAddress.getLoopbackAddress(), 7471);
        try (Connector connector = client.adapter.createConnector()) {
            assertThatThrownBy(() -> connector.connect(client.queuePair, loopback))
                    .hasMessageContaining("loopback");
        }
    }
}
