package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.Gid;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** With rdma-core's own C programs at the other end. */
@NeedsDevices
@Timeout(120)
class InteroperationTest {
    private static final String CM_PROGRAMS = "rdmacm-utils";
    private static final String VERBS_PROGRAMS = "ibverbs-utils";

    // rping
    private static final String ROUNDS = "100";

    // rdma_client and rdma_server
    private static final int GREETING = 16;
    private static final QueuePairLimits GREETINGS =
            QueuePairLimits.depths(1, 1).withInlineBytes(GREETING);

    // ucmatose: 1,000 connections each way, so many at once
    private static final int CROWD = 250;
    private static final int RUNS = 4;
    private static final int MESSAGES = 2;
    private static final int MESSAGE_BYTES = 100;

    // ibv_rc_pingpong
    private static final int ITERATIONS = 1000;
    private static final int ITERATION_BYTES = 4096;

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final String javaDevice = RdmaDevices.active().getFirst();
    private final String cDevice = RdmaDevices.active().getLast();
    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private <T extends AutoCloseable> T closing(T one) {
        open.push(one);
        return one;
    }

    private CProgram program(String debianPackage, String... command) {
        return closing(CProgram.start(debianPackage, command));
    }

    private static Gid gid(String device) {
        try (Adapter adapter = Adapter.open(device)) {
            return adapter.gid().gid().gid();
        }
    }

    private static String ip(String device) {
        return address(device).getHostAddress();
    }

    private static InetAddress address(String device) {
        return gid(device).toInetAddress();
    }

    // ---- rping

    @ParameterizedTest
    @ValueSource(strings = {"64", "4096", "65535"})
    void servesRping(String size) throws Exception {
        ToolRun server = closing(ToolRun.ping("server", "--bind", ip(javaDevice), "--port", "0"));
        CProgram client =
                program(
                        CM_PROGRAMS,
                        "rping",
                        "-c",
                        "-V",
                        "-v",
                        "-a",
                        ip(javaDevice),
                        "-p",
                        "" + server.port(),
                        "-C",
                        ROUNDS,
                        "-S",
                        size);
        client.awaitEnd(Rping::endedWell);
        assertThat(server.exitCode()).as(server::toString).isZero();
        assertThat(server.toString())
                .contains(
                        "100 rounds of %,d bytes; all data was correct"
                                .formatted(Integer.parseInt(size)));
        assertThat(client.output().stream().filter(l -> l.startsWith("ping data: rdma-ping-")))
                .hasSize(100);
    }

    @ParameterizedTest
    @ValueSource(strings = {"64", "4096", "65535"})
    void pingsRping(String size) throws Exception {
        CProgram server =
                program(
                        CM_PROGRAMS,
                        "rping",
                        "-s",
                        "-v",
                        "-a",
                        ip(cDevice),
                        "-p",
                        "7175",
                        "-C",
                        ROUNDS,
                        "-S",
                        size);
        ToolRun client = ping(server, "7175", size);
        assertThat(client.exitCode()).as(() -> client + "\n" + server).isZero();
        server.awaitEnd(Rping::endedWell);
        assertThat(client.toString())
                .contains("100 rounds of", "all data came back as it was sent");
        List<String> seen =
                server.output().stream().filter(l -> l.startsWith("server ping data: ")).toList();
        assertThat(seen).hasSize(100);
        for (int i = 0; i < seen.size(); i++) {
            String text = "server ping data: rdma-ping-" + i + ": ";
            int letters =
                    Integer.parseInt(size) - 1 - (text.length() - "server ping data: ".length());
            assertThat(seen.get(i).equals(text + letters(i, letters)))
                    .as("the server saw the data of round %d: %s", i, seen.get(i))
                    .isTrue();
        }
    }

    /** What follows rping's text: A to z in a circle, beginning one further in each round. */
    private static String letters(int first, int count) {
        String circle =
                IntStream.rangeClosed('A', 'z')
                        .mapToObj(Character::toString)
                        .collect(Collectors.joining());
        int begin = first % circle.length();
        return circle.repeat(2 + count / circle.length()).substring(begin, begin + count);
    }

    /** The client, once the server listens. */
    private ToolRun ping(CProgram server, String port, String size) throws Exception {
        Deadline deadline = Deadline.of("rping that listens");
        while (true) {
            ToolRun client =
                    closing(
                            ToolRun.ping(
                                    "client", ip(cDevice),
                                    "--device", javaDevice,
                                    "--port", port,
                                    "--count", ROUNDS,
                                    "--size", size));
            client.exitCode();
            if (!client.foundNobody() || server.ended()) {
                return client;
            }
            deadline.check();
        }
    }

