package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.Status;
import dev.verbena.UncaughtReports;
import dev.verbena.Until;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * Whatever the program or the peer of one channel does, the other channels of its poller lose
 * nothing and go on. A new way to do harm is a new {@link Misdeed}.
 */
@Timeout(120)
class IsolationTest {
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS.withMaxMessage(100).withExposures(2);
    private static final Duration LONG = Duration.ofSeconds(30);

    /** What a handler, a callback, a task or a peer does to its own channel. */
    enum Misdeed {
        HANDLER_THROWS,
        HANDLER_RUNS_OUT_OF_MEMORY,
        HANDLER_RECURSES_WITHOUT_END,
        HANDLER_CLOSES_ITS_CHANNEL,
        HANDLER_KEEPS_EVERY_MESSAGE,
        HANDLER_IS_SLOW,
        HANDLER_INTERRUPTS_ITS_THREAD,
        HANDLER_CLOSES_ITS_POLLER,
        CALLBACK_THROWS,
        FUTURE_STAGE_THROWS,
        EXPOSURE_CALLBACK_THROWS,
        TASK_THROWS,
        DATA_IS_GONE_BEFORE_IT_IS_SENT,
        PEER_SENDS_NO_FRAME,
        PEER_WRITES_WITH_IMMEDIATE_DATA,
        PEER_BREAKS_ITS_QUEUE_PAIR
    }

    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();

    private final FakeFabric fabric = new FakeFabric();
    private final Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
    private final Poller ofPeers = Poller.start(fabric.adapter, IdleStrategy.events());
    private final MemoryRegion region = poller.domain().allocate(100, Access.LOCAL_WRITE);
    private final Logger log = Logger.getLogger("dev.verbena");
    private final Handler throwing =
            new Handler() {
                @Override
                public void publish(LogRecord logged) {
                    throw new IllegalStateException("a logger that throws");
                }

                @Override
                public void flush() {}

                @Override
                public void close() {}
            };
    private final Queue<Message> kept = new ConcurrentLinkedQueue<>();
    private volatile Misdeed misdeed;

    @BeforeEach
    void loggerAndHandlerThrow() {
        log.addHandler(throwing);
        Thread.setDefaultUncaughtExceptionHandler(
                (thread, thrown) -> {
                    throw new IllegalStateException("a handler of uncaught exceptions that throws");
                });
    }

    @AfterEach
    void nothingIsLeft() {
        log.removeHandler(throwing);
        kept.forEach(Message::release); // the memory of a channel outlives it until then
        region.close();
        poller.close();
        ofPeers.close();
        fabric.close(); // asserts that no native object is left
    }

    @ParameterizedTest
    @EnumSource
    void theOthersGoOn(Misdeed what) throws Exception {
        misdeed = what;
        List<String> arrived = new CopyOnWriteArrayList<>();
        // The offender's handler runs on the poller under test; its peer's on another.
        try (MessageServer offenders =
                        MessageServer.listen(
                                poller, port(7801), OPTIONS, 9, this::harm, channel -> {});
                MessageServer others =
                        MessageServer.listen(
                                poller,
                                port(7802),
                                OPTIONS,
                                9,
                                (channel, message) -> arrived.add(OneThread.text(message)),
                                channel -> {});
                MessageChannel victim =
                        MessageChannel.connect(ofPeers, others.localAddress(), OPTIONS, null);
                MessageChannel offended =
                        MessageChannel.connect(ofPeers, offenders.localAddress(), OPTIONS, null);
                MessageChannel here =
                        MessageChannel.connect(poller, others.localAddress(), OPTIONS, null)) {
            int count = 0;
            for (int round = 0; round < 5; round++) {
                CompletableFuture<?>[] sent = new CompletableFuture<?>[20];
                for (int i = 0; i < sent.length; i++) {
                    sent[i] = (i % 2 == 0 ? victim : here).sendAsync(text("message " + count++));
                    if (i == sent.length / 2) {
                        provoke(offended, offenders);
                    }
                }
                CompletableFuture.allOf(sent).get(60, TimeUnit.SECONDS);
            }
            int all = count;
            Until.holds(() -> arrived.size() == all);
            assertThat(arrived).doesNotHaveDuplicates();
            assertThat(victim.isOpen()).isTrue();
            assertThat(here.isOpen()).isTrue();
            CountDownLatch alive = new CountDownLatch(1);
            poller.execute(alive::countDown);
            assertThat(alive.await(30, TimeUnit.SECONDS)).as("the poller is alive").isTrue();
        }
    }

