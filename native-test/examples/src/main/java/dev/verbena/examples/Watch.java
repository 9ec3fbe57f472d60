package dev.verbena.examples;

import dev.verbena.*;

import java.net.InetAddress;
import java.time.Duration;
import java.util.function.Consumer;

/** Watches a device: prints its events, and every ten seconds what its port has counted. */
public final class Watch {
    private Watch() {}

    /**
     * Watches until it is interrupted.
     *
     * @param args an address of the device
     * @throws Exception when the address is none, or on an interrupt
     */
    public static void main(String[] args) throws Exception {
        try (Adapter adapter = Adapter.forAddress(InetAddress.getByName(args[0]))) {
            var _ = watch(adapter, System.out::println); // until the adapter is closed
            for (PortCounters before = adapter.counters(1); ; before = adapter.counters(1)) {
                Thread.sleep(Duration.ofSeconds(10));
                System.out.println(adapter.counters(1).since(before));
            }
        }
    }

    /**
     * Describes each event.
     *
     * @param adapter what to watch
     * @param print takes one line for each event
     * @return ends it
     */
    // @start region="events"
    static AdapterEvent.Registration watch(Adapter adapter, Consumer<String> print) {
        return adapter.onEvent(
                event -> {
                    switch (event.type()) {
                        case PORT_UP, PORT_DOWN -> print.accept(event.type() + " " + event.port());
                        case DEVICE_FAILED, DEVICE_REMOVED -> print.accept("close everything");
                        case QUEUE_PAIR_FAILED -> print.accept("failed: " + event.object());
                        default -> print.accept(event.toString());
                    }
                });
    }
    // @end
}
