package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.verbs.AsyncEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The event loop of an adapter, on which all of its objects depend. */
@Timeout(60)
class AdapterEventsTest {
    private AdapterEvents events() {
        return new AdapterEvents("fake0", device);
    }

    private final FakeDevice device = new FakeDevice();
    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final CompletableFuture<AdapterEvents> made = new CompletableFuture<>();
    private final BlockingQueue<Throwable> reported = uncaught.reports();

    @AfterEach
    void close() {
        device.dispose();
    }

    private Throwable report() throws InterruptedException {
        Throwable report = reported.poll(30, TimeUnit.SECONDS);
        assertThat(report).as("a report").isNotNull();
        return report;
    }

    @Test
    void survivesWhatGoesWrongWithOneEvent() throws Exception {
        try (Adapter adapter = FakeAdapters.open(device);
                CompletionQueue queue = adapter.createCompletionQueue(4)) {
            device.taking.set(new OutOfMemoryError("Java heap space"));
            device.raise(AdapterEvent.Type.OTHER, 0);
            assertThat(report()).isInstanceOf(OutOfMemoryError.class);
            queue.arm(NotifyType.ANY);
            device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED); // the next event is handled
            assertThat(queue.await(Duration.ofSeconds(30))).isEqualTo(Status.BUFFER_OVERFLOW);
        }
        assertThat(reported).isEmpty();
    }

    @Test
    void anEventWhoseHandlingFailsReachesTheListenersAllTheSame() throws Exception {
        BlockingQueue<AsyncEvent> arrived = new LinkedBlockingQueue<>();
        AdapterEvents events = events();
        events.listeners().add(arrived::add);
        events.register(
                4096,
                "the object at 4096",
                event -> {
                    throw new IllegalStateException("cannot handle it");
                });
        device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED, 4096);
        assertThat(report()).hasMessage("cannot handle it");
        AsyncEvent event = arrived.poll(30, TimeUnit.SECONDS);
        assertThat(event.type()).isEqualTo(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
        assertThat(event.object()).isEqualTo("the object at 4096");
        events.stop();
        assertThat(arrived).isEmpty(); // no event is none
    }

    /** Once the event is acknowledged, its object may be closed and the address another's. */
    @Test
    void anEventIsForTheObjectThatHadTheAddressWhenItCame() throws Exception {
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        CountDownLatch known = new CountDownLatch(1);
        AdapterEvents events = events();
        events.listeners().add(event -> known.countDown());
        device.afterTake =
                () -> {
                    events.forget(4096);
                    events.register(4096, "second", event -> told.add("second"));
                };
        events.register(4096, "first", event -> told.add("first"));
        device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED, 4096);
        Until.reached(known);
        assertThat(told).containsExactly("first");
        events.stop();
    }

    /** Events of connections, and a task that is due with the first of them. */
    private BlockingQueue<String> inOrder(int connectionEvents) {
        BlockingQueue<String> order = new LinkedBlockingQueue<>();
        device.loopWaits.add(
                () -> {
                    made.join().attach(source(() -> order.add("event")));
                    return 0;
                });
        device.loopWaits.add(
                () -> {
                    var _ = made.join().timers().after(0, () -> order.add("deadline"));
                    return 4; // the source is readable
                });
        for (int i = 1; i < connectionEvents; i++) {
            device.loopWaits.add(() -> 4);
        }
        made.complete(events());
        return order;
    }

    private static AdapterEvents.Source source(Runnable handle) {
        return new AdapterEvents.Source() {
            @Override
            public int descriptor() {
                return -1;
            }

            @Override
            public void handle() {
                handle.run();
            }

            @Override
            public void threadEnded(Throwable cause) {}

            @Override
            public void close() {}
        };
    }

    /** The process was suspended: what has come in time counts. */
    @Test
    void deadlinesWaitForWhatHasCome() throws Exception {
        BlockingQueue<String> order = inOrder(3);
        for (String next : List.of("event", "event", "event", "deadline")) {
            assertThat(order.poll(30, TimeUnit.SECONDS)).isEqualTo(next);
        }
        made.join().stop();
    }

    @Test
    void deadlinesDoNotWaitForever() throws Exception {
        BlockingQueue<String> order = inOrder(5000);
        int events = 0;
        while ("event".equals(order.poll(30, TimeUnit.SECONDS))) {
            events++;
        }
        assertThat(events).isEqualTo(1024);
        made.join().stop();
    }

    @Test
    void survivesAWaitThatFindsNoMemory() throws Exception {
        CountDownLatch waitsAgain = new CountDownLatch(1);
        device.loopWaits.add(
                () -> {
                    throw new OutOfMemoryError("Java heap space");
                });
        device.loopWaits.add(
                () -> {
                    waitsAgain.countDown();
                    return 0;
                });
        AdapterEvents events = events();
        assertThat(report()).isInstanceOf(OutOfMemoryError.class);
        Until.reached(waitsAgain);
        events.stop();
        assertThat(reported).isEmpty();
    }

    @Test
    void aPollThatFailsIsNotTakenForEventsAndEndsTheThreadWithAReport() throws Exception {
        device.loopWaits.add(() -> -Errno.EINVAL);
        AdapterEvents events = events();
        assertThat(report())
                .isInstanceOf(VerbenaException.class)
                .hasMessageContainingAll("poll", "EINVAL");
        events.stop();
    }
}