    /** Of the offender, on the poller under test. */
    private void harm(MessageChannel channel, Message message) {
        switch (misdeed) {
            case HANDLER_THROWS -> throw new IllegalStateException("of a test");
            case HANDLER_RUNS_OUT_OF_MEMORY -> throw new OutOfMemoryError("of a test");
            case HANDLER_RECURSES_WITHOUT_END -> harm(channel, message);
            case HANDLER_CLOSES_ITS_CHANNEL -> channel.close();
            case HANDLER_KEEPS_EVERY_MESSAGE -> kept.add(message.retain());
            case HANDLER_IS_SLOW -> {
                long end = System.nanoTime() + 300_000_000;
                while (System.nanoTime() - end < 0) {
                    Thread.onSpinWait();
                }
            }
            case HANDLER_INTERRUPTS_ITS_THREAD -> Thread.currentThread().interrupt();
            case HANDLER_CLOSES_ITS_POLLER -> poller.close();
            case CALLBACK_THROWS -> {
                Status ignored =
                        channel.trySend(
                                text("x"),
                                0,
                                1,
                                (of, attachment, status) -> {
                                    throw new IllegalStateException("of a test");
                                },
                                null);
            }
            case FUTURE_STAGE_THROWS -> {
                var _ =
                        channel.sendAsync(text("x"))
                                .thenRun(
                                        () -> {
                                            throw new OutOfMemoryError("of a test");
                                        });
            }
            case EXPOSURE_CALLBACK_THROWS -> {
                var _ =
                        channel.ownMemory()
                                .tryExpose(
                                        region,
                                        0,
                                        1,
                                        OpFlags.ALLOW_REMOTE_READ,
                                        Duration.ofMillis(1),
                                        (ended, status, answer) -> {
                                            throw new IllegalStateException("of a test");
                                        },
                                        null);
            }
            case TASK_THROWS ->
                    poller.execute(
                            () -> {
                                throw new OutOfMemoryError("of a test");
                            });
            case DATA_IS_GONE_BEFORE_IT_IS_SENT -> {
                try (Arena arena = Arena.ofShared()) {
                    var data = arena.allocate(1);
                    for (int i = 0; i < 40; i++) { // the last ones wait for room
                        var _ = channel.sendAsync(data);
                    }
                }
            }
            default -> {}
        }
    }

    /** By the offender's peer. */
    private void provoke(MessageChannel offended, MessageServer server)
            throws InterruptedException {
        if (!offended.isOpen()) {
            return; // it had its effect
        }
        try (MemoryRegion bytes = ofPeers.domain().allocate(64, Access.LOCAL_WRITE)) {
            BufferList list = new BufferList(1).add(bytes, 0, 64);
            switch (misdeed) {
                case PEER_SENDS_NO_FRAME -> {
                    var _ = offended.pair.send(0, list, OpFlags.SILENT_SUCCESS);
                    Until.holds(() -> server.channelCount() == 0);
                }
                case PEER_WRITES_WITH_IMMEDIATE_DATA -> {
                    var _ =
                            offended.pair.writeWithImmediate(
                                    0, new BufferList(1), 0, 0, 5, OpFlags.SILENT_SUCCESS);
                    Until.holds(() -> server.channelCount() == 0);
                }
                case PEER_BREAKS_ITS_QUEUE_PAIR -> {
                    offended.pair.flush();
                    Until.holds(() -> server.channelCount() == 0);
                }
                default -> {
                    var _ = offended.trySend(text("go"));
                }
            }
        }
    }
}
