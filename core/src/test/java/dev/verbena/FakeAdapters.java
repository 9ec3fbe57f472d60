package dev.verbena;

import dev.verbena.internal.device.Device;
import dev.verbena.internal.device.Devices;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

/** Adapters of devices that do not exist. */
public final class FakeAdapters {
    private FakeAdapters() {}

    /** Opens it. */
    public static Adapter open(FakeDevice device) {
        return open("fake0", device);
    }

    static Adapter open(String name, FakeDevice device) {
        return new Adapter(new Device(name, device, new Devices()::connections));
    }

    /** Opens it, with a network that does not exist either. */
    public static Adapter open(FakeDevice device, FakeConnections network) {
        return open("fake0", device, network);
    }

    static Adapter open(String name, FakeDevice device, FakeConnections network) {
        return new Adapter(new Device(name, device, () -> network));
    }
}
