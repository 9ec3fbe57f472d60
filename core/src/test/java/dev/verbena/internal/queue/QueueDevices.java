package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Provider;

/** Devices of queues that need no event thread. */
final class QueueDevices {
    private QueueDevices() {}

    static QueueDevice of(FakeDevice device) {
        Provider provider = Provider.of(device.vendorId, 0);
        return new QueueDevice("fake", device, provider, device.open(), null, new SharedQueues());
    }
}
