package dev.verbena;

import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

/** Adapters of devices that do not exist, for tests in other packages. */
public final class FakeAdapters {
    private FakeAdapters() {}

    /** Opens it. */
    public static Adapter open(FakeDevice device) {
        return new Adapter("fake0", device, device.open());
    }

    /** Opens it, with a network that does not exist either. */
    public static Adapter open(FakeDevice device, FakeConnections network) {
        return open(device, device, network);
    }

    /** Opens it, with control calls that a test has put in front of its own. */
    public static Adapter open(
            FakeDevice device, DeviceControl control, ConnectionControl network) {
        return new Adapter("fake0", control, device.open(), () -> network);
    }
}
