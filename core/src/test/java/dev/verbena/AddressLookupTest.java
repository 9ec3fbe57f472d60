package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.Port.GidEntry;
import dev.verbena.Port.GidType;
import dev.verbena.internal.device.AddressLookup;
import dev.verbena.internal.device.Device;
import dev.verbena.internal.device.Devices;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Which device an address leads to, and what is said when it leads to none. */
@Timeout(60)
class AddressLookupTest extends Devices {
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    // A machine with two RoCE devices: roce0 on eth0 with a VLAN, roce1 on eth1, and nothing on
    // eth2.
    @TempDir private Path interfaces;
    private final Map<String, FakeDevice> devices = new TreeMap<>();
    private final List<FakeDevice> made = new ArrayList<>();
    private final Map<String, VerbenaException> refused = new HashMap<>();
    private final List<String> names = List.of("lo", "eth0", "eth1", "eth2", "eth0.100", "ib0");
    private final Map<InetAddress, String> addresses = new HashMap<>();
    private final List<Adapter> open = new ArrayList<>();
    private final AtomicInteger opened = new AtomicInteger();
    private final FakeConnections network = new FakeConnections();
    private InetAddress source;

    @BeforeEach
    void makeDevices() {
        device(
                "roce0",
                gid(0, GidType.ROCE_V1, "192.0.2.1", "eth0"),
                gid(1, GidType.ROCE_V2, "192.0.2.1", "eth0"),
                gid(2, GidType.ROCE_V2, "fe80::1", "eth0"),
                gid(3, GidType.ROCE_V2, "203.0.113.1", "eth0.100"));
        device(
                "roce1",
                gid(0, GidType.ROCE_V2, "198.51.100.1", "eth1"),
                gid(1, GidType.ROCE_V2, "fe80::1", "eth1"));
        at("192.0.2.7", "eth2");
        at("127.0.0.1", "lo");
    }

    @AfterEach
    void close() {
        open.forEach(Adapter::close);
        long closes =
                made.stream()
                        .flatMap(device -> device.destroys.stream())
                        .filter("ibv_close_device"::equals)
                        .count();
        assertThat(closes).as("devices closed").isEqualTo(opened.get());
        made.forEach(FakeDevice::dispose);
        assertThat(network.identifiers()).isZero();
        assertThat(network.channels()).isZero();
    }

    private void device(String name, GidEntry... gids) {
        FakeDevice device = new FakeDevice();
        device.gids = List.of(gids);
        devices.put(name, device);
        made.add(device);
    }

    private void infiniBandWithTwoPorts(String name) {
        device(
                name,
                new GidEntry(1, 0, new Gid(0xFE80_0000_0000_0000L, 7), GidType.INFINIBAND, 0),
                new GidEntry(2, 0, new Gid(0xFE80_0000_0000_0000L, 8), GidType.INFINIBAND, 0));
        devices.get(name).ports = 2;
        devices.get(name).ethernet = false;
    }

    private GidEntry gid(int index, GidType type, String address, String networkInterface) {
        at(address, networkInterface);
        Gid gid = Gid.of(InetAddress.ofLiteral(address));
        return new GidEntry(1, index, gid, type, names.indexOf(networkInterface));
    }

    private void at(String address, String networkInterface) {
        addresses.put(InetAddress.ofLiteral(address), networkInterface);
    }

    // ---- the machine

    @Override
    public List<String> names() {
        return List.copyOf(devices.keySet());
    }

    @Override
    public Device open(String name) {
        if (refused.containsKey(name)) {
            throw refused.get(name);
        }
        opened.incrementAndGet();
        return new Device(name, devices.get(name), this::connections);
    }

    @Override
    public String whyNone() {
        return "No RDMA device: there is none";
    }

    @Override
    public ConnectionControl connections() {
        return network;
    }

    @Override
    protected int interfaceOf(InetAddress address) {
        if (address instanceof Inet6Address six && six.getScopeId() > 0) {
            return six.getScopeId();
        }
        return addresses.containsKey(address) ? names.indexOf(addresses.get(address)) : 0;
    }

    @Override
    protected String nameOf(int index) {
        return index == 0 ? "" : names.get(index);
    }

    @Override
    protected InetAddress sourceTowards(InetAddress peer) {
        return source;
    }

