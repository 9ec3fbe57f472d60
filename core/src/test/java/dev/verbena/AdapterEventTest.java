package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.AdapterEvent.Type;
import dev.verbena.internal.runtime.EventListeners;
import dev.verbena.internal.verbs.AsyncEvent;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** What listeners of an adapter's events get, and what they may do. */
@Timeout(60)
class AdapterEventTest {
    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter = FakeAdapters.open(device);
    private final BlockingQueue<AdapterEvent> events = new LinkedBlockingQueue<>();
    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final BlockingQueue<Throwable> reported = uncaught.reports();

    @AfterEach
    void close() {
        adapter.close();
        device.dispose();
    }

    private AdapterEvent next() throws InterruptedException {
        AdapterEvent event = events.poll(30, TimeUnit.SECONDS);
        assertThat(event).as("an event").isNotNull();
        return event;
    }

    @Nested
    class Types {
        @ParameterizedTest
        @CsvSource({
            "PORT_UP, 9",
            "PORT_DOWN, 10",
            "LID_CHANGED, 11",
            "P_KEYS_CHANGED, 12",
            "SUBNET_MANAGER_CHANGED, 13",
            "CLIENT_REREGISTER, 17",
            "GIDS_CHANGED, 18",
        })
        void ofAPortNameIt(Type type, int number) throws Exception {
            adapter.onEvent(events::add);
            device.raise(AsyncEvent.typeOf(number), number, 2);
            AdapterEvent event = next();
            assertThat(event.type()).isEqualTo(type);
            assertThat(event.number()).isEqualTo(number);
            assertThat(event.port()).isEqualTo(2);
            assertThat(event.adapter()).isSameAs(adapter);
            assertThat(event.object()).isNull();
            assertThat(event).hasToString(type + " of fake0 port 2");
        }

        @ParameterizedTest
        @CsvSource({
            "QUEUE_PAIR_FAILED, 1",
            "QUEUE_PAIR_REQUEST_ERROR, 2",
            "QUEUE_PAIR_ACCESS_ERROR, 3",
            "COMMUNICATION_ESTABLISHED, 4",
            "SEND_QUEUE_DRAINED, 5",
            "PATH_MIGRATED, 6",
            "PATH_MIGRATION_FAILED, 7",
            "LAST_RECEIVE_REACHED, 16",
        })
        void ofAQueuePairNameIt(Type type, int number) throws Exception {
            try (ProtectionDomain domain = adapter.createProtectionDomain();
                    CompletionQueue queue = adapter.createCompletionQueue(8);
                    QueuePair one = queuePair(domain, queue);
                    QueuePair other = queuePair(domain, queue)) {
                adapter.onEvent(events::add);
                device.raise(AsyncEvent.typeOf(number), number, other.handle().address());
                device.raise(AsyncEvent.typeOf(number), number, one.handle().address());
                AdapterEvent first = next();
                assertThat(first.type()).isEqualTo(type);
                assertThat(first.number()).isEqualTo(number);
                assertThat(first.object()).isSameAs(other);
                assertThat(first.object()).isNotInstanceOf(CompletionQueue.class);
                assertThat(first.port()).isZero();
                assertThat(first).hasToString(type + " of fake0: " + other);
                assertThat(next().object()).isSameAs(one);
            }
        }

        @Test
        void ofACompletionQueueNameIt() throws Exception {
            try (CompletionQueue queue = adapter.createCompletionQueue(8)) {
                adapter.onEvent(events::add);
                device.raise(Type.COMPLETION_QUEUE_FAILED, queue.nativeHandle().address());
                AdapterEvent event = next();
                assertThat(event.type()).isEqualTo(Type.COMPLETION_QUEUE_FAILED);
                assertThat(event.number()).isZero();
                assertThat(event.object()).isSameAs(queue);
                assertThat(event.object()).isNotInstanceOf(SharedReceiveQueue.class);
                assertThatThrownBy(() -> queue.poll(new Completions(1))) // it was handled before
                        .isInstanceOf(VerbenaException.class);
            }
        }

        @ParameterizedTest
        @CsvSource({
            "SHARED_RECEIVE_QUEUE_FAILED, 14",
            "SHARED_RECEIVE_QUEUE_LOW, 15",
        })
        void ofASharedReceiveQueueNameIt(Type type, int number) throws Exception {
            try (ProtectionDomain domain = adapter.createProtectionDomain();
                    SharedReceiveQueue queue =
                            domain.createSharedReceiveQueue(4, 1, status -> {})) {
                adapter.onEvent(events::add);
                device.raise(AsyncEvent.typeOf(number), number, queue.handle().address());
                AdapterEvent event = next();
                assertThat(event.type()).isEqualTo(type);
                assertThat(event.number()).isEqualTo(number);
                assertThat(event.object()).isSameAs(queue);
            }
        }

