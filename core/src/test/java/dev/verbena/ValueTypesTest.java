package dev.verbena;

import static dev.verbena.Port.LinkLayer.ETHERNET;
import static dev.verbena.Port.LinkLayer.INFINIBAND;
import static dev.verbena.Port.Speed.EDR;
import static dev.verbena.Port.Speed.HDR;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** The value types of the API: equality, copies, messages, and how they print. */
class ValueTypesTest {
    private static final Gid GID = Gid.parse("192.0.2.1");

    /** Two made alike are equal, and different from each of the others. */
    private static void equality(Supplier<?> one, Object... others) {
        Object first = one.get();
        Object second = one.get();
        assertThat(first).isEqualTo(second).hasSameHashCodeAs(second);
        assertThat(first).hasToString(second.toString());
        assertThat(first).isNotEqualTo(null).isNotEqualTo("text");
        for (Object other : others) {
            assertThat(first).isNotEqualTo(other);
            assertThat(other).isNotEqualTo(first);
            assertThat(first.hashCode()).isNotEqualTo(other.hashCode());
        }
    }

    private static void refused(ThrowingCallable call, String... words) {
        assertThatThrownBy(call)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContainingAll(words);
    }

    @Nested
    class Limits {
        private final QueuePairLimits some = QueuePairLimits.depths(3, 4);

        @Test
        void haveTheUsualNumbersForAllButTheDepths() {
            assertThat(some.initiatorDepth()).isEqualTo(3);
            assertThat(some.receiveDepth()).isEqualTo(4);
            assertThat(some.maxInitiatorBuffers()).isEqualTo(1);
            assertThat(some.maxReceiveBuffers()).isEqualTo(1);
            assertThat(some.maxInlineBytes()).isZero();
            assertThat(some.inboundReads()).isEqualTo(16);
            assertThat(some.outboundReads()).isEqualTo(16);
            assertThat(some.maxDeferred()).isEqualTo(64);
        }

        @Test
        void changeWhatIsAskedForAndKeepTheRest() {
            QueuePairLimits all =
                    some.withBuffers(5, 6)
                            .withInlineBytes(7)
                            .withReads(8, 9)
                            .withMaxDeferred(10)
                            .withInitiatorDepth(11)
                            .withReceiveDepth(12);
            assertThat(all)
                    .hasToString(
                            "QueuePairLimits(11 initiator requests of 5 buffers and 7 inline bytes, 12 receives of 6 buffers, 8 reads in, 9 reads out, 10 deferred)");
            assertThat(all.maxInitiatorBuffers()).isEqualTo(5);
            assertThat(all.maxReceiveBuffers()).isEqualTo(6);
            assertThat(all.inboundReads()).isEqualTo(8);
            assertThat(all.outboundReads()).isEqualTo(9);
            assertThat(some).isEqualTo(QueuePairLimits.depths(3, 4));
        }

        @Test
        void areEqualByTheirNumbers() {
            equality(
                    () -> QueuePairLimits.depths(3, 4),
                    some.withInitiatorDepth(9),
                    some.withReceiveDepth(9),
                    some.withBuffers(9, 1),
                    some.withBuffers(1, 9),
                    some.withInlineBytes(9),
                    some.withReads(9, 16),
                    some.withReads(16, 9),
                    some.withMaxDeferred(9));
        }

        @Test
        void sayWhichNumberIsWrong() {
            refused(() -> QueuePairLimits.depths(0, 1), "initiator depth", "1 or more, not 0");
            refused(() -> QueuePairLimits.depths(1, -2), "receive depth", "1 or more, not -2");
            refused(() -> some.withBuffers(0, 1), "buffers of an initiator request", "not 0");
            refused(() -> some.withBuffers(1, 0), "buffers of a receive", "not 0");
            refused(() -> some.withInlineBytes(-1), "inline bytes", "0 or more, not -1");
            refused(() -> some.withReads(-1, 0), "inbound reads", "not -1");
            refused(() -> some.withReads(0, -1), "outbound reads", "not -1");
            refused(() -> some.withMaxDeferred(-1), "deferred", "not -1");
        }
    }

    @Nested
    class DataOfAConnection {
        private static ConnectionData data(byte[] bytes) {
            return new ConnectionData(bytes, true, true, 1, 2);
        }

        @Test
        void areCopiedInAndOut() {
            byte[] bytes = {1, 2};
            ConnectionData data = data(bytes);
            bytes[0] = 9;
            assertThat(data.privateData()).containsExactly(1, 2);
            data.privateData()[0] = 9;
            assertThat(data.privateData()).containsExactly(1, 2);
        }