    @Test
    void pingsItself() throws Exception {
        ToolRun server =
                closing(
                        ToolRun.ping(
                                "server", "--bind", ip(cDevice), "--port", "0", "--clients", "2"));
        for (String way : List.of("--spin", "--verify")) {
            ToolRun client =
                    closing(
                            ToolRun.ping(
                                    "client",
                                    ip(cDevice),
                                    "--port",
                                    "" + server.port(),
                                    "--from",
                                    ip(javaDevice),
                                    way));
            assertThat(client.exitCode()).as(client::toString).isZero();
        }
        assertThat(server.exitCode()).as(server::toString).isZero();
    }

    /** {@code kill -9}, no goodbye of its own: its kernel says it. */
    @Test
    void aKilledPeerDisconnects() throws Exception {
        CProgram server =
                program(CM_PROGRAMS, "rping", "-s", "-P", "-a", ip(cDevice), "-p", "7176");
        Pair.Side side = side(QueuePairLimits.depths(4, 4));
        Connector connector = closing(side.adapter.createConnector());
        connect(connector, side.queuePair, new InetSocketAddress(ip(cDevice), 7176), server);
        connector.completeConnect();
        CompletableFuture<Status> over = new CompletableFuture<>();
        connector.onDisconnect(over::complete);
        assertThat(side.queuePair.receive(1, Pair.whole(side.memory(64))).status())
                .isEqualTo(Status.SUCCESS);
        server.close();
        assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(side.queuePair.connected()).isFalse();
        assertThat(side.endsNow()).as("nothing is cancelled by the peer's end").isEmpty();
        connector.disconnect();
        assertThat(side.ends(1)).containsExactly("RECEIVE 1 CANCELLED");
    }

    // ---- rdma_client and rdma_server: a message of 16 bytes each way

    private Listener listen(Adapter adapter, int backlog) {
        return closing(
                adapter.listen(
                        new InetSocketAddress(address(javaDevice), 0), backlog, requests::add));
    }

    private Pair.Side side(QueuePairLimits limits) {
        return closing(new Pair.Side(javaDevice, limits, null));
    }

    /** Connects to a program once it listens. */
    static void connect(
            Connector connector, QueuePair queuePair, InetSocketAddress peer, CProgram server) {
        Deadline deadline = Deadline.of("program that listens");
        while (true) {
            try {
                connector.connect(queuePair, peer, Crowd.OPTIONS);
                return;
            } catch (VerbenaException e) {
                assertThat(e.status()).as(e::getMessage).isEqualTo(Status.CONNECTION_REFUSED);
                assertThat(server.ended()).as(server::toString).isFalse();
                deadline.check();
            }
        }
    }

    private static MemoryRegion greetingToCome(Pair.Side side) {
        MemoryRegion inbox = side.memory(GREETING);
        inbox.memory().fill((byte) 1);
        assertThat(side.queuePair.receive(1, Pair.whole(inbox)).status()).isEqualTo(Status.SUCCESS);
        return inbox;
    }