        @Test
        void ofTheDevice() throws Exception {
            adapter.onEvent(events::add);
            device.raise(Type.DEVICE_FAILED, 0);
            AdapterEvent event = next();
            assertThat(event.type()).isEqualTo(Type.DEVICE_FAILED);
            assertThat(event.number()).isEqualTo(8);
            assertThat(event).hasToString("DEVICE_FAILED of fake0");
            device.raise(AsyncEvent.typeOf(20), 20, 0);
            AdapterEvent faster = next();
            assertThat(faster.type()).isEqualTo(Type.DEVICE_SPEED_CHANGED);
            assertThat(faster.number()).isEqualTo(20);
            assertThat(faster.port()).isZero();
            device.unplug();
            AdapterEvent last = next();
            assertThat(last.type()).isEqualTo(Type.DEVICE_REMOVED);
            assertThat(last.number()).isEqualTo(-1);
        }

        @Test
        void thatAreNotKnownHaveTheirNumber() throws Exception {
            adapter.onEvent(events::add);
            device.raise(AsyncEvent.typeOf(77), 77, 0);
            AdapterEvent event = next();
            assertThat(event.type()).isEqualTo(Type.OTHER);
            assertThat(event.number()).isEqualTo(77);
            assertThat(event).hasToString("OTHER (77) of fake0");
        }

        @Test
        void ofAnObjectThatIsClosedNameNone() throws Exception {
            adapter.onEvent(events::add);
            CompletionQueue queue = adapter.createCompletionQueue(8);
            long address = queue.nativeHandle().address();
            queue.close();
            device.raise(Type.COMPLETION_QUEUE_FAILED, address);
            AdapterEvent event = next();
            assertThat(event.type()).isEqualTo(Type.COMPLETION_QUEUE_FAILED);
            assertThat(event.object()).isNull();
        }

        @Test
        void eachNumberOfVerbsHasATypeOfItsOwn() {
            Set<Type> seen = EnumSet.noneOf(Type.class);
            for (int number = 0; number <= 18; number++) {
                seen.add(AsyncEvent.typeOf(number));
            }
            assertThat(seen).hasSize(19).doesNotContain(Type.OTHER);
            assertThat(AsyncEvent.typeOf(19))
                    .as("of a work queue, which this library never makes")
                    .isEqualTo(Type.OTHER);
            assertThat(AsyncEvent.typeOf(20)).isEqualTo(Type.DEVICE_SPEED_CHANGED);
            assertThat(AsyncEvent.typeOf(-1)).isEqualTo(Type.OTHER);
        }
    }

    private static QueuePair queuePair(ProtectionDomain domain, CompletionQueue queue) {
        return domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
    }

    @Nested
    class Listeners {
        @Test
        void getAllEventsInOrder() throws Exception {
            BlockingQueue<AdapterEvent> seenByOther = new LinkedBlockingQueue<>();
            adapter.onEvent(events::add);
            adapter.onEvent(seenByOther::add);
            for (int number = 100; number < 600; number++) {
                device.raise(Type.OTHER, number, 0);
            }
            for (int number = 100; number < 600; number++) {
                assertThat(next().number()).isEqualTo(number);
                assertThat(seenByOther.poll(30, TimeUnit.SECONDS).number()).isEqualTo(number);
            }
        }

        @Test
        void runOnAnotherThreadThanTheEvents() throws Exception {
            AtomicReference<String> name = new AtomicReference<>();
            adapter.onEvent(
                    event -> {
                        name.set(Thread.currentThread().getName());
                        events.add(event);
                    });
            device.raise(Type.PORT_UP, 1);
            next();
            assertThat(name.get()).startsWith("verbena-callback-");
        }

        @Test
        void thatWaitHoldUpNobodyElse() throws Exception {
            CountDownLatch go = new CountDownLatch(1);
            BlockingQueue<AdapterEvent> late = new LinkedBlockingQueue<>();
            adapter.onEvent(
                    event -> {
                        Until.reached(go);
                        late.add(event);
                    });
            adapter.onEvent(events::add);
            device.raise(Type.PORT_DOWN, 1);
            device.raise(Type.PORT_UP, 1);
            assertThat(next().type()).isEqualTo(Type.PORT_DOWN);
            assertThat(next().type()).isEqualTo(Type.PORT_UP);
            assertThat(late).isEmpty();
            go.countDown();
            assertThat(late.poll(30, TimeUnit.SECONDS).type()).isEqualTo(Type.PORT_DOWN);
            assertThat(late.poll(30, TimeUnit.SECONDS).type()).isEqualTo(Type.PORT_UP);
        }

        @Test
        void thatThrowAreReportedAndGetTheNextEvent() throws Exception {
            adapter.onEvent(
                    event -> {
                        events.add(event);
                        throw new IllegalStateException("listener " + event.type());
                    });
            device.raise(Type.PORT_DOWN, 1);
            device.raise(Type.PORT_UP, 1);
            assertThat(next().type()).isEqualTo(Type.PORT_DOWN);
            assertThat(next().type()).isEqualTo(Type.PORT_UP);
            assertThat(reported.poll(30, TimeUnit.SECONDS)).hasMessage("listener PORT_DOWN");
            assertThat(reported.poll(30, TimeUnit.SECONDS)).hasMessage("listener PORT_UP");
        }