    // ---- calls

    private AddressLookup lookup() {
        return new AddressLookup(this, interfaces);
    }

    private Adapter forAddress(InetAddress local) {
        Adapter found = new Adapter(lookup().forAddress(local));
        open.add(found);
        return found;
    }

    private Adapter forAddress(String local) {
        return forAddress(InetAddress.ofLiteral(local));
    }

    private Adapter forPeer(InetAddress remote, Duration deadline) {
        Adapter found = new Adapter(lookup().forPeer(remote, deadline));
        open.add(found);
        return found;
    }

    private Adapter forPeer(String remote) {
        return forPeer(InetAddress.ofLiteral(remote), DEADLINE);
    }

    private static String invalid(ThrowingCallable call) {
        VerbenaException e = catchThrowableOfType(VerbenaException.class, call);
        assertThat(e).isNotNull();
        assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
        return e.getMessage();
    }

    private static final String INVENTORY =
            "; roce0 is on eth0, eth0.100 (192.0.2.1, 203.0.113.1), roce1 is on eth1 (198.51.100.1)";

    @Nested
    class OfAnAddress {
        @ParameterizedTest
        @CsvSource({"192.0.2.1, roce0, 1", "198.51.100.1, roce1, 0", "203.0.113.1, roce0, 3"})
        void theDeviceHasItAmongItsGidsAndUsesIt(String address, String device, int index) {
            Adapter found = forAddress(address);
            assertThat(found.name()).isEqualTo(device);
            assertThat(found.gid().gid().index()).isEqualTo(index); // RoCE v2 before v1
            assertThat(found.gid().gid().gid().toInetAddress())
                    .isEqualTo(InetAddress.ofLiteral(address));
        }

        @Test
        void aLinkLocalOneHasItsPort() throws Exception {
            FakeDevice two = devices.get("roce1");
            two.ports = 2;
            GidEntry first = two.gids.getFirst();
            two.gids =
                    List.of(
                            first,
                            new GidEntry(
                                    2,
                                    0,
                                    new Gid(0xFE80_0000_0000_0000L, 1),
                                    GidType.ROCE_V2,
                                    names.indexOf("eth1")));
            Adapter found = forAddress(linkLocal(2));
            assertThat(found.device().ports().chosen()).isNull();
            assertThat(found.gid().port()).isEqualTo(2);
        }

        @ParameterizedTest
        @CsvSource({"1, roce0", "2, roce1"})
        void aLinkLocalOneIsDistinguishedByItsScope(int scope, String device) throws Exception {
            Adapter found = forAddress(linkLocal(scope));
            assertThat(found.name()).isEqualTo(device);
            assertThat(found.device().ports().chosen()).isNull();
        }

        @Test
        void aLinkLocalOneNeedsItsScope() {
            assertThat(invalid(() -> forAddress(linkLocal(0))))
                    .startsWith(
                            "fe80:0:0:0:0:0:0:1 is link-local and needs its network interface, as"
                                    + " in fe80:0:0:0:0:0:0:1%eth0; roce0 is on");
        }

        @Test
        void anInterfaceWithoutADeviceIsNamed() {
            assertThat(invalid(() -> forAddress("192.0.2.7")))
                    .isEqualTo(
                            "192.0.2.7 is an address of eth2, which no RDMA device uses"
                                    + INVENTORY);
        }

        @Test
        void thatIsNotOfThisMachineIsRefused() {
            assertThat(invalid(() -> forAddress("192.0.2.99")))
                    .isEqualTo(
                            "192.0.2.99 is not an address of this machine (ip address)"
                                    + INVENTORY);
        }

        @Test
        void theLoopbackAddressIsRefusedWithWhatToUse() {
            assertThat(invalid(() -> forAddress("127.0.0.1")))
                    .isEqualTo(
                            "127.0.0.1 is an address of the loopback interface, which no RDMA device uses: use an address of a device"
                                    + INVENTORY);
        }

        @Test
        void theWildcardIsRefused() {
            assertThat(invalid(() -> forAddress("0.0.0.0")))
                    .isEqualTo("0.0.0.0 stands for all addresses: name one" + INVENTORY);
        }

