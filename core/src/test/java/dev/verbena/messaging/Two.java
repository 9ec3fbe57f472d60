package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeDevice;

import java.util.concurrent.locks.LockSupport;

/** Two connected channels over a device that does not exist, which a thread keeps running. */
final class Two implements AutoCloseable {
    final FakeDevice device = new FakeDevice();
    final Adapter adapter = FakeAdapters.open(device);
    final Poller poller;
    final MessageChannel a;
    final MessageChannel b;
    private final Thread pump;
    private volatile boolean ended;

    Two(MessagingOptions options, MessageHandler ofA, MessageHandler ofB) {
        this(options, ofA, ofB, IdleStrategy.events());
    }

    Two(MessagingOptions options, MessageHandler ofA, MessageHandler ofB, IdleStrategy idle) {
        device.carriesBytes = true;
        poller = Poller.start(adapter, idle);
        a = new MessageChannel(poller, options, ofA);
        b = new MessageChannel(poller, options, ofB);
        connect(a, b);
        pump = Thread.ofPlatform().daemon().start(this::pump);
    }

    static void connect(MessageChannel a, MessageChannel b) {
        a.agree(b.handshake());
        a.established();
        b.agree(a.handshake());
        b.established();
        a.pair().connect(b.pair().address());
        b.pair().connect(a.pair().address());
    }

    private void pump() {
        while (!ended) {
            step(device);
            LockSupport.parkNanos(10_000);
        }
    }

    /** From now on, what is posted is lost. */
    void stall() {
        synchronized (device) {
            device.forgetful = true;
        }
    }

    /** Carries out what was posted, and forgets it. */
    static void step(FakeDevice device) {
        synchronized (device) {
            device.run();
            device.sends.clear();
            device.receives.clear();
            device.chains.clear();
            device.arms.clear();
        }
    }

    @Override
    public void close() {
        poller.close();
        ended = true;
        LockSupport.unpark(pump);
        try {
            pump.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        adapter.close();
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        assertThat(device.objects()).as("native objects left").isZero();
        device.dispose();
    }
}
