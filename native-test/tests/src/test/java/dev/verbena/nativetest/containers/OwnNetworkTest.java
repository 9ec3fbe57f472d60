package dev.verbena.nativetest.containers;

import static dev.verbena.nativetest.containers.JavaContainer.awaitEnd;
import static dev.verbena.nativetest.containers.JavaContainer.awaitLine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.testcontainers.RdmaContainer;
import dev.verbena.testcontainers.RdmaHost;
import dev.verbena.testcontainers.SoftRoceHost;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.Network;
import org.testcontainers.utility.DockerImageName;

/** Two hosts, each with its own network namespace, address and Soft-RoCE device. */
@Tag("own-network")
class OwnNetworkTest extends ServicesInContainers {
    private static Network network;
    private static SoftRoceHost there;
    private static SoftRoceHost here;

    @BeforeAll
    static void twoHosts() {
        String problem = RdmaHost.whyNoSoftRoce();
        if (System.getProperty("verbena.containers", "optional").equals("required")) {
            assertThat(problem).isEmpty();
        }
        assumeTrue(problem.isEmpty(), problem);
        network = Network.newNetwork();
        there = new SoftRoceHost(network).withNetworkAliases("there");
        here = new SoftRoceHost(network);
        there.start();
        here.start();
    }

    @AfterAll
    static void noHosts() {
        if (network != null) {
            there.close();
            here.close();
            network.close();
        }
    }

    @Override
    RdmaHost there() {
        return there;
    }

    @Override
    RdmaHost here() {
        return here;
    }

    @Test
    void theyAreTwoHosts() throws Exception {
        assertThat(there.address()).isNotEqualTo(here.address());
        assertThat(there.device()).isNotEqualTo(here.device());
        assertThat(here.execInContainer("getent", "hosts", "there").getStdout())
                .startsWith(there.address().getHostAddress());
    }

    /** The machine dies with its device: nothing is left that could say goodbye. */
    @Test
    void aServerWhoseHostDies() throws Exception {
        try (SoftRoceHost mortal = new SoftRoceHost(network);
                JavaContainer server =
                        new JavaContainer(mortal, Letters.class, "server", "0.0.0.0", "1")) {
            server.start(); // and with it its host
            awaitLine(server, "listening on");
            try (JavaContainer client =
                    new JavaContainer(
                            here,
                            Letters.class,
                            "client",
                            mortal.address().getHostAddress(),
                            here.address().getHostAddress(),
                            "0")) {
                client.start();
                awaitLine(client, "round 5\n");
                String device = mortal.device();
                assertThat(devicesOfThisKernel()).contains(device);
                mortal.stop();
                assertThat(awaitEnd(client)).as(client.getLogs()).isOne();
                assertThat(client.getLogs()).contains("failed: the server is gone");
                assertThat(devicesOfThisKernel()).doesNotContain(device);
            }
        }
    }

    /** Of all namespaces, as they are shared unless {@code rdma system} says otherwise. */
    private static String devicesOfThisKernel() throws Exception {
        return here.execInContainer("rdma", "link").getStdout();
    }

    @Test
    void refusesWhatIsNotAHosts() {
        try (SoftRoceHost host = new SoftRoceHost(network)) {
            assertThatThrownBy(() -> host.withNetworkMode("host"))
                    .isInstanceOf(UnsupportedOperationException.class);
            assertThatThrownBy(() -> host.withCommand("sleep"))
                    .hasMessageContaining("new RdmaContainer");
            assertThatThrownBy(host::address).hasMessageContaining("start() first");
            assertThat(host).hasToString("SoftRoceHost, not running");
        }
        assertThat(here).asString().contains(here.device(), here.address().getHostAddress());
        DockerImageName missing = RdmaHost.IMAGE.withTag("26");
        try (SoftRoceHost host = new SoftRoceHost(network, missing);
                RdmaContainer<?> service = new RdmaContainer<>(missing, here)) {
            assertThatThrownBy(host::start).hasStackTraceContaining("There is no image " + missing);
            assertThatThrownBy(service::start).hasStackTraceContaining("\"ci/roce image\" makes");
        }
    }

    @Test
    void portsAreTheHostsToExpose() {
        try (SoftRoceHost host = new SoftRoceHost(network).withExposedPorts(8080);
                JavaContainer service = new JavaContainer(host, Letters.class)) {
            host.start();
            assertThat(service.getMappedPort(8080)).isEqualTo(host.getMappedPort(8080));
            service.withExposedPorts(8080);
            assertThatThrownBy(service::start)
                    .hasStackTraceContaining("its host can (SoftRoceHost.withExposedPorts)");
        }
    }
}