        @Test
        void areEqualByTheirBytes() {
            equality(
                    () -> data(new byte[] {1, 2}),
                    data(new byte[] {1, 3}),
                    new ConnectionData(new byte[] {1, 2}, false, true, 1, 2),
                    new ConnectionData(new byte[] {1, 2}, true, false, 1, 2),
                    new ConnectionData(new byte[] {1, 2}, true, true, 3, 2),
                    new ConnectionData(new byte[] {1, 2}, true, true, 1, 3));
        }

        @Test
        void printWithoutTheBytesWhichMayBeASecret() {
            assertThat(data(new byte[] {77, 78}))
                    .hasToString(
                            "ConnectionData(2 bytes of private data, invalidatable, 1 reads in, 2 reads out)");
            assertThat(new ConnectionData(new byte[56], false, false, 0, 0))
                    .hasToString(
                            "ConnectionData(56 bytes of private data with the padding of the transport, not invalidatable, 0 reads in, 0 reads out)");
        }
    }

    @Nested
    class AddressesOfQueuePairs {
        private final QueuePairAddress some = QueuePairAddress.of(17, 5, GID, 1024);

        @Test
        void promiseNothingThatWasNotAskedFor() {
            assertThat(some.queuePairNumber()).isEqualTo(17);
            assertThat(some.firstSequenceNumber()).isEqualTo(5);
            assertThat(some.gid()).isEqualTo(GID);
            assertThat(some.mtuBytes()).isEqualTo(1024);
            assertThat(some.lid()).isZero();
            assertThat(some.inboundReads()).isZero();
            assertThat(some.invalidatable()).isFalse();
            assertThat(some.sharedReceives()).isFalse();
        }

        @Test
        void changeWhatIsAskedForAndKeepTheRest() {
            QueuePairAddress all =
                    some.withLid(6)
                            .withInboundReads(7)
                            .withInvalidatable(true)
                            .withSharedReceives(true);
            assertThat(all)
                    .hasToString(
                            "QueuePairAddress(queue pair 17 at ::ffff:192.0.2.1 LID 6, first packet 5, MTU 1024, 7 reads in, invalidatable, shared receives)");
            assertThat(all.lid()).isEqualTo(6);
            assertThat(all.inboundReads()).isEqualTo(7);
            assertThat(all.invalidatable()).isTrue();
            assertThat(all.sharedReceives()).isTrue();
            assertThat(
                            all.withLid(0)
                                    .withInboundReads(0)
                                    .withInvalidatable(false)
                                    .withSharedReceives(false))
                    .isEqualTo(some);
        }

        @Test
        void areEqualByTheirParts() {
            equality(
                    () -> QueuePairAddress.of(17, 5, Gid.parse("192.0.2.1"), 1024),
                    QueuePairAddress.of(18, 5, GID, 1024),
                    QueuePairAddress.of(17, 6, GID, 1024),
                    QueuePairAddress.of(17, 5, Gid.parse("192.0.2.2"), 1024),
                    QueuePairAddress.of(17, 5, GID, 2048),
                    some.withLid(1),
                    some.withInboundReads(1),
                    some.withInvalidatable(true),
                    some.withSharedReceives(true));
        }

        @Test
        void sayWhichNumberIsWrong() {
            refused(() -> QueuePairAddress.of(1 << 24, 0, GID, 1024), "queue pair number");
            refused(() -> QueuePairAddress.of(-1, 0, GID, 1024), "queue pair number", "-1");
            refused(() -> QueuePairAddress.of(0, 1 << 24, GID, 1024), "sequence number");
            refused(() -> QueuePairAddress.of(0, 0, GID, 255), "MTU is 255", "256 to 4096");
            refused(() -> QueuePairAddress.of(0, 0, GID, 4097), "MTU is 4097");
            refused(() -> some.withLid(1 << 16), "LID is 65536", "0 to 65535");
            refused(() -> some.withInboundReads(-1), "inbound reads is -1");
            assertThatThrownBy(() -> QueuePairAddress.of(0, 0, null, 1024))
                    .isInstanceOf(NullPointerException.class)
                    .hasMessage("gid must not be null");
            assertThat(QueuePairAddress.of(0xFF_FFFF, 0xFF_FFFF, GID, 256).withLid(0xFFFF).lid())
                    .isEqualTo(0xFFFF);
        }
    }

