package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** Two busy channels in a process of its own, which is suspended for a time. */
final class SuspendedProgram {
    /** Its parent suspends it for longer. */
    static final Duration NOTICED = Duration.ofSeconds(3);

    private static final int SOME = 20; // messages

    private SuspendedProgram() {}

    /**
     * Sends to the server at {@code ADDRESS PORT}. Prints "busy", and after it was suspended how
     * many messages it sent, whether the channel with long deadlines is open, and what went wrong.
     */
    static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress server =
                new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getLast());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                Load patient = new Load(poller, server, FaultsTest.LONG);
                Load load = new Load(poller, server, FaultsTest.SHORT)) {
            patient.goesOn(SOME);
            load.goesOn(SOME);
            System.out.println("busy");
            awaitSuspension();
            patient.goesOn(SOME);
            List<String> wrong = new ArrayList<>(load.settle());
            wrong.addAll(patient.settle());
            System.out.println(load.messages() + patient.messages());
            System.out.println(patient.channel.isOpen());
            System.out.println(wrong);
        }
    }

    private static void awaitSuspension() {
        long last = System.nanoTime();
        while (System.nanoTime() - last < NOTICED.toNanos()) {
            last = System.nanoTime();
            LockSupport.parkNanos(1_000_000);
        }
    }
}
