package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.AdapterEvent;
import dev.verbena.BufferList;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** A provider that refuses a receive of a channel that stands. */
@Timeout(60)
class RefusedReceiveTest {
    /** A receive that the provider refuses would be missing for ever. */
    @Test
    void aReceiveThatIsRefusedEndsTheChannel() {
        AtomicReference<FakeDevice> device = new AtomicReference<>();
        try (OneThread two =
                new OneThread(
                        MessagingOptions.DEFAULTS,
                        (channel, message) -> {
                            device.get().refused = 0;
                            device.get().answer = Errno.ENOMEM; // of the next post
                        })) {
            device.set(two.device);
            assertThat(two.a.trySend(OneThread.text("hello")).isSuccess()).isTrue();
            two.run();
            assertThat(two.b.closeReason())
                    .hasMessageContaining("a shared receive was refused: the provider refused it")
                    .extracting(VerbenaException::status)
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(two.b.closed()).isDone();
        }
    }

    /**
     * The end of the others takes their locks, one of which a thread may hold that ends this one.
     */
    @Test
    void aReceiveThatIsRefusedEndsTheOtherChannelsWithoutTheLockOfItsOwn() throws Exception {
        BlockingQueue<Message> kept = new LinkedBlockingQueue<>();
        CountDownLatch locked = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        try (Two two =
                new Two(
                        MessagingOptions.DEFAULTS,
                        null,
                        (channel, message) -> kept.add(message.retain()))) {
            two.a.send(OneThread.text("hello"), OneThread.LONG);
            Message message = kept.poll(30, TimeUnit.SECONDS);
            Thread holder =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try (var _ = two.a.lock.hold()) {
                                            locked.countDown();
                                            released.await();
                                        } catch (InterruptedException e) {
                                            throw new IllegalStateException(e);
                                        }
                                    });
            locked.await();
            synchronized (two.device) {
                two.device.refused = 0;
                two.device.answer = Errno.ENOMEM; // of the next post
            }
            Thread releaser = Thread.ofPlatform().start(message::release);
            boolean isOver = releaser.join(Duration.ofSeconds(10));
            released.countDown();
            holder.join();
            assertThat(isOver).as("the release waits for nobody").isTrue();
            assertThat(two.a.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(two.b.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        }
    }

    /** Two channels of a pool; a message that is outstanding when its receiver is aborted. */
    private static final class Pool implements AutoCloseable {
        private static final QueuePairLimits LIMITS = QueuePairLimits.depths(4, 4);

        final FakeDevice device = new FakeDevice();
        private final Adapter adapter = FakeAdapters.open(device);
        private final Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
        private final MemoryRegion memory = poller.domain().allocate(64);
        private final RawReceives receives = RawReceives.shared(poller, 4, 64);
        private final List<RawMessage> held = new ArrayList<>();
        final RawConnection receiver =
                RawConnection.create(poller, LIMITS, receives, null, holding());
        final RawConnection other = RawConnection.create(poller, LIMITS, receives, null, holding());
        final RawConnection sender = RawConnection.create(poller, LIMITS, 64, null, holding());

        Pool() {
            sender.pair.connect(receiver.pair.address());
            receiver.pair.connect(sender.pair.address());
        }

        private RawHandler holding() {
            return new RawHandler() {
                @Override
                public void received(RawConnection channel, RawMessage message) {
                    held.add(message);
                }

                @Override
                public void ended(RawConnection channel, MessagingException reason) {}
            };
        }

        void send() {
            sender.send(BufferList.of(memory), OpFlags.SILENT_SUCCESS, null, null).orThrow();
        }

        RawMessage received() {
            send();
            poll();
            return held.removeFirst();
        }

        void poll() {
            for (int i = 0; i < 3; i++) {
                int ignored = poller.poll();
            }
        }

        void refuseTheNextPost() {
            device.refused = 0;
            device.answer = Errno.ENOMEM;
        }

        @Override
        public void close() {
            poller.close();
            receives.close();
            memory.close();
            adapter.close();
            assertThat(device.objects()).as("native objects left").isZero();
            device.dispose();
        }
    }

    /** All channels of a pool would have a receive fewer for ever; others are none the worse. */
    @Test
    void aSharedReceiveThatIsRefusedEndsTheChannelsOfThePool() {
        try (Pool pool = new Pool()) {
            pool.send();
            pool.device.run();
            pool.receiver.abort("test"); // it does not take the message any more
            pool.refuseTheNextPost();
            pool.poll();
            assertThat(pool.other.closeReason())
                    .hasMessageContaining(
                            "a shared receive was refused: the provider refused it, out of memory")
                    .extracting(VerbenaException::status)
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(pool.other.closed()).isDone();
            assertThat(pool.receiver.closeReason()).hasMessageContaining("test");
            assertThat(pool.sender.closeReason()).isNull();
        }
    }

    /** A failed queue is the affair of those that use it, also if others report to its queue. */
    @Test
    void aSharedReceiveQueueThatFailsEndsTheChannelsOfThePool() throws Exception {
        try (Pool pool = new Pool()) {
            pool.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_FAILED);
            Until.holds(() -> pool.other.closeReason() != null);
            Until.holds(() -> pool.receiver.closeReason() != null);
            assertThat(pool.other.closeReason())
                    .hasMessageContaining("the shared receive queue has failed");
            assertThat(pool.sender.closeReason()).isNull();
        }
    }

    /** A message's receive that is refused when it is posted again can be posted once more. */
    @Test
    void aReceiveThatIsRefusedCanBePostedAgain() {
        try (Pool pool = new Pool()) {
            RawMessage message = pool.received();
            pool.refuseTheNextPost();
            assertThat(message.repost().status()).isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(message.repost().status()).isEqualTo(Status.SUCCESS);
            assertThat(pool.other.closeReason()).isNull();
        }
    }
}
