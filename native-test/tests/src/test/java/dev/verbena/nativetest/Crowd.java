package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OperationType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Many connections at once with {@code ucmatose}: on each, its server sends some messages, its
 * client as many back, and the server disconnects.
 */
final class Crowd implements AutoCloseable {
    static final ConnectionOptions OPTIONS =
            ConnectionOptions.DEFAULTS.withoutAnnouncement().withDeadline(Duration.ofSeconds(30));

    private static final long SECONDS = 60;

    /** One connection. */
    private record Member(
            Connector connector, QueuePair queuePair, CompletableFuture<Status> over) {}

    private final int size;
    private final int messages;
    private final Adapter adapter;
    private final Arena arena = Arena.ofShared();
    private final ProtectionDomain domain;
    private final CompletionQueue queue;
    private final MemoryRegion memory;
    private final List<Member> members = new ArrayList<>();
    private final Map<QueuePair, Map<OperationType, Integer>> seen = new HashMap<>();

    Crowd(Adapter adapter, int size, int messages, int bytes) {
        this.adapter = adapter;
        this.size = size;
        this.messages = messages;
        domain = adapter.createProtectionDomain();
        queue = adapter.createCompletionQueue(2 * size * messages);
        memory = domain.register(arena.allocate(bytes), Access.LOCAL_WRITE);
    }

    /** With receives for all that will come: ucmatose's peers get no second chance. */
    private Member add(Connector connector) {
        QueuePair queuePair =
                domain.createQueuePair(queue, queue, QueuePairLimits.depths(messages, messages));
        CompletableFuture<Status> over = new CompletableFuture<>();
        connector.onDisconnect(over::complete);
        Member member = new Member(connector, queuePair, over);
        members.add(member);
        BufferList buffer = Pair.whole(memory);
        for (int i = 0; i < messages; i++) {
            assertThat(queuePair.receive(i, buffer).status()).isEqualTo(Status.SUCCESS);
        }
        return member;
    }

    /** Accepts as many as are to come. */
    void accept(BlockingQueue<Connector> requests) throws Exception {
        List<CompletableFuture<Void>> accepting = new ArrayList<>();
        while (members.size() < size) {
            Connector request = requests.poll(SECONDS, TimeUnit.SECONDS);
            assertThat(request).as("request after " + members.size()).isNotNull();
            accepting.add(request.acceptAsync(add(request).queuePair(), OPTIONS));
        }
        awaitAll(accepting);
    }

    /** Connects all, the first once the server listens. */
    void connect(InetSocketAddress peer, CProgram server) throws Exception {
        List<CompletableFuture<Void>> connecting = new ArrayList<>();
        while (members.size() < size) {
            Member member = add(adapter.createConnector());
            if (members.size() == 1) {
                InteroperationTest.connect(member.connector(), member.queuePair(), peer, server);
            } else {
                connecting.add(member.connector().connectAsync(member.queuePair(), peer, OPTIONS));
            }
        }
        awaitAll(connecting);
        members.forEach(member -> member.connector().completeConnect());
    }

    private static void awaitAll(List<CompletableFuture<Void>> steps) throws Exception {
        CompletableFuture.allOf(steps.toArray(CompletableFuture[]::new))
                .get(SECONDS, TimeUnit.SECONDS);
    }

    void send() {
        BufferList buffer = Pair.whole(memory);
        for (Member member : members) {
            for (int i = 0; i < messages; i++) {
                assertThat(member.queuePair().send(i, buffer).status()).isEqualTo(Status.SUCCESS);
            }
        }
    }

    /** Waits until each connection has had all its messages in one direction. */
    void awaitAll(OperationType type) {
        Completions completions = new Completions(64);
        Deadline deadline = Deadline.of(messages + " x " + type + " on each of " + size);
        while (count(type) < size * messages) {
            if (queue.poll(completions) == 0) {
                deadline.check();
                queue.arm(NotifyType.ANY);
                queue.await(Duration.ofSeconds(30));
            }
            for (int i = 0; i < completions.size(); i++) {
                assertThat(completions.status(i)).isEqualTo(Status.SUCCESS);
                seen.computeIfAbsent(completions.queuePair(i), _ -> new HashMap<>())
                        .merge(completions.type(i), 1, Integer::sum);
            }
        }
        assertThat(seen.values()).hasSize(size).allMatch(counts -> counts.get(type) == messages);
    }

    private int count(OperationType type) {
        return seen.values().stream().mapToInt(counts -> counts.getOrDefault(type, 0)).sum();
    }

    /** Disconnects all, and waits until the peers know. */
    void disconnect() throws Exception {
        List<CompletableFuture<Void>> disconnecting = new ArrayList<>();
        for (Member member : members) {
            disconnecting.add(member.connector().disconnectAsync(OPTIONS));
        }
        awaitAll(disconnecting);
    }

    /** Waits until each was disconnected, by this side or by the peer. */
    void awaitOver(Status how) throws Exception {
        for (Member member : members) {
            assertThat(member.over().get(SECONDS, TimeUnit.SECONDS)).isEqualTo(how);
        }
    }

    @Override
    public void close() {
        for (Member member : members) {
            member.connector().close();
            member.queuePair().close();
        }
        queue.close();
        memory.close();
        domain.close();
        arena.close();
    }
}
