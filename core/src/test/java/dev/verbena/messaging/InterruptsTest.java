package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.READ;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import com.tngtech.archunit.core.domain.JavaMethod;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;

import dev.verbena.Access;
import dev.verbena.BufferPool;
import dev.verbena.BufferPoolOptions;
import dev.verbena.CompletionQueue;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.trust.Trust;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A thread is interrupted in each call that can wait: before the call, in the middle of it, and
 * just when what it waits for comes. The call ends as documented, and what it waited for can be had
 * afterwards.
 */
@Tag("trust")
@Timeout(120)
class InterruptsTest {
    private static final int MOMENTS = 20;

    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(100)
                    .withOutstanding(2)
                    .withReceives(2)
                    .withExposures(1);

    /** What a call that was interrupted does. */
    private enum End {
        /** Throws an InterruptedException. */
        THROWS,
        /** Throws CANCELLED, and the thread stays interrupted. */
        IS_CANCELLED,
        /** Returns, and the thread stays interrupted; what it began goes on. */
        RETURNS
    }

    /** A call that waits, what it waits for, and what has to be possible after both. */
    private record Wait(
            End end, ThrowingCallable call, ThrowingCallable comes, ThrowingCallable afterwards) {
        /** What it waits for comes afterwards, if at all. */
        Wait(End end, ThrowingCallable call, ThrowingCallable afterwards) {
            this(end, call, () -> {}, afterwards);
        }
    }

    /** Objects of which each lacks something that a call can wait for. */
    private static final class World implements AutoCloseable {
        final FakeFabric fabric = new FakeFabric();
        final Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
        final Poller ofPeer = Poller.start(fabric.adapter, IdleStrategy.events());
        final ProtectionDomain domain = poller.domain();
        final BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        final MessageServer server =
                MessageServer.listen(ofPeer, port(7700), OPTIONS, 4, null, accepted::add);
        final MessageChannel channel =
                MessageChannel.connect(poller, server.localAddress(), OPTIONS, null);
        final MessageChannel peer;
        final MemoryRegion region = domain.allocate(64, Access.LOCAL_WRITE);
        final Listener silent = fabric.adapter.listen(port(7701), 0, requests::add);
        final CompletionQueue queue = fabric.adapter.createCompletionQueue(16);
        final List<QueuePair> pairs = new ArrayList<>();

        World() throws InterruptedException {
            peer = Until.next(accepted);
        }

        QueuePair pair() {
            QueuePair pair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(4, 4));
            pairs.add(pair);
            return pair;
        }

