package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import java.net.InetAddress;
import java.net.InetSocketAddress;

/** A device and a network that do not exist, which a thread keeps running. */
final class FakeFabric implements AutoCloseable {
    static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");

    final FakeDevice device = new FakeDevice();
    final FakeConnections network = new FakeConnections();
    final InjectedErrors errors = new InjectedErrors();
    final Adapter adapter = FakeAdapters.open(device, network);
    private final Pump pump;

    FakeFabric() {
        device.beforeStep = errors::before;
        network.beforeStep = errors::before;
        device.carriesBytes = true;
        network.devices.put(HERE, "fake0");
        pump = new Pump(device);
    }

    /** From now on, no peer answers; or they do again. */
    void stall(boolean stalls) {
        synchronized (device) {
            device.running = !stalls;
            device.notifyAll();
        }
    }

    static InetSocketAddress port(int port) {
        return new InetSocketAddress(HERE, port);
    }

    @Override
    public void close() {
        // What is closed pends until the peer has answered.
        adapter.close();
        device.until(() -> device.objects() == 0);
        network.until(() -> network.identifiers() == 0);
        pump.close();
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        device.dispose();
    }
}
