package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.SendChain;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;

/** Queue pairs on a poller without framing: requests, messages and every way in which one ends. */
@Timeout(120)
class RawConnectionTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(4, 3);
    private static final int BYTES = 64;

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter = FakeAdapters.open(device);
    private final Poller poller = Poller.start(adapter, IdleStrategy.events());
    private final MemoryRegion memory = poller.domain().allocate(4096, Access.LOCAL_WRITE);
    private final Pump pump = new Pump(device);
    private final BlockingQueue<Object> ends = new LinkedBlockingQueue<>();
    private @Nullable RawReceives shared;

    RawConnectionTest() {
        device.carriesBytes = true;
    }

    @AfterEach
    void close() throws InterruptedException {
        poller.close();
        if (shared != null) {
            shared.close();
        }
        memory.close();
        pump.close();
        adapter.close();
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        assertThat(device.objects()).as("native objects left").isZero();
        device.dispose();
    }

    private record Ended(String what, @Nullable Object attachment, Status status) {}

    private RawHandler handler(BiConsumer<RawConnection, RawMessage> received) {
        return new RawHandler() {
            @Override
            public void received(RawConnection channel, RawMessage message) {
                received.accept(channel, message);
            }

            @Override
            public void ended(RawConnection channel, MessagingException reason) {
                ends.add(new Ended("channel", channel, reason.status()));
            }
        };
    }

    private RawConnection channel(@Nullable Duration timeout, RawHandler handler) {
        return shared == null
                ? RawConnection.create(poller, LIMITS, BYTES, timeout, handler)
                : RawConnection.create(poller, LIMITS, shared, timeout, handler);
    }

    private static void connect(RawConnection a, RawConnection b) {
        a.pair.connect(b.pair.address());
        b.pair.connect(a.pair.address());
    }

    private BufferList bytes(long offset, long length) {
        return new BufferList(1).add(memory, offset, length);
    }

    private void ended(RawConnection channel, @Nullable Object attachment, Status status) {
        ends.add(new Ended("request", attachment, status));
    }

    private static RawHandler reposting() {
        return new RawHandler() {
            @Override
            public void received(RawConnection channel, RawMessage message) {
                message.repost().orThrow();
            }

            @Override
            public void ended(RawConnection channel, MessagingException reason) {}
        };
    }

    private Ended nextEnd() throws InterruptedException {
        return (Ended) ends.poll(30, TimeUnit.SECONDS);
    }

    @Test
    void messagesArriveAndRequestsEndInOrder() throws Exception {
        BlockingQueue<Long> arrived = new LinkedBlockingQueue<>();
        RawConnection a = channel(null, reposting());
        RawConnection b =
                channel(
                        null,
                        handler(
                                (channel, message) -> {
                                    assertThat(message.length()).isEqualTo(8);
                                    assertThat(message.hasInvalidated()).isFalse();
                                    assertThatThrownBy(message::invalidatedToken)
                                            .isInstanceOf(IllegalStateException.class);
                                    arrived.add(message.buffer().get(ValueLayout.JAVA_LONG, 0));
                                    message.repost().orThrow();
                                    assertThatThrownBy(message::repost)
                                            .isInstanceOf(IllegalStateException.class);
                                }));
        connect(a, b);
        for (long i = 0; i < 50; i++) {
            memory.memory().set(ValueLayout.JAVA_LONG, 0, i);
            a.send(bytes(0, 8), OpFlags.NONE, this::ended, i).orThrow();
            assertThat(nextEnd()).isEqualTo(new Ended("request", i, Status.SUCCESS));
            assertThat(arrived.poll(30, TimeUnit.SECONDS)).isEqualTo(i);
        }
        a.close();
        b.close();
        assertThat(a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
        assertThat(nextEnd()).isEqualTo(new Ended("channel", b, Status.CANCELLED));
        assertThat(a.send(bytes(0, 8), OpFlags.NONE, null, null).status())
                .isEqualTo(Status.CONNECTION_INVALID);
    }

    /** A peer's window is written to, and its token comes back by the send that invalidates it. */
    @Test
    void aWindowIsBoundWrittenToAndGivenBack() throws Exception {
        MemoryWindow window = poller.domain().createMemoryWindow();
        BlockingQueue<Integer> invalidated = new LinkedBlockingQueue<>();
        RawConnection a =
                channel(
                        null,
                        handler(
                                (channel, message) -> {
                                    if (message.hasInvalidated()) {
                                        invalidated.add(message.invalidatedToken());
                                    }
                                    message.repost().orThrow();
                                }));
        RawConnection b = channel(null, reposting());
        connect(a, b);
        OpFlags rights = OpFlags.ALLOW_REMOTE_WRITE.and(OpFlags.ALLOW_REMOTE_READ);
        a.bind(window, memory, 1024, 512, rights, this::ended, "bind").orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "bind", Status.SUCCESS));
        long address = window.remoteMemory().address();
        int token = window.remoteToken();
        b.write(bytes(0, 8), address, token, OpFlags.NONE, this::ended, "write").orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "write", Status.SUCCESS));
        b.read(bytes(8, 8), address, token, OpFlags.NONE, this::ended, "read").orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "read", Status.SUCCESS));
        b.sendAndInvalidate(bytes(0, 8), token, OpFlags.NONE, this::ended, "send").orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "send", Status.SUCCESS));
        assertThat(invalidated.poll(30, TimeUnit.SECONDS)).isEqualTo(token);
        a.bind(window, memory, 0, 8, rights, this::ended, "again").orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "again", Status.SUCCESS));
        a.invalidate(window, OpFlags.NONE, this::ended, "invalidate").orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "invalidate", Status.SUCCESS));
        a.abort("test");
        b.abort("test");
        assertThat(a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
        window.close();
    }

    /** It needs no place for a callback, and the queue has room once completions were polled. */
    @Test
    void aSilentRequestHasRoomBeforeTheCallbacksOfOthers() {
        List<PostResult> results = new ArrayList<>();
        QueuePairLimits limits = QueuePairLimits.depths(4, 4);
        try (OneThread two = OneThread.open()) {
            BufferList list = new BufferList(1).add(two.region, 0, 8);
            RawHandler posts =
                    handler(
                            (of, message) -> {
                                results.add(of.send(list, OpFlags.SILENT_SUCCESS, null, null));
                                results.add(of.send(list, OpFlags.NONE, null, null));
                            });
            try (RawConnection a = RawConnection.create(two.poller, limits, BYTES, null, posts);
                    RawConnection b =
                            RawConnection.create(two.pollerOfB, limits, BYTES, null, reposting())) {
                connect(a, b);
                two.device.running = false;
                for (int i = 0; i < 4; i++) {
                    a.send(list, OpFlags.NONE, null, null).orThrow();
                }
                b.send(new BufferList(1).add(two.other, 0, 8), OpFlags.NONE, null, null).orThrow();
                two.device.runOne(b.pair.address().queuePairNumber());
                two.device.running = true;
                two.run();
            }
        }
        assertThat(results).containsExactly(PostResult.ACCEPTED, PostResult.FULL);
    }

    /** Each kind of request has the flags that its caller gives it. */
    @Test
    void flagsAreHandedOn() {
        QueuePairLimits limits = QueuePairLimits.depths(8, 4);
        try (OneThread two = OneThread.open();
                RawConnection a =
                        RawConnection.create(two.poller, limits, BYTES, null, reposting());
                RawConnection b =
                        RawConnection.create(two.pollerOfB, limits, BYTES, null, reposting());
                MemoryWindow window = two.poller.domain().createMemoryWindow()) {
            connect(a, b);
            two.device.running = false;
            two.device.sends.clear();
            OpFlags fence = OpFlags.READ_FENCE;
            BufferList list = new BufferList(1).add(two.region, 0, 8);
            a.bind(window, two.region, 0, 8, fence.and(OpFlags.ALLOW_REMOTE_READ), null, null)
                    .orThrow();
            a.invalidate(window, fence, null, null).orThrow();
            a.send(list, fence, null, null).orThrow();
            a.sendAndInvalidate(list, 1, fence, null, null).orThrow();
            a.write(list, 0, 0, fence, null, null).orThrow();
            a.read(list, 0, 0, fence, null, null).orThrow();
            assertThat(two.device.sends)
                    .hasSize(6)
                    .allMatch(one -> (one.flags() & SendChain.FENCE) != 0);
        }
    }

    /** Silent requests have no callback, and take no other's. */
    @Test
    void silentRequestsHaveNoCallback() throws Exception {
        RawConnection a = channel(null, reposting());
        RawConnection b = channel(null, reposting());
        connect(a, b);
        for (int i = 0; i < 20; i++) {
            a.send(bytes(0, 8), OpFlags.SILENT_SUCCESS, this::ended, "silent").orThrow();
            a.send(bytes(0, 8), OpFlags.NONE, this::ended, i).orThrow();
            assertThat(nextEnd()).isEqualTo(new Ended("request", i, Status.SUCCESS));
        }
        a.close();
        b.close();
    }

    /** Whatever is outstanding when a channel ends is called back, oldest first, and once. */
    @Test
    void theEndComesOnceForEach() throws Exception {
        RawConnection a = channel(Duration.ofSeconds(1), handler((channel, message) -> {}));
        RawConnection b = channel(null, reposting());
        connect(a, b);
        synchronized (device) {
            device.forgetful = true; // what is posted is lost
        }
        for (int i = 0; i < 4; i++) {
            a.send(bytes(0, 8), OpFlags.NONE, this::ended, i).orThrow();
        }
        assertThat(a.send(bytes(0, 8), OpFlags.NONE, this::ended, "one more").status())
                .isEqualTo(Status.NO_MORE_ENTRIES);
        for (int i = 0; i < 4; i++) {
            assertThat(nextEnd()).isEqualTo(new Ended("request", i, Status.IO_TIMEOUT));
        }
        assertThat(nextEnd()).isEqualTo(new Ended("channel", a, Status.IO_TIMEOUT));
        assertThat(a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.IO_TIMEOUT);
        MessagingException reason = a.closeReason();
        assertThat(reason).hasMessageContaining("a request did not complete before its deadline");
        a.close(); // does nothing more
        a.abort("too late");
        assertThat(a.closeReason()).isSameAs(reason);
        b.close();
        assertThat(ends).isEmpty();
    }

    /** What is flushed, and not by a close, has failed. */
    @Test
    void aRequestThatIsFlushedIsAborted() throws Exception {
        RawConnection a = channel(null, handler((channel, message) -> {}));
        connect(a, channel(null, reposting()));
        synchronized (device) {
            device.running = false;
        }
        a.send(bytes(0, 8), OpFlags.NONE, this::ended, "flushed").orThrow();
        a.pair.flush();
        assertThat(nextEnd()).isEqualTo(new Ended("request", "flushed", Status.CONNECTION_ABORTED));
        assertThat(nextEnd()).isEqualTo(new Ended("channel", a, Status.CONNECTION_ABORTED));
        assertThat(a.closeReason()).hasMessageContaining("failed: CANCELLED");
    }

    /** A failed request ends the connection, too, whose end may be heard of first. */
    @Test
    void theRequestThatFailedIsTheReason() throws Exception {
        RawConnection a = channel(null, reposting());
        AtomicBoolean first = new AtomicBoolean(true);
        RawConnection b =
                channel(
                        null,
                        handler(
                                (channel, message) -> {
                                    if (first.getAndSet(false)) {
                                        a.send(bytes(0, 8), OpFlags.NONE, null, null).orThrow();
                                        Pump.step(device);
                                        device.failReceive(
                                                channel.pair.address().queuePairNumber(),
                                                1); // IBV_WC_LOC_LEN_ERR: polled with the second
                                    } else {
                                        channel.disconnected(Status.CONNECTION_ABORTED);
                                    }
                                }));
        connect(a, b);
        a.send(bytes(0, 8), OpFlags.NONE, null, null).orThrow();
        assertThat(nextEnd()).isEqualTo(new Ended("channel", b, Status.BUFFER_OVERFLOW));
        assertThat(b.closeReason()).hasMessageContaining("failed: BUFFER_OVERFLOW");
    }

    /** The caller's own mistakes do not; nor does a bind, which may lack memory for a window. */
    @Test
    void aPostThatTheProviderRefusesEndsTheChannel() throws Exception {
        MemoryWindow window = poller.domain().createMemoryWindow();
        RawConnection a = channel(null, handler((channel, message) -> {}));
        RawConnection b = channel(null, reposting());
        connect(a, b);
        assertThat(a.write(bytes(0, 8), 0, 0, OpFlags.ALLOW_REMOTE_READ, null, null).status())
                .isEqualTo(Status.INVALID_PARAMETER);
        refuseNext();
        assertThat(a.bind(window, memory, 0, 8, OpFlags.ALLOW_REMOTE_READ, null, null).status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        assertThat(a.write(bytes(0, 8), 0, 0, OpFlags.ALLOW_REMOTE_READ, null, null).status())
                .isEqualTo(Status.INVALID_PARAMETER);
        assertThat(a.closeReason()).isNull();
        refuseNext();
        assertThat(a.send(bytes(0, 8), OpFlags.NONE, this::ended, "refused").status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        assertThat(nextEnd()).isEqualTo(new Ended("channel", a, Status.INSUFFICIENT_RESOURCES));
        assertThat(a.closeReason())
                .hasMessageContaining("a request was refused with INSUFFICIENT_RESOURCES");
        window.close();
    }

    private void refuseNext() {
        synchronized (device) {
            device.refused = 0;
            device.answer = Errno.ENOMEM;
        }
    }

    @Test
    void aHandlerOrCallbackThatThrowsEndsTheChannel() throws Exception {
        RawConnection a = channel(null, handler((channel, message) -> {}));
        RawConnection b =
                channel(
                        null,
                        handler(
                                (channel, message) -> {
                                    throw new IllegalStateException("handler");
                                }));
        connect(a, b);
        RawCallback throwing =
                (channel, attachment, status) -> {
                    throw new IllegalStateException("callback");
                };
        a.send(bytes(0, 8), OpFlags.NONE, throwing, null).orThrow();
        assertThat(a.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
        assertThat(b.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
        assertThat(a.closeReason()).hasMessageContaining("a callback threw");
        assertThat(b.closeReason()).hasMessageContaining("its handler threw");
    }

    @Test
    void closingThePollerEndsItsChannels() throws Exception {
        RawConnection a = channel(null, handler((channel, message) -> {}));
        connect(a, channel(null, reposting()));
        poller.close();
        assertThat(nextEnd()).isEqualTo(new Ended("channel", a, Status.CANCELLED));
        assertThat(a.closeReason()).hasMessageContaining("its poller was closed");
    }

    /** Receives of a pool serve all, and are posted again whatever becomes of their channel. */
    @Test
    void sharedReceivesServeManyChannels() throws Exception {
        RawReceives pool = RawReceives.shared(poller, 4, BYTES);
        shared = pool;
        Queue<RawMessage> held = new ConcurrentLinkedQueue<>();
        BlockingQueue<RawConnection> arrived = new LinkedBlockingQueue<>();
        RawHandler holding =
                handler(
                        (channel, message) -> {
                            held.add(message);
                            arrived.add(channel);
                        });
        List<RawConnection> senders = new ArrayList<>();
        List<RawConnection> receivers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            senders.add(channel(null, reposting()));
            receivers.add(channel(null, holding));
            connect(senders.get(i), receivers.get(i));
        }
        for (int round = 0; round < 10; round++) {
            for (int i = 0; i < 3; i++) {
                senders.get(i).send(bytes(0, 8), OpFlags.NONE, null, null).orThrow();
                assertThat(arrived.poll(30, TimeUnit.SECONDS)).isSameAs(receivers.get(i));
            }
            if (round == 5) { // its receive is held meanwhile
                receivers.get(0).abort("test");
                assertThat(receivers.get(0).closed().get(30, TimeUnit.SECONDS))
                        .isEqualTo(Status.CANCELLED);
                senders.get(0).abort("test");
                senders.set(0, channel(null, reposting()));
                receivers.set(0, channel(null, holding));
                connect(senders.get(0), receivers.get(0));
            }
            for (RawMessage message = held.poll(); message != null; message = held.poll()) {
                message.repost().orThrow();
            }
        }
        assertThat(pool.count()).isEqualTo(4);
        senders.forEach(RawConnection::close);
        receivers.forEach(RawConnection::close);
    }
}
