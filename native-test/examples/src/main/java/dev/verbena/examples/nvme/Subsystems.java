package dev.verbena.examples.nvme;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** All that a target serves, and the discovery subsystem that lists it. */
final class Subsystems {
    private final List<Subsystem> served;
    private final Subsystem discovery = new Subsystem(Subsystem.DISCOVERY_NAME, List.of());
    private final Supplier<InetSocketAddress> address; // that hosts connect to

    Subsystems(List<Subsystem> served, Supplier<InetSocketAddress> address) {
        this.served = List.copyOf(served);
        this.address = address;
    }

    List<Subsystem> served() {
        return served;
    }

    InetSocketAddress address() {
        return address.get();
    }

    Stream<Subsystem> all() {
        return Stream.concat(served.stream(), Stream.of(discovery));
    }

    Subsystem named(String name) {
        return all().filter(one -> one.name().equals(name)).findFirst().orElse(null);
    }

    List<Controller> controllers() {
        return all().flatMap(one -> one.controllers().stream()).toList();
    }
}
