package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.messaging.Exposure;
import dev.verbena.messaging.ExposureCallback;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageChannelPairs;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.SendCallback;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Memory that is exposed over a channel between two devices. */
@NeedsDevices
@Timeout(120)
class MessageChannelMemoryTest {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final OpFlags BOTH = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final int BYTES = 100_000;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    /** Two channels; the server's has no handler. */
    private static final class Ends implements AutoCloseable {
        final Adapter there = Adapter.open(RdmaDevices.active().getFirst());
        final Adapter here = Adapter.open(RdmaDevices.active().getLast());
        final Poller serverPoller = Poller.start(there, IdleStrategy.events());
        final Poller poller;
        final MemoryRegion source = serverPoller.domain().allocate(BYTES, Access.LOCAL_WRITE);
        final MemoryRegion target;
        final MessageServer server;
        final MessageChannel client;
        final MessageChannel accepted;

        Ends(MessagingOptions options, MessageHandler ofServer, boolean confined) throws Exception {
            poller =
                    confined
                            ? Poller.onThisThread(here, IdleStrategy.busySpin())
                            : Poller.start(here, IdleStrategy.events());
            target = poller.domain().allocate(BYTES, Access.LOCAL_WRITE);
            CompletableFuture<MessageChannel> opened = new CompletableFuture<>();
            InetSocketAddress any =
                    new InetSocketAddress(there.gid().gid().gid().toInetAddress(), 0);
            server =
                    MessageServer.listen(serverPoller, any, options, 1, ofServer, opened::complete);
            client = MessageChannel.connect(poller, server.localAddress(), options, null);
            accepted = opened.get(60, TimeUnit.SECONDS);
        }

        RemoteMemory announce(Exposure exposure) throws InterruptedException {
            byte[] message = new byte[RemoteMemory.MESSAGE_BYTES];
            exposure.remoteMemory().writeTo(MemorySegment.ofArray(message), 0);
            client.send(MemorySegment.ofArray(message), LONG);
            try (Message received = accepted.receive(LONG)) {
                return RemoteMemory.readFrom(received.data(), 0);
            }
        }

        void checkRefused(RemoteMemory gone) {
            assertThat(accepted.peerMemory().writeAsync(BufferList.of(source), gone))
                    .isCompletedExceptionally();
            assertThat(
                            accepted.peerMemory()
                                    .trySendAndInvalidate(text("x"), 0, 1, gone, null, null))
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(accepted.isOpen()).isTrue();
        }

        /**
         * Past the channel, which refuses it: the device writes nothing, and the connection ends.
         */
        void checkDead(RemoteMemory gone) throws Exception {
            source.memory().fill((byte) 1);
            target.memory().fill((byte) 0);
            MessageChannelPairs.of(accepted)
                    .write(1L << 40, BufferList.of(source), gone, 0, OpFlags.NONE)
                    .orThrow();
            // Which side hears of it first is open.
            assertThat(accepted.closed().get(60, TimeUnit.SECONDS))
                    .isIn(Status.ACCESS_VIOLATION, Status.CONNECTION_ABORTED);
            assertThat(target.memory().mismatch(MemorySegment.ofArray(new byte[BYTES])))
                    .isEqualTo(-1);
        }

        @Override
        public void close() {
            client.close();
            server.close();
            poller.close();
            serverPoller.close();
            target.close();
            source.close();
            here.close();
            there.close();
        }
    }

