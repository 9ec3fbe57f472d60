package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.AdapterInfo;
import dev.verbena.Gid;
import dev.verbena.Port;

import java.net.InetAddress;
import java.util.List;
import java.util.Locale;

/** What perftest prints before its columns: what is measured, with what, and between whom. */
final class PerfHeader {
    static final String LINE = "-".repeat(87);
    private static final String TITLE_INDENT = " ".repeat(20);

    private PerfHeader() {}

    /**
     * The block.
     *
     * @param receives of a queue pair of this side, for messages; 0 where it has none
     * @param moderation each how-many-th request of bandwidth is signaled
     * @param port that the connections use
     * @param gidIndex of the connections' GID, or -1
     */
    static String of(
            PerfPlan plan,
            AdapterInfo info,
            int receives,
            int moderation,
            Port port,
            int gidIndex) {
        StringBuilder text = new StringBuilder();
        text.append(LINE).append('\n').append(TITLE_INDENT).append(title(plan)).append('\n');
        if (plan.events()) {
            text.append(" Test with events.\n");
        }
        two(text, "Dual-port", "OFF", "Device", info.name());
        two(text, "Number of qps", plan.queuePairs(), "Transport type", transport(info));
        two(text, "Connection type", "RC", "Using SRQ", "OFF");
        one(text, "TX depth", plan.latency() ? 1 : plan.depth());
        if (plan.chain() > 1) {
            one(text, "Post List", plan.chain());
        }
        if (receives > 0) {
            one(text, "RX depth", receives);
        }
        if (!plan.latency()) {
            one(text, "CQ Moderation", moderation);
        }
        one(text, "Mtu", port.mtuBytes() + "[B]");
        boolean ethernet = port.linkLayer() == Port.LinkLayer.ETHERNET;
        one(text, "Link type", ethernet ? "Ethernet" : "IB");
        if (gidIndex >= 0) {
            one(text, "GID index", gidIndex);
        }
        if (plan.operation() == PerfOperation.READ) {
            one(text, "Outstand reads", info.maxOutboundReads());
        } else {
            one(text, "Max inline data", plan.inline() + "[B]");
        }
        one(text, "rdma_cm QPs", "ON");
        one(text, "Data ex. method", "rdma_cm");
        return text.append(LINE).append('\n').toString();
    }

    private static String title(PerfPlan plan) {
        String operation =
                switch (plan.operation()) {
                    case SEND -> "Send";
                    case WRITE -> "RDMA_Write";
                    case READ -> "RDMA_Read";
                    case SEND_INV -> "Send_Invalidate";
                    case CHANNEL -> "Channel";
                };
        return "%s %s%s%s Test"
                .formatted(
                        operation,
                        plan.bidirectional() ? "Bidirectional " : "",
                        plan.chain() > 1 ? "Post List " : "",
                        plan.latency() ? "Latency" : "BW");
    }

    private static String transport(AdapterInfo info) {
        return info.technology() == AdapterInfo.Technology.IWARP ? "IW" : "IB";
    }

    private static void one(StringBuilder text, String name, Object value) {
        text.append(String.format(Locale.ROOT, " %-16s: %s%n", name, value));
    }

    private static void two(
            StringBuilder text, String name, Object value, String other, Object itsValue) {
        text.append(
                String.format(
                        Locale.ROOT, " %-16s: %s\t\t%-15s: %s%n", name, value, other, itsValue));
    }

    /** The port that has the GID of a local address, or else the one that the adapter chose. */
    static Port port(Adapter adapter, InetAddress local) {
        List<Port> ports = adapter.ports();
        return ports.stream()
                .filter(port -> gidIndex(port, local) >= 0)
                .findFirst()
                .orElseGet(() -> ports.get(adapter.gid().port() - 1));
    }

    /** The entry of RoCE v2 for a local address; -1 where there is none, as on InfiniBand. */
    static int gidIndex(Port port, InetAddress local) {
        Gid gid = Gid.of(local);
        return port.gids().stream()
                .filter(entry -> entry.type() == Port.GidType.ROCE_V2 && entry.gid().equals(gid))
                .mapToInt(Port.GidEntry::index)
                .findFirst()
                .orElse(-1);
    }
}
