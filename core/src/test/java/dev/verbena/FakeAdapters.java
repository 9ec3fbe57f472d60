package dev.verbena;

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
        return new Adapter("fake0", device, device.open(), () -> network);
    }
}
