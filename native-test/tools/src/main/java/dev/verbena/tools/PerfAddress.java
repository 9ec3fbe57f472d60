package dev.verbena.tools;

import dev.verbena.Gid;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairAddress;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.Locale;
import java.util.StringJoiner;

/**
 * Where a queue pair is, as perftest prints it. Without the first packet's sequence number: rdma_cm
 * chooses it, and does not report it.
 *
 * @param queuePair its number
 * @param lid of its port; 0 on Ethernet
 * @param gid of its packets
 */
record PerfAddress(int queuePair, int lid, Gid gid) {
    static final int BYTES = Integer.BYTES + Short.BYTES + 2 * Long.BYTES;

    /** Of this side's queue pair; on Ethernet, the connection's address decides about the GID. */
    static PerfAddress of(QueuePair queuePair, InetAddress local) {
        QueuePairAddress address = queuePair.address();
        return new PerfAddress(
                address.queuePairNumber(),
                address.lid(),
                address.lid() == 0 ? Gid.of(local) : address.gid());
    }

    void encode(ByteBuffer to) {
        to.putInt(queuePair).putShort((short) lid).putLong(gid.high()).putLong(gid.low());
    }

    static PerfAddress decode(ByteBuffer from) {
        return new PerfAddress(
                from.getInt(),
                Short.toUnsignedInt(from.getShort()),
                new Gid(from.getLong(), from.getLong()));
    }

    /** Two lines. */
    String lines(String side) {
        StringJoiner bytes = new StringJoiner(":");
        for (byte one : gid.bytes()) {
            bytes.add(String.format(Locale.ROOT, "%02d", Byte.toUnsignedInt(one)));
        }
        return String.format(
                Locale.ROOT,
                " %s address: LID %s QPN 0x%04x PSN n/a%n GID: %s%n",
                side,
                lid == 0 ? "0000" : String.format(Locale.ROOT, "0x%02x", lid),
                queuePair,
                bytes);
    }
}