        @Override
        public void close() {
            silent.close();
            requests.forEach(Connector::close);
            pairs.forEach(QueuePair::close);
            queue.close();
            server.close();
            region.close();
            poller.close();
            ofPeer.close();
            fabric.close(); // which checks that nothing is left
        }
    }

    private interface Case {
        Wait of(World world) throws Exception;
    }

    private static final Map<String, Case> CASES = new LinkedHashMap<>();

    static {
        CASES.put("BufferPool.take", InterruptsTest::take);
        CASES.put("MessageChannel.send", InterruptsTest::send);
        CASES.put(
                "MessageChannel.receive",
                world -> {
                    List<Message> got = new ArrayList<>();
                    return new Wait(
                            End.THROWS,
                            () -> got.add(world.channel.receive(LONG)),
                            () -> world.peer.send(text("later"), LONG),
                            () -> {
                                if (got.isEmpty()) {
                                    arrives(world.channel, "later");
                                }
                                got.forEach(Message::release);
                            });
                });
        CASES.put("MessageClient.channel", InterruptsTest::channel);
        CASES.put(
                "MessageServer.stop",
                world ->
                        new Wait(
                                End.THROWS,
                                () -> world.server.stop(LONG),
                                () -> {
                                    world.channel.send(text("still open"), LONG);
                                    arrives(world.peer, "still open");
                                }));
        CASES.put("OwnMemory.expose", InterruptsTest::expose);
        CASES.put("Exposure.await", InterruptsTest::await);
        CASES.put(
                "Connector.connect",
                world -> {
                    Connector connector = world.fabric.adapter.createConnector();
                    QueuePair pair = world.pair();
                    return new Wait(
                            End.IS_CANCELLED,
                            () -> connector.connect(pair, world.silent.localAddress()),
                            connector::close);
                });
        CASES.put("Connector.accept", InterruptsTest::accept);
        CASES.put(
                "MessageChannel.connect",
                world ->
                        new Wait(
                                End.IS_CANCELLED,
                                () ->
                                        MessageChannel.connect(
                                                world.poller,
                                                world.silent.localAddress(),
                                                OPTIONS,
                                                null),
                                () ->
                                        MessageChannel.connect(
                                                        world.poller,
                                                        world.server.localAddress(),
                                                        OPTIONS,
                                                        null)
                                                .close()));
        CASES.put(
                "NativeObject.awaitClosed",
                world -> {
                    ProtectionDomain domain = world.fabric.adapter.createProtectionDomain();
                    MemoryRegion region = domain.allocate(8);
                    domain.close();
                    return new Wait(
                            End.IS_CANCELLED,
                            () -> domain.awaitClosed(LONG),
                            () -> {
                                region.close();
                                domain.awaitClosed(LONG);
                            });
                });
        CASES.put("MessageChannel.close", InterruptsTest::closeChannel);
        CASES.put("Poller.close", InterruptsTest::closePoller);
    }

    private static Wait take(World world) {
        BufferPool pool = world.domain.createBufferPool(BufferPoolOptions.of(1, 8));
        var taken = pool.tryTake();
        return new Wait(
                End.THROWS,
                () -> pool.take(LONG).close(),
                taken::close,
                () -> {
                    pool.take(LONG).close();
                    pool.close();
                });
    }

    private static Wait send(World world) throws InterruptedException {
        world.channel.send(text("1"), LONG);
        world.channel.send(text("2"), LONG);
        return new Wait(
                End.THROWS,
                () -> world.channel.send(text("interrupted"), LONG),
                () -> arrives(world.peer, "1"),
                () -> {
                    arrives(world.peer, "2");
                    world.channel.send(text("next"), LONG);
                    if (world.channel.counters().sent() == 4) {
                        arrives(world.peer, "interrupted");
                    }
                    arrives(world.peer, "next");
                });
    }

    private static Wait channel(World world) {
        MessageClient client =
                MessageClient.start(
                        world.poller,
                        port(7702), // where nobody listens yet
                        OPTIONS,
                        ReconnectOptions.DEFAULTS.withPauses(
                                Duration.ofMillis(1), Duration.ofMillis(10)),
                        null,
                        opened -> {});
        return new Wait(
                End.THROWS,
                () -> client.channel(LONG),
                () -> {
                    try (client;
                            MessageServer late =
                                    MessageServer.listen(
                                            world.ofPeer, port(7702), OPTIONS, 4, null, of -> {})) {
                        assertThat(client.channel(LONG).isOpen()).isTrue();
                        assertThat(late.channelCount()).isOne();
                    }
                });
    }

    private static Wait expose(World world) throws InterruptedException {
        Exposure only = world.channel.ownMemory().expose(world.region, READ, LONG);
        return new Wait(
                End.THROWS,
                () -> world.channel.ownMemory().expose(world.region, READ, LONG).close(),
                only::close,
                () -> world.channel.ownMemory().expose(world.region, READ, LONG).close());
    }

    private static Wait await(World world) throws InterruptedException {
        Exposure exposure = world.channel.ownMemory().expose(world.region, READ, LONG);
        world.channel.send(text("exposed"), LONG);
        arrives(world.peer, "exposed");
        return new Wait(
                End.THROWS,
                exposure::await,
                () ->
                        world.peer
                                .peerMemory()
                                .sendAndInvalidateAsync(text("taken"), exposure.remoteMemory())
                                .get(30, TimeUnit.SECONDS),
                () -> {
                    try (Message message = exposure.await()) {
                        assertThat(OneThread.text(message)).isEqualTo("taken");
                    }
                    exposure.close();
                });
    }

    /** The peer does not complete its connect. */
    private static Wait accept(World world) throws InterruptedException {
        Connector connector = world.fabric.adapter.createConnector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(
                        world.pair(), world.silent.localAddress(), ConnectionOptions.DEFAULTS);
        Connector request = Until.next(world.requests);
        QueuePair pair = world.pair();
        return new Wait(
                End.IS_CANCELLED,
                () -> request.accept(pair),
                () -> {
                    request.close();
                    connector.close();
                    assertThat(connecting.handle((nothing, why) -> true).get(30, TimeUnit.SECONDS))
                            .isTrue();
                });
    }

    /** What was sent does not arrive. */
    private static Wait closeChannel(World world) throws InterruptedException {
        world.fabric.stall(true);
        world.channel.send(text("late"), LONG);
        return new Wait(
                End.RETURNS,
                world.channel::close,
                () -> {
                    assertThat(world.channel.closed()).isNotDone();
                    world.fabric.stall(false);
                    assertThat(world.channel.closed().get(30, TimeUnit.SECONDS))
                            .isEqualTo(Status.CANCELLED);
                    arrives(world.peer, "late");
                });
    }

    /** A handler does not return. */
    private static Wait closePoller(World world) {
        Poller busy = Poller.start(world.fabric.adapter, IdleStrategy.events());
        CountDownLatch mayGoOn = new CountDownLatch(1);
        busy.execute(() -> Until.reached(mayGoOn));
        return new Wait(
                End.RETURNS,
                busy::close,
                () -> {
                    assertThat(busy.thread.isAlive()).isTrue();
                    mayGoOn.countDown();
                    assertThat(busy.thread.join(LONG)).isTrue();
                });
    }

    private static void arrives(MessageChannel channel, String expected)
            throws InterruptedException {
        try (Message message = channel.receive(LONG)) {
            assertThat(OneThread.text(message)).isEqualTo(expected);
        }
    }

    /** Runs a call in a thread that is interrupted. Returns what it threw, and its flag then. */
    private static Map.Entry<String, Boolean> interrupted(
            ThrowingCallable call, boolean before, ThrowingCallable meanwhile) throws Throwable {
        CompletableFuture<Map.Entry<String, Boolean>> end = new CompletableFuture<>();
        Thread thread =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    if (before) {
                                        Thread.currentThread().interrupt();
                                    }
                                    String thrown = name(catchThrowable(call));
                                    end.complete(Map.entry(thrown, Thread.interrupted()));
                                });
        if (!before) {
            Until.isIn(thread, Thread.State.WAITING, Thread.State.TIMED_WAITING);
            thread.interrupt();
        }
        meanwhile.call();
        return end.get(30, TimeUnit.SECONDS);
    }

    private static String name(Throwable thrown) {
        if (thrown == null) {
            return "returned";
        }
        return thrown instanceof VerbenaException e ? e.status().name() : thrown.toString();
    }

    @Test
    void eachCallEndsAndTheObjectsGoOn() throws Throwable {
        Trust.Row row = Trust.row("interrupts at every wait").faults(2L * CASES.size());
        List<String> wrong = new ArrayList<>();
        for (Map.Entry<String, Case> one : CASES.entrySet()) {
            for (boolean before : new boolean[] {true, false}) {
                try (World world = new World()) {
                    Wait wait = one.getValue().of(world);
                    Map.Entry<String, Boolean> expected =
                            switch (wait.end) {
                                case THROWS ->
                                        Map.entry(InterruptedException.class.getName(), false);
                                case IS_CANCELLED -> Map.entry(Status.CANCELLED.name(), true);
                                case RETURNS -> Map.entry("returned", true);
                            };
                    var end = interrupted(wait.call, before, () -> {});
                    if (!end.equals(expected)) {
                        wrong.add("%s, %s: %s".formatted(one.getKey(), before, end));
                    }
                    wait.comes.call();
                    wait.afterwards.call();
                }
            }
        }
        row.losses(wrong.size()).leaks(0).write();
        assertThat(wrong).isEmpty();
    }

    /** It throws, or returns what came, and the thread stays interrupted: never neither. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "BufferPool.take",
                "MessageChannel.send",
                "MessageChannel.receive",
                "OwnMemory.expose",
                "Exposure.await"
            })
    void anInterruptJustWhenItComesLosesNothing(String name) throws Throwable {
        for (int i = 0; i < MOMENTS; i++) {
            try (World world = new World()) {
                Wait wait = CASES.get(name).of(world);
                assertThat(interrupted(wait.call, false, wait.comes))
                        .isIn(
                                Map.entry(InterruptedException.class.getName(), false),
                                Map.entry("returned", true));
                wait.afterwards.call();
            }
        }
    }

    /** A new call of this kind needs a case here. */
    @Test
    void eachCallThatSaysSoIsTried() {
        assertThat(
                        new ClassFileImporter()
                                .importPath(Path.of("target/classes")).stream()
                                        .filter(
                                                type ->
                                                        type.getModifiers()
                                                                .contains(JavaModifier.PUBLIC))
                                        .flatMap(type -> type.getMethods().stream())
                                        .filter(InterruptsTest::isInterruptible)
                                        .map(
                                                method ->
                                                        method.getOwner().getSimpleName()
                                                                + "."
                                                                + method.getName()))
                .isNotEmpty()
                .isSubsetOf(CASES.keySet());
    }

    private static boolean isInterruptible(JavaMethod method) {
        return method.getModifiers().contains(JavaModifier.PUBLIC)
                && method.getThrowsClause().containsType(InterruptedException.class);
    }
}
