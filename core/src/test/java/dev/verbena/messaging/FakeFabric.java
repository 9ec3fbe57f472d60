package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** A device and a network that do not exist, which a thread keeps running. */
final class FakeFabric implements AutoCloseable {
    static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");

    final FakeDevice device = new FakeDevice();
    final FakeConnections network = new FakeConnections();
    final InjectedErrors errors = new InjectedErrors();
    final Adapter adapter = FakeAdapters.open(device, network);
    private final Thread pump;
    private volatile boolean ended;

    FakeFabric() {
        device.beforeStep = errors::before;
        network.beforeStep = errors::before;
        device.carriesBytes = true;
        network.devices.put(HERE, "fake0");
        pump = Thread.ofPlatform().daemon().start(this::pump);
    }

    private void pump() {
        while (!ended) {
            Two.step(device);
            LockSupport.parkNanos(10_000);
        }
    }

    /** From now on, no peer answers; or they do again. */
    void stall(boolean stalls) {
        synchronized (device) {
            device.running = !stalls;
        }
    }

    static InetSocketAddress port(int port) {
        return new InetSocketAddress(HERE, port);
    }

    /** Waits for what has no event of its own; the test's timeout ends it. */
    static void until(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            assertThat(Thread.currentThread().isInterrupted()).as("timed out").isFalse();
            LockSupport.parkNanos(100_000);
        }
    }

    @Override
    public void close() {
        // What is closed pends until the peer has answered.
        adapter.close();
        until(() -> device.objects() == 0 && network.identifiers() == 0);
        ended = true;
        LockSupport.unpark(pump);
        try {
            pump.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        device.dispose();
    }
}