    private static MemorySegment text(String text) {
        return MemorySegment.ofArray(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    @Test
    void theBytesAreThereWhenTheMessageIs() throws Exception {
        byte[] bytes = new byte[BYTES];
        Random random = new Random(3);
        try (Ends ends = new Ends(MessagingOptions.DEFAULTS, null, false)) {
            for (int i = 0; i < 300; i++) { // more than a window has keys
                random.nextBytes(bytes);
                try (Exposure exposure =
                        ends.client
                                .ownMemory()
                                .expose(ends.target, OpFlags.ALLOW_REMOTE_WRITE, LONG)) {
                    RemoteMemory remote = ends.announce(exposure);
                    ends.source.memory().copyFrom(MemorySegment.ofArray(bytes));
                    CompletableFuture<Void> sent =
                            ends.accepted
                                    .peerMemory()
                                    .writeAndInvalidateAsync(
                                            BufferList.of(ends.source), remote, text("m" + i));
                    try (Message answer = exposure.await()) {
                        assertThat(ends.target.memory().toArray(ValueLayout.JAVA_BYTE))
                                .isEqualTo(bytes);
                        assertThat(answer.length()).isEqualTo(("m" + i).length());
                    }
                    sent.get(60, TimeUnit.SECONDS);
                }
            }
        }
    }

    @Test
    void thePeerReadsWhatIsExposed() throws Exception {
        try (Ends ends = new Ends(MessagingOptions.DEFAULTS, null, false);
                Exposure exposure =
                        ends.client
                                .ownMemory()
                                .expose(ends.target, OpFlags.ALLOW_REMOTE_READ, LONG)) {
            ends.target.memory().setString(0, "to be read");
            RemoteMemory remote = ends.announce(exposure);
            CompletableFuture<Void> read =
                    ends.accepted.peerMemory().readAsync(BufferList.of(ends.source), remote);
            CompletableFuture<Void> sent =
                    ends.accepted.peerMemory().sendAndInvalidateAsync(text("read"), remote);
            exposure.await().release();
            read.get(60, TimeUnit.SECONDS);
            sent.get(60, TimeUnit.SECONDS);
            assertThat(ends.source.memory().getString(0)).isEqualTo("to be read");
        }
    }

    @Test
    void aKeyThatWasTakenBackIsDead() throws Exception {
        try (Ends ends = new Ends(MessagingOptions.DEFAULTS, null, false)) {
            RemoteMemory gone;
            try (Exposure exposure = ends.client.ownMemory().expose(ends.target, BOTH, LONG)) {
                gone = ends.announce(exposure);
                ends.accepted
                        .peerMemory()
                        .sendAndInvalidateAsync(text("back"), gone)
                        .get(60, TimeUnit.SECONDS);
                exposure.await().release();
            }
            ends.checkRefused(gone);
            // The next exposure has another key.
            try (Exposure exposure = ends.client.ownMemory().expose(ends.target, BOTH, LONG)) {
                assertThat(ends.announce(exposure).token()).isNotEqualTo(gone.token());
                ends.checkRefused(gone);
                ends.checkDead(gone);
            }
        }
    }

    @Test
    void afterTheDeadlineThePeerIsAskedAndTheChannelStaysOpen() throws Exception {
        try (Ends ends = new Ends(MessagingOptions.DEFAULTS, null, false);
                Exposure exposure =
                        ends.client.ownMemory().expose(ends.target, BOTH, Duration.ofMillis(300))) {
            RemoteMemory remote = ends.announce(exposure);
            assertThatThrownBy(exposure::await)
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("was not taken back by the peer in time, and was revoked")
                    .extracting(e -> ((MessagingException) e).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            ends.checkRefused(remote);
            ends.client.send(text("still open"), LONG);
            try (Message message = ends.accepted.receive(LONG)) {
                assertThat(message.length()).isEqualTo(10);
            }
            ends.checkDead(remote);
        }
    }

    @Test
    void aChannelIsClosedWithExposures() throws Exception {
        try (Ends ends = new Ends(MessagingOptions.DEFAULTS, null, false)) {
            Exposure exposure = ends.client.ownMemory().expose(ends.target, BOTH, LONG);
            RemoteMemory remote = ends.announce(exposure);
            CompletableFuture<Message> returned = exposure.returned();
            ends.accepted.close(); // the peer leaves
            assertThatThrownBy(() -> returned.get(60, TimeUnit.SECONDS))
                    .hasCauseInstanceOf(MessagingException.class)
                    .hasMessageContaining("the peer closed it");
            assertThat(exposure.hasEnded()).isTrue();
            assertThat(
                            ends.accepted
                                    .peerMemory()
                                    .trySendAndInvalidate(text("x"), 0, 1, remote, null, null))
                    .isEqualTo(Status.CONNECTION_INVALID);
            exposure.close();
            ends.client.close();
            ends.target.close();
            ends.target.awaitClosed(Duration.ZERO);
        }
    }

    /** Exposing, sending, polling, and the answer, on the side that exposes. */
    @Test
    void anExchangeWithCallbacksAllocatesNothing() throws Exception {
        MemoryRegion[] source = new MemoryRegion[1];
        MessageHandler fill =
                (channel, message) -> {
                    RemoteMemory remote = RemoteMemory.readFrom(message.data(), 0);
                    MemorySegment none = MemorySegment.ofArray(new byte[8]);
                    var _ =
                            channel.peerMemory()
                                    .writeAndInvalidateAsync(
                                            new BufferList(1).add(source[0], 0, 64), remote, none);
                };
        int[] ended = {0};
        try (Ends ends = new Ends(MessagingOptions.DEFAULTS, fill, true);
                Arena arena = Arena.ofConfined()) {
            source[0] = ends.source;
            ExposureCallback callback =
                    (exposure, status, message) -> ended[0] += status.isSuccess() ? 1 : 1000;
            SendCallback sent = (channel, attachment, status) -> {};
            MemorySegment data = arena.allocate(RemoteMemory.MESSAGE_BYTES);
            long least = Long.MAX_VALUE;
            for (int round = 0; round < 500 && least > 0; round++) { // until all is compiled
                long before = THREADS.getCurrentThreadAllocatedBytes();
                for (int i = 0; i < 20; i++) {
                    Exposure exposure = null;
                    while (exposure == null) {
                        exposure =
                                ends.client
                                        .ownMemory()
                                        .tryExpose(ends.target, 0, 64, BOTH, LONG, callback, null);
                        ends.poller.poll();
                    }
                    exposure.writeTo(data, 0);
                    int wanted = ended[0] + 1;
                    while (!ends.client.trySend(data, 0, data.byteSize(), sent, null).isSuccess()) {
                        ends.poller.poll();
                    }
                    while (ended[0] < wanted) {
                        ends.poller.poll();
                    }
                }
                least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
            }
            assertThat(least).as("bytes for 20 exchanges").isZero();
        }
    }
}