        @Test
        void aGidOnAnotherInterfaceIsNotTaken() {
            at("198.51.100.1", "eth2"); // the device's GID table still has the address
            assertThat(invalid(() -> forAddress("198.51.100.1"))).contains("is an address of eth2");
        }

        @Test
        void onInfiniBandTheInterfaceLeadsToTheDevice() throws IOException {
            Files.createDirectories(interfaces.resolve("ib0/device/infiniband/mlx5_0"));
            device(
                    "mlx5_0",
                    new GidEntry(1, 0, new Gid(0xFE80_0000_0000_0000L, 7), GidType.INFINIBAND, 0));
            at("192.0.2.50", "ib0");
            assertThat(forAddress("192.0.2.50").name()).isEqualTo("mlx5_0");
            assertThat(invalid(() -> forAddress("192.0.2.7")))
                    .contains("; mlx5_0 is on no interface (no address), roce0 is");
        }

        @ParameterizedTest
        @CsvSource({
            "0, 1, port 1",
            "1, 2, port 2",
            "7, 1, the first port that is up",
            "'', 1, the first port that is up",
            "x, 1, the first port that is up"
        })
        void onInfiniBandTheInterfaceLeadsToThePort(String devPort, int port, String reason)
                throws IOException {
            Path folder = interfaces.resolve("ib0");
            Files.createDirectories(folder.resolve("device/infiniband/mlx5_0"));
            Files.writeString(folder.resolve("dev_port"), devPort + "\n");
            infiniBandWithTwoPorts("mlx5_0");
            at("192.0.2.50", "ib0");
            Adapter found = forAddress("192.0.2.50");
            assertThat(found.gid().port()).isEqualTo(port);
            assertThat(found.gid().reason()).endsWith(" on " + reason);
            assertThat(found.device().ports().portOf(null).number()).isEqualTo(port);
            found.useGid(1, 0);
            assertThat(found.gid().port()).isOne();
        }

        @Test
        void aDeviceThatThisProcessWasNotGivenIsNone() throws IOException {
            Files.createDirectories(interfaces.resolve("ib0/device/infiniband/mlx5_0"));
            at("192.0.2.50", "ib0");
            assertThat(invalid(() -> forAddress("192.0.2.50")))
                    .contains("192.0.2.50 is an address of ib0, which no RDMA device uses");
        }

        @Test
        void aDeviceThatFailsHidesNoOther() {
            devices.get("roce0").portError = Errno.EIO;
            assertThat(forAddress("198.51.100.1").name()).isEqualTo("roce1");
            assertThat(invalid(() -> forAddress("192.0.2.1")))
                    .contains("; roce0 cannot be used: ibv_query_port(roce0)");
        }

        @Test
        void aDeviceThatCannotBeOpenedHidesNoOther() {
            refused.put("roce0", new VerbenaException(Status.ACCESS_VIOLATION, "not yours"));
            assertThat(forAddress("198.51.100.1").name()).isEqualTo("roce1");
            assertThat(invalid(() -> forAddress("192.0.2.1")))
                    .endsWith("; roce0 cannot be used: not yours, roce1 is on eth1 (198.51.100.1)");
        }

        @Test
        void withoutAnyDeviceTheReasonIsGiven() {
            devices.clear();
            assertThat(invalid(() -> forAddress("192.0.2.1"))).endsWith("; " + whyNone());
        }
    }

    private static InetAddress linkLocal(int scope) throws UnknownHostException {
        byte[] bytes = new Gid(0xFE80_0000_0000_0000L, 1).bytes();
        return Inet6Address.getByAddress(null, bytes, scope == 0 ? -1 : scope);
    }

    @Nested
    class OfAPeer {
        @BeforeEach
        void route() {
            network.routeBy = "roce1";
        }

        @Test
        void theDeviceIsThatOfTheRoute() {
            Adapter found = forPeer("198.51.100.9");
            assertThat(found.name()).isEqualTo("roce1");
            assertThat(found.device().ports().chosen()).isNull();
        }

        @Test
        void thePortIsThatOfTheRoute() {
            infiniBandWithTwoPorts("mlx5_0");
            network.routeBy = "mlx5_0";
            network.port = 2;
            Adapter found = forPeer("198.51.100.9");
            assertThat(found.gid().port()).isEqualTo(2);
            assertThat(found.device().ports().portOf(null).number()).isEqualTo(2);
            assertThat(found.device().ports().chosen()).isNull();
        }

