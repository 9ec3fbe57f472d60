package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Connectors that are closed, at any moment. */
class ConnectorCloseTest extends ConnectorRig {
    @Test
    void aDeviceThatComplainsOfADestroyHoldsUpNobody() throws Exception {
        network.silent.add("connect");
        QueuePair third = queuePair();
        Connector connector = connector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(third, new InetSocketAddress(HERE, 7), DEFAULTS);
        network.until(() -> network.calls.contains("connect"));
        third.close(); // pends on the connector
        device.destroyError = Errno.EIO;
        CountDownLatch reported = new CountDownLatch(1);
        Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.countDown());
        try {
            network.emit("CONNECTING", ConnectionEvent.Kind.REJECTED, 28);
            assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
            Until.reached(reported);
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }
        network.silent.clear();
        connected(); // the event thread lives
    }

    @Test
    void aClosedConnectorTouchesNothing() throws Exception {
        Connector connector = connector();
        connector.close();
        assertThatThrownBy(connector::connectionData).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> connector.connect(near, new InetSocketAddress(HERE, 7)))
                .isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> connector.accept(near)).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(connector::completeConnect).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(connector::disconnect).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> connector.reject(HELLO)).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void theQueuePairMayBeUsedAgainWhenACloseEndsTheStep() throws Exception {
        network.silent.add("connect");
        InetSocketAddress nobody = new InetSocketAddress(HERE, 7);
        for (int i = 0; i < 200; i++) {
            Connector connector = adapter.createConnector();
            CompletableFuture<Void> connecting = connector.connectAsync(near, nobody, DEFAULTS);
            CompletableFuture<Void> next =
                    connecting.handle(
                            (nothing, thrown) -> {
                                try (Connector other = adapter.createConnector()) {
                                    other.connectAsync(near, nobody, DEFAULTS)
                                            .completeOnTimeout(null, 0, TimeUnit.SECONDS);
                                }
                                return null;
                            });
            connector.close();
            get(next);
            network.until(() -> network.identifiers() == 0);
        }
    }

    @Test
    void aFlushDuringAnAttemptIsForGood() throws Exception {
        network.silent.add("connect");
        Connector connector = connector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(near, new InetSocketAddress(HERE, 7), DEFAULTS);
        network.until(() -> network.calls.contains("connect"));
        near.flush();
        network.emit("CONNECTING", ConnectionEvent.Kind.REJECTED, 28);
        assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
        assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                .hasMessageContaining("flushed")
                .extracting(VerbenaException::status)
                .isEqualTo(Status.CONNECTION_INVALID);
    }

    @Test
    void aSharedQueuesCallbackMayWaitForAConnection() throws Exception {
        Listener listener = listener();
        CompletableFuture<Void> connected = new CompletableFuture<>();
        Connector connector = connector();
        SharedReceiveQueue receives =
                keep(
                        domain.createSharedReceiveQueue(
                                4,
                                1,
                                status -> {
                                    connector.connect(near, listener.localAddress());
                                    connected.complete(null);
                                }));
        receives.notifyBelow(2);
        request().acceptAsync(far, DEFAULTS);
        get(connected);
    }

    @Test
    void anAddressThatChangesDoesNotEndIt() throws Exception {
        Connector[] both = connected();
        assertThat(network.emit("ESTABLISHED", ConnectionEvent.Kind.ADDRESS_CHANGED, 0))
                .isEqualTo(2);
        QueuePair third = keep(queuePair());
        // Its events are handled after those.
        failure(() -> connector().connect(third, new InetSocketAddress(HERE, 7)));
        assertThat(near.connected()).isTrue();
        assertThat(far.connected()).isTrue();
        both[0].disconnect();
    }

    @Test
    void closesInAnyOrderAtAnyMoment() throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        for (int round = 0; round < 200; round++) {
            List<AutoCloseable> objects = new ArrayList<>();
            CompletionQueue cq = adapter.createCompletionQueue(32);
            ProtectionDomain pd = adapter.createProtectionDomain();
            QueuePair one = pd.createQueuePair(cq, cq, QueuePairLimits.depths(2, 2));
            QueuePair two = pd.createQueuePair(cq, cq, QueuePairLimits.depths(2, 2));
            BlockingQueue<Connector> asked = new LinkedBlockingQueue<>();
            Listener listener =
                    adapter.listen(
                            new InetSocketAddress(HERE, 0),
                            0,
                            r -> {
                                asked.add(r);
                                requests.add(r);
                            });
            Connector connector = adapter.createConnector();
            objects.addAll(List.of(cq, pd, one, two, listener, connector));
            int stop = random.nextInt(5);
            CompletableFuture<Void> connecting =
                    connector.connectAsync(one, listener.localAddress(), DEFAULTS);
            if (stop > 0) {
                Connector request = asked.take();
                objects.add(request);
                if (stop > 1) {
                    CompletableFuture<Void> accepting = request.acceptAsync(two, DEFAULTS);
                    if (stop > 2) {
                        get(connecting);
                        connector.completeConnect();
                        get(accepting);
                    }
                    if (stop > 3) {
                        connector.disconnectAsync(DEFAULTS);
                    }
                }
            }
            java.util.Collections.shuffle(objects, new java.util.Random(random.nextLong()));
            for (AutoCloseable object : objects) {
                object.close();
                object.close(); // again does nothing
            }
            for (Connector late = requests.poll(); late != null; late = requests.poll()) {
                late.close();
            }
        }
        // What came too late for the loop is refused when the listener is gone.
        Until.holds(
                () -> {
                    Connector late = requests.poll();
                    if (late != null) {
                        late.close();
                    }
                    return network.identifiers() == 0;
                });
    }

    @ParameterizedTest
    @EnumSource
    void closingEndsTheOutstandingStep(Moment moment) throws Exception {
        network.silent.addAll(moment.unanswered);
        Listener listener = listener();
        Connector connector = connector();
        CompletableFuture<Void> step =
                connector.connectAsync(near, listener.localAddress(), DEFAULTS);
        if (moment == Moment.ACCEPTING) {
            Connector request = request();
            CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
            request.close();
            assertThat(failure(accepting).status()).isEqualTo(Status.CANCELLED);
        } else {
            connector.close();
            assertThat(failure(step).status()).isEqualTo(Status.CANCELLED);
        }
        QueuePair third = keep(queuePair());
        Class<?> expected =
                moment == Moment.ACCEPTING // the request was closed, not the connector
                        ? VerbenaException.class
                        : IllegalStateException.class;
        assertThatThrownBy(() -> connector.connect(third, listener.localAddress(), SOON))
                .isInstanceOf(expected);
    }

    enum Moment {
        RESOLVING("resolveAddress"),
        CONNECTING("connect"),
        ACCEPTING("establish");

        final List<String> unanswered;

        Moment(String unanswered) {
            this.unanswered = List.of(unanswered);
        }
    }

    @Test
    void closingAnUnansweredRequestRefusesIt() throws Exception {
        CompletableFuture<Void> connecting = connecting(connector());
        request().close();
        assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
    }

    /** As near the end of a stack, or without memory: a second close would do nothing. */
    @Test
    void aCloseThatThrowsReleasesEverythingAllTheSame() throws Exception {
        Connector[] both = connected();
        CompletableFuture<Status> over = new CompletableFuture<>();
        both[0].onDisconnect(over::complete);
        network.beforeStep = step -> throwAt("disconnect", step);
        assertThatThrownBy(both[0]::close).isInstanceOf(StackOverflowError.class);
        assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        both[0].awaitClosed(Duration.ofSeconds(30));
        near.close();
        near.awaitClosed(Duration.ZERO);
    }

    /** Once: the peer hears of the end meanwhile, and disconnects, too. */
    private void throwAt(String moment, String step) {
        if (step.equals(moment)) {
            network.beforeStep = later -> {};
            throw new StackOverflowError();
        }
    }

    @Test
    void anEndThatThrowsIsReportedAllTheSame() throws Exception {
        Connector[] both = connected();
        CompletableFuture<Status> over = new CompletableFuture<>();
        both[1].onDisconnect(over::complete);
        AtomicInteger disconnects = new AtomicInteger();
        network.beforeStep =
                step -> {
                    if (step.equals("disconnect") && disconnects.incrementAndGet() == 2) {
                        throw new StackOverflowError(); // of the side that hears of it
                    }
                };
        Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
        CountDownLatch reported = new CountDownLatch(1);
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.countDown());
        try {
            CompletableFuture<Void> disconnected = both[0].disconnectAsync(DEFAULTS);
            assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
            Until.reached(reported);
            both[1].close();
            disconnected.get(30, TimeUnit.SECONDS);
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }
    }

    @Test
    void callbacksMayCloseEverything() throws Exception {
        Connector[] both = connected();
        CountDownLatch closed = new CountDownLatch(1);
        both[1].onDisconnect(
                status -> {
                    both[1].close();
                    far.close();
                    queue.close();
                    domain.close();
                    closed.countDown();
                });
        both[0].disconnect();
        Until.reached(closed);
    }

    @Test
    void whenTheEventThreadDiesEverythingFailsAtOnce() throws Exception {
        Connector[] stood = connected();
        network.silent.addAll(List.of("connect", "disconnect", "confirm"));
        Connector connector = connector();
        QueuePair third = keep(queuePair());
        CompletableFuture<Void> connecting =
                connector.connectAsync(third, new InetSocketAddress(HERE, 7), DEFAULTS);
        network.until(() -> network.calls.stream().filter("connect"::equals).count() == 2);
        network.failure = new IllegalStateException("out of luck");
        Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
        CountDownLatch reported = new CountDownLatch(1);
        Thread.setDefaultUncaughtExceptionHandler(
                (thread, thrown) -> {
                    if (thrown == network.failure) {
                        reported.countDown();
                    }
                });
        CompletableFuture<Status> over = new CompletableFuture<>();
        stood[0].onDisconnect(over::complete);
        stood[1].close(); // its message to the peer will never be answered
        try {
            network.emit("CONNECTING", ConnectionEvent.Kind.TIMEWAIT_EXIT, 0);
            VerbenaException e = failure(connecting);
            assertThat(e.status()).isEqualTo(Status.INTERNAL_ERROR);
            assertThat(e).hasMessageContaining("event thread ended").hasRootCause(network.failure);
            assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            assertThat(failure(stood[0].disconnectAsync(DEFAULTS)).status())
                    .isEqualTo(Status.INTERNAL_ERROR);
            assertThat(failure(lastListener::resume).status()).isEqualTo(Status.INTERNAL_ERROR);
            // Its queue pairs are of no use either: an overrun would not be reported.
            assertThat(failure(this::listener).status()).isEqualTo(Status.INTERNAL_ERROR);
            Until.reached(reported); // at last: until then the handler has to stay
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }
    }
}
