package dev.verbena.testcontainers;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is read out of the report that a container gives of its devices. */
class DeviceReportTest {
    @Test
    void namesDevicesThatAreUpAndHaveAnAddressHere() {
        String report =
                """
                link roce1/1 state ACTIVE physical_state LINK_UP netdev vroce1
                link roce0/1 state ACTIVE physical_state LINK_UP netdev vroce0
                link down0/1 state DOWN physical_state DISABLED netdev eth1
                link elsewhere/1 state ACTIVE physical_state LINK_UP
                link fileless/1 state ACTIVE physical_state LINK_UP netdev vroce0
                4: vroce0    inet 198.18.77.1/30 scope global vroce0\\       valid_lft forever
                5: vroce1    inet6 fd76::2/64 scope global \\       valid_lft forever
                5: vroce1    inet 198.18.77.2/30 scope global vroce1\\       valid_lft forever
                6: eth1@if7    inet 192.0.2.1/24 scope global eth1\\       valid_lft forever
                file uverbs0 roce0
                file uverbs1 roce1
                file uverbs2 down0
                file uverbs3 elsewhere
                """;
        assertThat(DeviceReport.devices(report))
                .extracting(
                        device ->
                                "%s %s %s"
                                        .formatted(
                                                device.name(),
                                                device.address().getHostAddress(),
                                                device.files()))
                .containsExactly(
                        "roce0 198.18.77.1 [/dev/infiniband/uverbs0, /dev/infiniband/rdma_cm]",
                        "roce1 198.18.77.2 [/dev/infiniband/uverbs1, /dev/infiniband/rdma_cm]");
    }

    /** InfiniBand: rdma(8) names no interface, sysfs does. */
    @Test
    void findsTheInterfaceOfAnInfiniBandDevice() {
        String report =
                """
                link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP
                7: ib0    inet 192.0.2.7/24 brd 192.0.2.255 scope global ib0\\       valid_lft forever
                file uverbs0 mlx5_0
                interface /sys/class/infiniband/mlx5_0/device/net/ib0
                """;
        assertThat(DeviceReport.devices(report))
                .extracting(device -> device.address().getHostAddress())
                .containsExactly("192.0.2.7");
    }

    /** An interface in a container has a peer outside, which ip(8) adds to its name. */
    @Test
    void readsAnInterfaceWithAPeer() {
        String report =
                """
                link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0
                8: eth0@if9    inet 172.18.0.2/16 brd 172.18.255.255 scope global eth0\\       valid_lft forever
                file uverbs2 rxe0
                """;
        assertThat(DeviceReport.devices(report))
                .extracting(DeviceReport.Device::name)
                .containsExactly("rxe0");
    }

    @Test
    void findsNothingInTheOutputOfShellsThatFail() {
        assertThat(DeviceReport.devices("sh: 1: rdma: not found\nerror: No such device\n"))
                .isEmpty();
    }

    @ParameterizedTest
    @CsvSource({
        "6.1.0-56-amd64, false",
        "6.18.44, false",
        "7.1.9, false",
        "7.2.12+deb13-amd64, true",
        "7.10.0, true",
        "8.0.0-rc1, true",
        "unknown, true",
    })
    void knowsWhichLinuxHasSoftRoceInNamespaces(String version, boolean expected) {
        assertThat(SoftRoceHost.supports(version)).isEqualTo(expected);
    }
}
