package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Connections on a device and a connection manager that do not exist, for the tests of connectors.
 */
@Timeout(60)
abstract class ConnectorRig {
    static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
    static final InetAddress OTHER_DEVICE = InetAddress.ofLiteral("10.0.0.2");
    static final ConnectionOptions DEFAULTS = ConnectionOptions.DEFAULTS;
    static final ConnectionOptions SOON =
            DEFAULTS.withDeadline(Duration.ofMillis(30)); // for what never comes
    static final byte[] HELLO = {1, 2, 3, 0};

    final FakeDevice device = new FakeDevice();
    final FakeConnections network = new FakeConnections();
    final Adapter adapter = FakeAdapters.open(device, network);
    final ProtectionDomain domain = adapter.createProtectionDomain();
    final CompletionQueue queue = adapter.createCompletionQueue(64);
    final QueuePair near = queuePair();
    final QueuePair far = queuePair();
    final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
    final List<AutoCloseable> opened = new ArrayList<>();
    final Arena arena = Arena.ofShared();
    Listener lastListener;

    ConnectorRig() {
        network.devices.put(HERE, "fake0");
        network.devices.put(OTHER_DEVICE, "fake1");
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable object : opened.reversed()) {
            object.close();
        }
        near.close();
        far.close();
        queue.close();
        domain.close();
        adapter.close();
        arena.close();
        // A connection's end may still be on its way to the peer.
        device.until(() -> device.objects() == 0);
        network.until(() -> network.identifiers() == 0 && network.channels() == 0);
        device.dispose();
        Rig.nobodyThrew();
    }

    QueuePair queuePair() {
        return domain.createQueuePair(queue, queue, QueuePairLimits.depths(4, 4).withReads(3, 2));
    }

    <T extends AutoCloseable> T keep(T object) {
        opened.add(object);
        return object;
    }

    Listener listener() {
        lastListener = keep(adapter.listen(new InetSocketAddress(HERE, 0), 0, requests::add));
        return lastListener;
    }

    Connector connector() {
        return keep(adapter.createConnector());
    }

    Connector request() throws InterruptedException {
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as("a request").isNotNull();
        return keep(request);
    }

    /** On its way to a listener made for it, from the near queue pair. */
    CompletableFuture<Void> connecting(Connector connector) {
        return connector.connectAsync(near, listener().localAddress(), DEFAULTS);
    }

    static void get(CompletableFuture<?> future) throws Exception {
        future.get(30, TimeUnit.SECONDS);
    }

    static VerbenaException failure(CompletableFuture<?> future) {
        return (VerbenaException)
                catchThrowableOfType(ExecutionException.class, () -> get(future)).getCause();
    }

    static VerbenaException failure(ThrowingCallable call) {
        return catchThrowableOfType(VerbenaException.class, call);
    }

    /** A connection between the two queue pairs: the connecting side and the accepting one. */
    Connector[] connected() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        Connector request = request();
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        connector.completeConnect();
        get(accepting);
        return new Connector[] {connector, request};
    }
}
