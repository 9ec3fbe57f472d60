package dev.verbena.nativetest;

import dev.verbena.Status;
import dev.verbena.netty.Leaks;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Channels of Netty's between the two {@link OwnDevices} when the link-layer address of the peer
 * changes, as when its IP address moves to another machine. Linux 6.0 and newer give the connection
 * up then; a server that its disconnect does not reach hears nothing any more and ends the channel,
 * too. In a process of its own: librdmacm keeps each device open until its process ends.
 */
final class NextHopChange {
    private NextHopChange() {}

    /** Prints what went wrong. */
    static void main(String[] arguments) throws Exception {
        List<String> wrong = new ArrayList<>();
        try (Leaks _ = new Leaks();
                Bystander other = new Bystander("next hop changed, Netty");
                NettySides sides =
                        new NettySides(
                                1,
                                NettyDeviceFaultsTest.options(NettyDeviceFaultsTest.SOON),
                                OwnDevices.NAMES)) {
            InetSocketAddress server = sides.echo().localAddress();
            String before = Churn.kernel();
            NettyLoad load = new NettyLoad(sides.clients, server).start();
            NettyLoad idle = new NettyLoad(sides.clients, server);
            load.goesOn();
            long start = System.nanoTime();
            OwnDevices.run(
                    """
                    set -e
                    ip neighbour replace 198.19.77.2 lladdr 02:00:00:00:00:99 dev vflap0
                    ip neighbour replace 198.19.77.1 lladdr 02:00:00:00:00:99 dev vflap1
                    ip neighbour delete 198.19.77.2 dev vflap0
                    ip neighbour delete 198.19.77.1 dev vflap1
                    """);
            List<Status> ends = List.of(load.end(), idle.end());
            long wait = System.nanoTime() - start;
            if (!ends.equals(Collections.nCopies(2, Status.CONNECTION_ABORTED))) {
                wrong.add("the channels ended in " + ends);
            }
            wrong.addAll(load.settle());
            if (!Churn.sameConnections(before)) {
                wrong.add("the kernel has more than before");
            }
            int writes = load.writes();
            try (NettyLoad last = new NettyLoad(sides.clients, server).start()) {
                last.goesOn();
                wrong.addAll(last.settle());
                writes += last.writes();
            }
            other.write(1, writes, wrong.size(), wait);
            System.out.println(wrong);
        }
    }
}
