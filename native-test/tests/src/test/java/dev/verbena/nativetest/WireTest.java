package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.PathOptions;
import dev.verbena.Port;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.nativetest.PacketCapture.Packet;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * What packets carry of the path options, as captured on the wire between two Soft-RoCE devices.
 */
@NeedsDevices
@Timeout(600)
class WireTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(16, 16);
    private static final PathOptions NONE = PathOptions.DEFAULTS;
    private static final int BYTES = 64;

    /** Which IP version. */
    enum Ip {
        V4,
        V6
    }

    private final Pair pair = new Pair(LIMITS);
    private final Pair.Side client = pair.left;
    private final Pair.Side server = pair.right;
    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
    private final List<AutoCloseable> opened = new ArrayList<>();
    private Ip ip;
    private QueuePair here;
    private QueuePair there;
    private PacketCapture capture;

    @BeforeEach
    void begin() throws Exception {
        if (!RdmaDevices.isSoftRoce(server.adapter.name())) {
            throw PacketCapture.impossible(
                    server.adapter.name()
                            + " is no Soft-RoCE device: its packets bypass the kernel");
        }
        if (client.adapter.name().equals(server.adapter.name())) {
            throw PacketCapture.impossible(
                    "there is one device only, and what it sends to itself is on no wire");
        }
        capture = keep(new PacketCapture(interfaceOf(server)));
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable object : opened.reversed()) {
            object.close();
        }
        pair.close();
    }

    private <T extends AutoCloseable> T keep(T object) {
        opened.add(object);
        return object;
    }

    private static NetworkInterface interfaceOf(Pair.Side side) throws SocketException {
        return NetworkInterface.getByInetAddress(side.adapter.gid().gid().gid().toInetAddress());
    }

    /** The index of the GID of a version, and its address. */
    private static Port.GidEntry gid(Pair.Side side, Ip ip) {
        return side.adapter.ports().getFirst().gids().stream()
                .filter(gid -> gid.type() == Port.GidType.ROCE_V2)
                .filter(gid -> gid.gid().toInetAddress() instanceof Inet6Address == (ip == Ip.V6))
                .findFirst()
                .orElseThrow(
                        () -> new AssertionError(side.adapter.name() + " has no GID of " + ip));
    }

    /** The address of a version, with the interface that a link-local one needs. */
    private static InetAddress address(Pair.Side side, Ip ip, Pair.Side seenFrom) throws Exception {
        InetAddress plain = gid(side, ip).gid().toInetAddress();
        return plain instanceof Inet6Address
                ? Inet6Address.getByAddress(
                        null, plain.getAddress(), interfaceOf(seenFrom).getIndex())
                : plain;
    }

    private QueuePair queuePair(Pair.Side side) {
        return keep(
                side.domain.createQueuePair(side.completionQueue, side.completionQueue, LIMITS));
    }

    private void connectByAddress(Ip version, PathOptions ours, PathOptions theirs) {
        ip = version;
        useGid(client.adapter, gid(client, ip));
        useGid(server.adapter, gid(server, ip));
        here = queuePair(client);
        there = queuePair(server);
        here.connect(there.address(), ours);
        there.connect(here.address(), theirs);
    }

    private static void useGid(Adapter adapter, Port.GidEntry gid) {
        adapter.useGid(adapter.ports().getFirst().number(), gid.index());
    }

    private void connectByIp(Ip version, PathOptions ours, PathOptions theirs) throws Exception {
        ip = version;
        here = queuePair(client);
        there = queuePair(server);
        Listener listener =
                keep(
                        server.adapter.listen(
                                new InetSocketAddress(address(server, ip, server), 0),
                                0,
                                requests::add));
        Connector connector = keep(client.adapter.createConnector());
        InetSocketAddress peer =
                new InetSocketAddress(
                        address(server, ip, client), listener.localAddress().getPort());
        ConnectionOptions from =
                ConnectionOptions.DEFAULTS.withLocalAddress(
                        new InetSocketAddress(address(client, ip, client), 0));
        CompletableFuture<Void> connecting =
                connector.connectAsync(here, peer, from.withPath(ours));
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as("a request").isNotNull();
        keep(request);
        CompletableFuture<Void> accepting =
                request.acceptAsync(there, ConnectionOptions.DEFAULTS.withPath(theirs));
        connecting.get(30, TimeUnit.SECONDS);
        connector.completeConnect();
        accepting.get(30, TimeUnit.SECONDS);
    }

    /** A message each way, and a read: requests, acknowledgements and read responses both ways. */
    private List<Packet> exchange() {
        MemoryRegion ours = client.memory(BYTES, Access.REMOTE_READ, Access.REMOTE_WRITE);
        MemoryRegion theirs = server.memory(BYTES, Access.REMOTE_READ, Access.REMOTE_WRITE);
        assertThat(here.receive(1, Pair.whole(ours)).status()).isEqualTo(Status.SUCCESS);
        assertThat(there.receive(2, Pair.whole(theirs)).status()).isEqualTo(Status.SUCCESS);
        assertThat(here.send(3, Pair.whole(ours)).status()).isEqualTo(Status.SUCCESS);
        assertThat(server.ends(1)).containsExactly("RECEIVE 2 SUCCESS");
        assertThat(there.send(4, Pair.whole(theirs)).status()).isEqualTo(Status.SUCCESS);
        assertThat(server.ends(1)).containsExactly("SEND 4 SUCCESS");
        assertThat(client.ends(2)).containsExactlyInAnyOrder("SEND 3 SUCCESS", "RECEIVE 1 SUCCESS");
        assertThat(here.read(5, Pair.whole(ours), theirs.remoteMemory(), 0, OpFlags.NONE).status())
                .isEqualTo(Status.SUCCESS);
        assertThat(client.ends(1)).containsExactly("READ 5 SUCCESS");
        return capture.packets();
    }

    /** Those of one direction: both queue pairs may have the same number, each on its device. */
    private List<Packet> to(QueuePair queuePair, List<Packet> packets) {
        InetAddress from = gid(queuePair == there ? client : server, ip).gid().toInetAddress();
        int number = queuePair.address().queuePairNumber();
        return packets.stream()
                .filter(packet -> packet.queuePair() == number && packet.from().equals(from))
                .toList();
    }

    /** All packets of each direction carry their traffic class, and there are some of each kind. */
    private void carry(int ours, int theirs, List<Packet> packets) {
        List<Packet> toThere = to(there, packets);
        List<Packet> toHere = to(here, packets);
        assertThat(toThere).extracting(Packet::trafficClass).containsOnly(ours);
        assertThat(toHere).extracting(Packet::trafficClass).containsOnly(theirs);
        for (List<Packet> direction : List.of(toThere, toHere)) {
            assertThat(direction)
                    .extracting(Packet::opcode)
                    .contains(PacketCapture.SEND_ONLY, PacketCapture.ACKNOWLEDGE);
        }
        assertThat(toThere).extracting(Packet::opcode).contains(PacketCapture.READ_REQUEST);
        assertThat(toHere).extracting(Packet::opcode).contains(PacketCapture.READ_RESPONSE_ONLY);
    }

    @ParameterizedTest
    @EnumSource
    void withoutOptionsThereIsNoTrafficClass(Ip version) throws Exception {
        connectByIp(version, NONE, NONE);
        carry(0, 0, exchange());
    }

    @ParameterizedTest
    @EnumSource
    void theConnectingSidesTrafficClassHoldsForBothDirections(Ip version) throws Exception {
        connectByIp(version, NONE.withDscp(26), NONE);
        List<Packet> packets = exchange();
        carry(26 << 2, 26 << 2, packets);
        // And for the connection manager's own messages, the request first.
        List<Packet> messages =
                packets.stream()
                        .filter(p -> p.queuePair() == PacketCapture.CONNECTION_MANAGER)
                        .toList();
        assertThat(messages).hasSizeGreaterThanOrEqualTo(3); // request, reply, ready to use
        assertThat(messages).extracting(Packet::trafficClass).containsOnly(26 << 2);
    }

    @ParameterizedTest
    @EnumSource
    void theAcceptingSideMayHaveATrafficClassOfItsOwn(Ip version) throws Exception {
        connectByIp(version, NONE.withDscp(26), NONE.withTrafficClass(0xB9)); // DSCP 46, ECN 1
        carry(26 << 2, 0xB9, exchange());
    }

    @ParameterizedTest
    @EnumSource
    void theAcceptingSideAloneMayHaveOne(Ip version) throws Exception {
        connectByIp(version, NONE, NONE.withDscp(63));
        carry(0, 63 << 2, exchange());
    }

    @ParameterizedTest
    @EnumSource
    void eachSideHasItsOwnByAddress(Ip version) throws Exception {
        connectByAddress(version, NONE.withDscp(26), NONE.withTrafficClass(0xB9));
        carry(26 << 2, 0xB9, exchange());
    }

    /** Linux makes the port of the two parts of the label: rdma_flow_label_to_udp_sport. */
    @ParameterizedTest
    @EnumSource
    void aFlowLabelBecomesTheUdpSourcePort(Ip version) throws Exception {
        connectByAddress(version, NONE.withFlowLabel(0xABCDE), NONE.withFlowLabel(1));
        List<Packet> packets = exchange();
        int ours = (0xABCDE & 0x3FFF) ^ (0xABCDE >> 14) | 0xC000;
        assertThat(to(there, packets)).extracting(Packet::port).containsOnly(ours);
        assertThat(to(here, packets)).extracting(Packet::port).containsOnly(0xC001);
        // What the Javadoc says of 6.1; should a kernel carry it, this says so.
        assertThat(to(there, packets)).extracting(Packet::flowLabel).containsOnly(0);
    }

    @Test
    void aFlowLabelIsThatOfTheQueuePairByIpAddressToo() throws Exception {
        connectByIp(Ip.V4, NONE.withFlowLabel(2), NONE.withFlowLabel(1));
        List<Packet> packets = exchange();
        assertThat(to(there, packets)).extracting(Packet::port).containsOnly(0xC002);
        assertThat(to(here, packets)).extracting(Packet::port).containsOnly(0xC001);
    }

    /** The receiver's negative acknowledgement says how long to wait. */
    @ParameterizedTest
    @EnumSource
    void aReceiverThatIsLateSaysForHowLong(Way way) throws Exception {
        PathOptions late = NONE.withMinRnrTimer(Duration.ofMillis(20)); // code 22
        PathOptions often = NONE.withRnrRetries(7);
        if (way == Way.BY_IP) {
            connectByIp(Ip.V4, often, late);
        } else {
            connectByAddress(Ip.V4, often, late);
        }
        MemoryRegion ours = client.memory(BYTES);
        MemoryRegion theirs = server.memory(BYTES);
        assertThat(here.send(1, Pair.whole(ours)).status()).isEqualTo(Status.SUCCESS);
        List<Packet> seen = new ArrayList<>();
        Deadline deadline = Deadline.of("eight negative acknowledgements");
        while (notReady(seen).size() < 8) { // more than the default of six retries
            seen.addAll(capture.packets());
            deadline.check();
        }
        assertThat(notReady(seen)).extracting(Packet::syndrome).containsOnly(0x20 | 22);
        assertThat(there.receive(2, Pair.whole(theirs)).status()).isEqualTo(Status.SUCCESS);
        assertThat(server.ends(1)).containsExactly("RECEIVE 2 SUCCESS");
        assertThat(client.ends(1)).containsExactly("SEND 1 SUCCESS");
    }

    enum Way {
        BY_IP,
        BY_ADDRESS
    }

    private List<Packet> notReady(List<Packet> packets) {
        return to(here, packets).stream()
                .filter(p -> p.opcode() == PacketCapture.ACKNOWLEDGE && p.syndrome() >> 5 == 1)
                .toList();
    }
}
