package dev.verbena.nativetest;

import dev.verbena.Status;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.netty.Leaks;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;

/**
 * Channels of Netty's between the two {@link OwnDevices}, while no packet passes: first for a
 * moment, then for longer than the deadlines of some of them. In a process of its own: librdmacm
 * keeps each device open until its process ends.
 */
final class NettyOutage {
    private NettyOutage() {}

    /**
     * {@code NAME DOWN UP CONNECTS}: shell commands, and whether new channels connect afterwards.
     * Prints what went wrong.
     */
    static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        String down = arguments[1];
        String up = arguments[2];
        boolean connects = Boolean.parseBoolean(arguments[3]);
        List<String> wrong = new ArrayList<>();
        try (Leaks _ = new Leaks();
                Bystander other = new Bystander(name + ", Netty");
                NettySides patient = sides(FaultsTest.LONG);
                NettySides sides = sides(NettyDeviceFaultsTest.SOON)) {
            InetSocketAddress patientServer = patient.echo().localAddress();
            InetSocketAddress server = sides.echo().localAddress();
            NettyLoad survivor = new NettyLoad(patient.clients, patientServer);
            OwnDevices.run(down + "; " + up);
            survivor.start().goesOn();
            wrong.addAll(survivor.settle());

            String before = Churn.kernel();
            NettyLoad load = new NettyLoad(sides.clients, server).start();
            NettyLoad idle = new NettyLoad(sides.clients, server);
            load.goesOn();
            OwnDevices.run(down);
            long start = System.nanoTime();
            List<Status> ends = List.of(load.end(), idle.end());
            long wait = System.nanoTime() - start;
            OwnDevices.run(up);
            if (!FabricTest.LINK_FAILURES.containsAll(ends)) {
                wrong.add("the channels ended in " + ends);
            }
            wrong.addAll(load.settle());
            survivor.start().goesOn(); // nothing was asked of it meanwhile
            wrong.addAll(survivor.settle());
            if (!Churn.sameConnections(before)) {
                wrong.add("the kernel has more than before");
            }
            survivor.close();
            int writes = load.writes() + survivor.writes();
            if (connects) {
                try (NettyLoad last = new NettyLoad(sides.clients, server).start()) {
                    last.goesOn();
                    wrong.addAll(last.settle());
                    writes += last.writes();
                }
            }
            other.write(2, writes, wrong.size(), wait);
            System.out.println(wrong);
        }
    }

    private static NettySides sides(MessagingOptions deadlines) {
        return new NettySides(1, NettyDeviceFaultsTest.options(deadlines), OwnDevices.NAMES);
    }
}