    @Nested
    class Peers {
        private final InetSocketAddress socket =
                new InetSocketAddress(InetAddress.ofLiteral("192.0.2.1"), 4711);
        private final QueuePairAddress queuePair = QueuePairAddress.of(17, 5, GID, 1024);

        @Test
        void haveOneAddressOrTheOther() {
            assertThat(Peer.of(socket).socketAddress()).contains(socket);
            assertThat(Peer.of(socket).queuePairAddress()).isEmpty();
            assertThat(Peer.of(queuePair).socketAddress()).isEmpty();
            assertThat(Peer.of(queuePair).queuePairAddress()).contains(queuePair);
            assertThat(Peer.of(socket)).hasToString("192.0.2.1:4711");
            assertThat(Peer.of(queuePair)).hasToString("queue pair 17 at ::ffff:192.0.2.1");
            assertThat(Peer.of(queuePair.withLid(3))).hasToString("queue pair 17 at LID 3");
            equality(
                    () -> Peer.of(socket),
                    Peer.of(queuePair),
                    Peer.of(new InetSocketAddress(socket.getAddress(), 1)));
            equality(() -> Peer.of(queuePair), Peer.of(queuePair.withLid(3)));
        }
    }

    @Nested
    class Ports {
        private static Port port(int lid, Port.GidEntry... gids) {
            return port(1, true, 1024, 99, lid, ETHERNET, EDR, 4, List.of(gids));
        }

        private static Port port(
                int number,
                boolean active,
                int mtu,
                int longest,
                int lid,
                Port.LinkLayer layer,
                Port.Speed speed,
                int width,
                List<Port.GidEntry> gids) {
            return new Port(number, active, layer, 4096, mtu, longest, lid, speed, width, gids);
        }

        private final Port.GidEntry entry = new Port.GidEntry(1, 2, GID, Port.GidType.ROCE_V2, 0);

        @Test
        void areEqualByTheirParts() {
            List<Port.GidEntry> gids = List.of(entry);
            equality(
                    () -> port(0, entry),
                    port(1, entry),
                    port(0),
                    port(2, true, 1024, 99, 0, ETHERNET, EDR, 4, gids),
                    port(1, false, 1024, 99, 0, ETHERNET, EDR, 4, gids),
                    port(1, true, 1024, 99, 0, INFINIBAND, EDR, 4, gids),
                    port(1, true, 2048, 99, 0, ETHERNET, EDR, 4, gids),
                    new Port(1, true, ETHERNET, 2048, 1024, 99, 0, EDR, 4, gids),
                    port(1, true, 1024, 98, 0, ETHERNET, EDR, 4, gids),
                    port(1, true, 1024, 99, 0, ETHERNET, HDR, 4, gids),
                    port(1, true, 1024, 99, 0, ETHERNET, EDR, 1, gids));
        }

        @Test
        void copyTheirGidsAndPrint() {
            List<Port.GidEntry> gids = new ArrayList<>(List.of(entry));
            Port port = port(1, false, 4096, 99, 7, INFINIBAND, HDR, 12, gids);
            gids.clear();
            assertThat(port.gids()).containsExactly(entry);
            assertThat(port)
                    .hasToString(
                            "Port 1 (down, INFINIBAND, HDR x12, MTU 4096, LID 7, GIDs [::ffff:192.0.2.1 (index 2, ROCE_V2)])");
            assertThat(port.maxMessageBytes()).isEqualTo(99);
            assertThat(port.maxMtuBytes()).isEqualTo(4096);
        }
    }

    @Test
    void connectionOptionsAreEqualByWhatTheyAskFor() {
        ConnectionOptions some = ConnectionOptions.DEFAULTS;
        equality(
                () -> some.withPrivateData(new byte[] {1}),
                some,
                some.withPrivateData(new byte[] {2}),
                some.withPrivateData(new byte[] {1}).withDeadline(Duration.ofSeconds(1)),
                some.withPrivateData(new byte[] {1}).withoutAnnouncement(),
                some.withPrivateData(new byte[] {1}).assumingInvalidatablePeer(),
                some.withPrivateData(new byte[] {1}).withLocalAddress(new InetSocketAddress(1)),
                some.withPrivateData(new byte[] {1}).withPath(PathOptions.DEFAULTS.withRetries(1)));
        assertThat(some.withPrivateData(new byte[] {77}).toString()).doesNotContain("77");
    }
}
