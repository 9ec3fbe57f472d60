package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.Poller;

import java.net.InetSocketAddress;
import java.util.List;

/**
 * A channel between the two {@link OwnDevices}, whose cable loses, corrupts, doubles and reorders
 * packets. In a process of its own: librdmacm keeps each device open until its process ends.
 */
final class BadCable {
    private static final int BEFORE = 20; // messages

    private BadCable() {}

    /** {@code MESSAGES NAME NETEM}: sends messages over the cable. Prints what went wrong. */
    static void main(String[] arguments) throws InterruptedException {
        int messages = Integer.parseInt(arguments[0]);
        try (Adapter first = Adapter.open(OwnDevices.FIRST);
                Adapter second = Adapter.open(OwnDevices.SECOND);
                Poller near = Poller.start(first, IdleStrategy.events());
                Poller far = Poller.start(second, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                far,
                                new InetSocketAddress(OwnDevices.SECOND_ADDRESS, 0),
                                FaultsTest.LONG,
                                1,
                                EchoProgram.ECHO,
                                channel -> {});
                Bystander other = new Bystander(arguments[1]);
                Load load = new Load(near, server.localAddress(), FaultsTest.LONG)) {
            load.goesOn(BEFORE);
            netem("add", arguments[2]);
            long start = System.nanoTime();
            load.goesOnOrEnds(messages);
            long end = System.nanoTime();
            netem("delete", "");
            List<String> wrong = load.settle();
            other.write(1, load.messages(), wrong.size(), end - start);
            System.out.println(wrong);
        }
    }

    private static void netem(String verb, String what) {
        for (String link : new String[] {"vflap0", "vflap1"}) {
            OwnDevices.run("tc qdisc %s dev %s root netem %s".formatted(verb, link, what));
        }
    }
}
