package dev.verbena.examples.nvme;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** All that a target serves, and the discovery subsystem that lists it. */
final class Subsystems {
    private final List<Subsystem> served;
    private final List<Subsystem> all; // with the discovery subsystem
    private final Supplier<InetSocketAddress> address; // that hosts connect to

    Subsystems(List<Subsystem> served, Supplier<InetSocketAddress> address) {
        this.served = List.copyOf(served);
        this.all = new ArrayList<>(served);
        all.add(new Subsystem(Subsystem.DISCOVERY_NAME, List.of()));
        this.address = address;
    }

    List<Subsystem> served() {
        return served;
    }

    InetSocketAddress address() {
        return address.get();
    }

    /** The subsystem of a name; null when there is none. */
    Subsystem named(String name) {
        return all.stream().filter(one -> one.name().equals(name)).findFirst().orElse(null);
    }

    /** A controller whose host has been silent for too long; null when there is none. */
    Controller expired(long now) {
        for (int i = 0; i < all.size(); i++) { // no iterator: this is called again and again
            Controller expired = all.get(i).expired(now);
            if (expired != null) {
                return expired;
            }
        }
        return null;
    }
}