        @Test
        void aDeadlineMayBeCenturiesAway() {
            for (int i = 0; i < 100; i++) { // as of a fast machine: within a millisecond
                assertThat(
                                forPeer(
                                                InetAddress.ofLiteral("198.51.100.9"),
                                                ChronoUnit.FOREVER.getDuration())
                                        .name())
                        .isEqualTo("roce1");
            }
        }

        @Test
        void theRouteIsAskedForAgainWhenTheNeighbourIsLate() {
            network.lateAnswers = 3;
            assertThat(forPeer("198.51.100.9").name()).isEqualTo("roce1");
            assertThat(network.calls).filteredOn("resolveAddress"::equals).hasSize(4);
        }

        @Test
        void anInterfaceWithoutADeviceIsNamed() {
            network.addressError = Errno.ENODEV;
            source = InetAddress.ofLiteral("192.0.2.7");
            assertThat(invalid(() -> forPeer("192.0.2.9")))
                    .isEqualTo(
                            "The route to 192.0.2.9 leads through eth2 (192.0.2.7), which no RDMA device uses"
                                    + INVENTORY);
            source = null;
            assertThat(invalid(() -> forPeer("192.0.2.9")))
                    .isEqualTo("The route to 192.0.2.9 leads through no RDMA device" + INVENTORY);
        }

        @ParameterizedTest
        @CsvSource({
            "113, HOST_UNREACHABLE, no host answers there",
            "101, NETWORK_UNREACHABLE, there is no route (ip route get)"
        })
        void thatCannotBeReachedIsSaid(int errno, String status, String why) {
            network.addressError = errno;
            assertThatThrownBy(() -> forPeer("192.0.2.9"))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status().name()).isEqualTo(status))
                    .hasMessageContaining("192.0.2.9 cannot be reached by RDMA")
                    .hasMessageContaining(why);
        }

        @Test
        void thereIsADeadline() {
            network.silent.add("resolveAddress");
            assertThatThrownBy(
                            () ->
                                    forPeer(
                                            InetAddress.ofLiteral("192.0.2.9"),
                                            Duration.ofMillis(30)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.IO_TIMEOUT))
                    .hasMessage("The route to 192.0.2.9 was not found within 30 ms");
            Duration past = Duration.ofSeconds(Long.MIN_VALUE);
            assertThatThrownBy(() -> forPeer(InetAddress.ofLiteral("192.0.2.9"), past))
                    .hasMessageContaining("was not found within -");
            network.silent.clear();
            network.lateAnswers = Integer.MAX_VALUE;
            assertThatThrownBy(
                            () ->
                                    forPeer(
                                            InetAddress.ofLiteral("192.0.2.9"),
                                            Duration.ofMillis(500)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.HOST_UNREACHABLE))
                    .hasMessageContaining("192.0.2.9")
                    .hasMessageContaining("no host answers there");
        }

        @ParameterizedTest
        @CsvSource({
            "openChannel, rdma_create_event_channel",
            "create, rdma_create_id",
            "resolveAddress, rdma_resolve_addr(192.0.2.9)"
        })
        void aCallThatFailsIsNamed(String call, String name) {
            network.errors.put(call, Errno.ENOMEM);
            assertThatThrownBy(() -> forPeer("192.0.2.9"))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining(name)
                    .hasMessageContaining("ENOMEM");
        }

        @Test
        void loopbackWildcardAndLinkLocalWithoutScopeAreRefused() throws Exception {
            assertThat(invalid(() -> forPeer("127.0.0.1")))
                    .isEqualTo(
                            "127.0.0.1 is an address of the loopback interface, which no RDMA device uses: a peer on this machine is reached by an address of a device"
                                    + INVENTORY);
            assertThat(invalid(() -> forPeer("0.0.0.0")))
                    .startsWith("0.0.0.0 is not the address of a peer");
            InetAddress bare = linkLocal(0);
            assertThat(invalid(() -> forPeer(bare, DEADLINE)))
                    .contains("needs its network interface");
            assertThat(network.calls).isEmpty();
        }
    }
}