        @Test
        void mayCloseWhatTheEventNames() throws Exception {
            CompletionQueue queue = adapter.createCompletionQueue(8);
            adapter.onEvent(
                    event -> {
                        ((CompletionQueue) event.object()).close();
                        adapter.close();
                        events.add(event);
                    });
            device.raise(Type.COMPLETION_QUEUE_FAILED, queue.nativeHandle().address());
            assertThat(next().object()).isSameAs(queue);
            adapter.awaitClosed(Duration.ofSeconds(30));
            assertThat(device.objects()).isZero();
            assertThat(reported).isEmpty();
        }

        @Test
        void areNotCalledAfterTheirRegistrationWasClosed() throws Exception {
            List<AdapterEvent> seen = new ArrayList<>();
            AdapterEvent.Registration registration = adapter.onEvent(seen::add);
            adapter.onEvent(events::add);
            registration.close();
            registration.close();
            device.raise(Type.PORT_DOWN, 1);
            next();
            assertThat(seen).isEmpty();
        }

        @Test
        void thatRunAreWaitedForByTheCloseOfTheirRegistration() throws Exception {
            CountDownLatch running = new CountDownLatch(1);
            CountDownLatch go = new CountDownLatch(1);
            AdapterEvent.Registration registration =
                    adapter.onEvent(
                            event -> {
                                running.countDown();
                                Until.reached(go);
                                events.add(event);
                            });
            device.raise(Type.PORT_DOWN, 1);
            device.raise(Type.PORT_UP, 1);
            Until.reached(running);
            Thread closer = Thread.ofPlatform().start(registration::close);
            Until.isIn(closer, Thread.State.TIMED_WAITING);
            assertThat(events).isEmpty();
            go.countDown();
            closer.join();
            assertThat(events).hasSize(1); // the second was not delivered yet
        }

        @Test
        void mayCloseTheirRegistration() throws Exception {
            AtomicReference<AdapterEvent.Registration> own = new AtomicReference<>();
            own.set(
                    adapter.onEvent(
                            event -> {
                                own.get().close();
                                events.add(event);
                            }));
            device.raise(Type.PORT_DOWN, 1);
            device.raise(Type.PORT_UP, 1);
            assertThat(next().type()).isEqualTo(Type.PORT_DOWN);
            BlockingQueue<AdapterEvent> later = new LinkedBlockingQueue<>();
            adapter.onEvent(later::add);
            device.raise(Type.GIDS_CHANGED, 1);
            AdapterEvent last;
            do {
                last = later.poll(30, TimeUnit.SECONDS);
            } while (last.type() != Type.GIDS_CHANGED);
            assertThat(events).isEmpty();
        }

        @Test
        void learnThatTheEventThreadHasEnded() throws Exception {
            FakeConnections network = new FakeConnections();
            Adapter failing = FakeAdapters.open(device, network);
            failing.onEvent(events::add);
            try (Connector connector = failing.createConnector()) {
                network.failure = new IllegalStateException("out of luck");
                connector.connectAsync(
                        queuePairOf(failing),
                        new InetSocketAddress(InetAddress.getByName("10.0.0.1"), 7),
                        ConnectionOptions.DEFAULTS);
                assertThat(next().type()).isEqualTo(Type.EVENTS_ENDED);
            }
            assertThat(reported.poll(30, TimeUnit.SECONDS)).isSameAs(network.failure);
            failing.onEvent(events::add); // late, and it gets this one event all the same
            assertThat(next().type()).isEqualTo(Type.EVENTS_ENDED);
        }

        private static QueuePair queuePairOf(Adapter adapter) {
            return queuePair(adapter.createProtectionDomain(), adapter.createCompletionQueue(8));
        }

        @Test
        void ofAClosedAdapterAreRefused() {
            adapter.close();
            assertThatThrownBy(() -> adapter.onEvent(events::add))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is closed");
        }

        @ParameterizedTest
        @ValueSource(booleans = {false, true})
        void areNotifiedOnceWhenTheEventThreadHasEnded(boolean before) throws Exception {
            EventListeners listeners = adapter.device().events().listeners();
            if (before) {
                listeners.threadEnded();
            }
            listeners.add(AdapterEventTest.this::deliver);
            listeners.threadEnded();
            listeners.threadEnded();
            AdapterEvent end = next();
            assertThat(end.type()).isEqualTo(Type.EVENTS_ENDED);
            assertThat(end.number()).isEqualTo(-1);
            listeners.add(AdapterEventTest.this::deliver).close();
            listeners.threadEnded();
            assertThat(events).isEmpty();
        }
    }

    private void deliver(AsyncEvent event) {
        events.add(
                new AdapterEvent(
                        adapter, event.type(), event.number(), event.port(), event.object()));
    }
}