    private static void awaitGreeting(Pair.Side side, MemoryRegion inbox) {
        Completions one = side.completion();
        assertThat(one.type(0)).isEqualTo(OperationType.RECEIVE);
        assertThat(one.status(0)).isEqualTo(Status.SUCCESS);
        assertThat(one.bytes(0)).isEqualTo(GREETING);
        // They send zeros.
        assertThat(inbox.memory().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
    }

    private static void greet(Pair.Side side) {
        BufferList greeting = new BufferList(1).addUnregistered(side.arena.allocate(GREETING));
        assertThat(side.queuePair.send(2, greeting, OpFlags.INLINE).status())
                .isEqualTo(Status.SUCCESS);
        assertThat(side.ends(1)).containsExactly("SEND 2 SUCCESS");
    }

    private static void awaitDisconnect(Connector connector) throws Exception {
        CompletableFuture<Status> over = new CompletableFuture<>();
        connector.onDisconnect(over::complete);
        assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
        connector.disconnect();
    }

    @Test
    void answersRdmaClient() throws Exception {
        Pair.Side side = side(GREETINGS);
        InetSocketAddress here = listen(side.adapter, 0).localAddress();
        CProgram client =
                program(
                        CM_PROGRAMS,
                        "rdma_client",
                        "-s",
                        ip(javaDevice),
                        "-p",
                        "" + here.getPort());
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as(client::toString).isNotNull();
        closing(request);
        MemoryRegion inbox = greetingToCome(side);
        request.accept(side.queuePair, Crowd.OPTIONS);
        awaitGreeting(side, inbox);
        greet(side);
        client.awaitSuccess();
        awaitDisconnect(request);
    }

    @Test
    void greetsRdmaServer() throws Exception {
        Pair.Side side = side(GREETINGS);
        CProgram server = program(CM_PROGRAMS, "rdma_server", "-s", ip(cDevice), "-p", "7472");
        Connector connector = closing(side.adapter.createConnector());
        MemoryRegion inbox = greetingToCome(side);
        connect(connector, side.queuePair, new InetSocketAddress(ip(cDevice), 7472), server);
        connector.completeConnect();
        greet(side);
        awaitGreeting(side, inbox);
        server.awaitSuccess();
        awaitDisconnect(connector);
    }

    // ---- ucmatose: many connections at once, again and again

    /** The caller closes it. */
    private CProgram ucmatose(String... where) {
        List<String> command = new ArrayList<>(List.of("ucmatose"));
        command.addAll(List.of(where));
        command.addAll(List.of("-c", "" + CROWD, "-C", "" + MESSAGES, "-S", "" + MESSAGE_BYTES));
        return CProgram.start(CM_PROGRAMS, command.toArray(String[]::new));
    }

    private Adapter javaAdapter() {
        return closing(Adapter.open(javaDevice));
    }

    @Test
    @Timeout(600)
    void servesAThousandConnections() throws Exception {
        Adapter adapter = javaAdapter();
        InetSocketAddress here = listen(adapter, CROWD).localAddress();
        for (int run = 0; run < RUNS; run++) {
            try (Crowd crowd = new Crowd(adapter, CROWD, MESSAGES, MESSAGE_BYTES);
                    CProgram client = ucmatose("-s", ip(javaDevice), "-p", "" + here.getPort())) {
                crowd.accept(requests);
                crowd.send();
                crowd.awaitAll(OperationType.SEND);
                crowd.awaitAll(OperationType.RECEIVE);
                crowd.disconnect();
                crowd.awaitOver(Status.SUCCESS);
                client.awaitSuccess();
            }
        }
    }

    @Test
    @Timeout(600)
    void makesAThousandConnections() throws Exception {
        Adapter adapter = javaAdapter();
        InetSocketAddress there = new InetSocketAddress(ip(cDevice), 7473);
        for (int run = 0; run < RUNS; run++) {
            try (Crowd crowd = new Crowd(adapter, CROWD, MESSAGES, MESSAGE_BYTES);
                    CProgram server = ucmatose("-b", ip(cDevice), "-p", "7473")) {
                crowd.connect(there, server);
                crowd.awaitAll(OperationType.RECEIVE);
                crowd.send();
                crowd.awaitAll(OperationType.SEND);
                crowd.awaitOver(Status.CONNECTION_INVALID);
                crowd.disconnect();
                server.awaitSuccess();
            }
        }
    }

    // ---- ibv_rc_pingpong: without a connection manager

    private CProgram pingPong(PingPongPeer peer, int port, String... host) {
        int index;
        try (Adapter adapter = Adapter.open(cDevice)) {
            index = adapter.gid().gid().index();
        }
        List<String> command =
                new ArrayList<>(
                        List.of(
                                "ibv_rc_pingpong",
                                "-c",
                                "-e",
                                "-d",
                                cDevice,
                                "-g",
                                "" + index,
                                "-p",
                                "" + port,
                                "-m",
                                "" + peer.mtuBytes(),
                                "-n",
                                "" + ITERATIONS,
                                "-s",
                                "" + ITERATION_BYTES));
        command.addAll(List.of(host));
        return program(VERBS_PROGRAMS, command.toArray(String[]::new));
    }

    private static void awaitEnd(CProgram pingPong) throws InterruptedException {
        pingPong.awaitSuccess();
        assertThat(pingPong.output())
                .as(pingPong::toString)
                .anyMatch(line -> line.startsWith(ITERATIONS + " iters in "))
                .noneMatch(line -> line.startsWith("invalid data"));
    }

    @Test
    void servesRcPingPong() throws Exception {
        PingPongPeer peer = closing(new PingPongPeer(javaDevice, ITERATION_BYTES));
        try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            listener.setSoTimeout(30_000);
            CProgram client =
                    pingPong(
                            peer,
                            listener.getLocalPort(),
                            listener.getInetAddress().getHostAddress());
            try (Socket socket = listener.accept()) {
                peer.serve(socket, ITERATIONS);
            }
            awaitEnd(client);
        }
    }

    @Test
    void playsWithRcPingPong() throws Exception {
        PingPongPeer peer = closing(new PingPongPeer(javaDevice, ITERATION_BYTES));
        CProgram server = pingPong(peer, 18516);
        try (Socket socket = PingPongPeer.connectTo(18516, server)) {
            peer.play(socket, ITERATIONS);
        }
        awaitEnd(server);
    }
}
