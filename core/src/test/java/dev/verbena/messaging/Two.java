package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeDevice;

/** Two connected channels over a device that does not exist, which a thread keeps running. */
final class Two implements AutoCloseable {
    final FakeDevice device = new FakeDevice();
    final Adapter adapter = FakeAdapters.open(device);
    final Poller poller;
    final MessageChannel a;
    final MessageChannel b;
    private final Pump pump;

    Two(MessagingOptions options, MessageHandler ofA, MessageHandler ofB) {
        this(options, ofA, ofB, IdleStrategy.events());
    }

    Two(MessagingOptions options, MessageHandler ofA, MessageHandler ofB, IdleStrategy idle) {
        device.carriesBytes = true;
        poller = Poller.start(adapter, idle);
        a = new MessageChannel(poller, options, ofA);
        b = new MessageChannel(poller, options, ofB);
        ChannelsByHand.connect(a, b);
        pump = new Pump(device);
    }

    /** From now on, what is posted is lost. */
    void stall() {
        synchronized (device) {
            device.forgetful = true;
        }
    }

    @Override
    public void close() {
        poller.close();
        pump.close();
        adapter.close();
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        assertThat(device.objects()).as("native objects left").isZero();
        device.dispose();
    }
}
