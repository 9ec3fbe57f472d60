package dev.verbena.nativetest.containers;

import static dev.verbena.nativetest.containers.JavaContainer.awaitEnd;
import static dev.verbena.nativetest.containers.JavaContainer.awaitLine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import com.github.dockerjava.api.model.Ulimit;

import dev.verbena.nativetest.Columns;
import dev.verbena.nativetest.VertxNode;
import dev.verbena.testcontainers.RdmaHost;
import dev.verbena.tools.Verbena;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.startupcheck.OneShotStartupCheckStrategy;

import java.util.List;

/**
 * Containers on the network of the engine's machine, with its devices; and what a program says in a
 * container that was not given what it needs.
 */
class HostNetworkTest extends ServicesInContainers {
    private static final int FLIGHT_PORT = 7473;
    private static final int FLIGHT_BATCHES = 8; // of 1 MiB, in each direction

    @Override
    RdmaHost there() {
        return ContainerEngine.hosts().getFirst();
    }

    @Override
    RdmaHost here() {
        List<RdmaHost> hosts = ContainerEngine.hosts();
        return hosts.get(Math.min(1, hosts.size() - 1));
    }

    @Test
    void withoutLockableMemoryDoctorAndExceptionSaySo() {
        try (GenericContainer<?> doctor = memoryless("doctor");
                GenericContainer<?> demo = memoryless("demo")) {
            doctor.start();
            demo.start();
            assertThat(awaitEnd(doctor)).as(doctor.getLogs()).isOne();
            assertThat(doctor.getLogs())
                    .containsPattern("Lockable memory: 65,536 bytes; a trial failed: ibv_reg_mr")
                    .contains("ENOMEM", "--ulimit memlock=-1");
            assertThat(awaitEnd(demo)).as(demo.getLogs()).isOne();
            assertThat(demo.getLogs())
                    .contains("ibv_reg_mr(65536 bytes) failed: out of memory (ENOMEM")
                    .contains("this process may have 65,536 bytes in all", "--ulimit memlock=-1");
        }
    }

    private JavaContainer memoryless(String tool) {
        JavaContainer container = new JavaContainer(there(), Verbena.class, tool);
        container.withCreateContainerCmdModifier(
                command ->
                        command.getHostConfig()
                                .withUlimits(
                                        new Ulimit[] {new Ulimit("memlock", 65_536L, 65_536L)}));
        return container;
    }

    @Test
    void withoutDevicesDoctorAndExceptionSaySo() {
        try (GenericContainer<?> doctor = deviceless("doctor");
                GenericContainer<?> demo = deviceless("demo")) {
            doctor.start();
            demo.start();
            assertThat(awaitEnd(doctor)).as(doctor.getLogs()).isOne();
            assertThat(awaitEnd(demo)).as(demo.getLogs()).isOne();
            assertThat(List.of(doctor.getLogs(), demo.getLogs()))
                    .allSatisfy(
                            said ->
                                    assertThat(said)
                                            .contains(
                                                    "No RDMA device: the kernel has",
                                                    there().device(),
                                                    "--device /dev/infiniband/uverbs0"));
        }
    }

    /** An ordinary container, as somebody runs it who does not know better. */
    private static GenericContainer<?> deviceless(String tool) {
        GenericContainer<?> container = new GenericContainer<>(ProgramImage.name());
        container.withImagePullPolicy(image -> false);
        JavaContainer.asAService(container);
        JavaContainer.runs(container, Verbena.class, tool);
        return container;
    }

    @Test
    void withoutConnectionsDoctorSaysSo() {
        try (JavaContainer doctor = new JavaContainer(there(), Verbena.class, "doctor")) {
            doctor.withCreateContainerCmdModifier(
                    command -> {
                        var devices = command.getHostConfig().getDevices();
                        command.getHostConfig().withDevices(devices[0]);
                    });
            doctor.start();
            assertThat(awaitEnd(doctor)).as(doctor.getLogs()).isOne();
            assertThat(doctor.getLogs())
                    .contains("Device " + there().device(), "/dev/infiniband/rdma_cm");
        }
    }

    @Test
    void portsAreOpenWithoutBeingExposed() {
        try (JavaContainer service = new JavaContainer(there(), Letters.class)) {
            assertThat(service.getMappedPort(8080)).isEqualTo(8080);
            service.withExposedPorts(8080);
            assertThatThrownBy(service::start).hasStackTraceContaining("all are open");
        }
    }

    @Test
    void withAllItNeedsDoctorIsContent() {
        try (JavaContainer doctor = new JavaContainer(there(), Verbena.class, "doctor")) {
            doctor.withStartupCheckStrategy(
                            new OneShotStartupCheckStrategy().withTimeout(JavaContainer.LONG))
                    .start();
            assertThat(doctor.getLogs())
                    .contains("Device " + there().device(), "connections by IP address: yes")
                    .contains("Lockable memory: unlimited");
        }
    }

    /** What one side has sent, the other has received: both report its length and checksum. */
    @Test
    void columnsOfArrowFlightBetweenTwoServices() throws Exception {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue(); // takes a minute or two
        String[] service = {there().device(), address(there()), String.valueOf(FLIGHT_PORT)};
        try (JavaContainer server = new JavaContainer(there(), Columns.class, service);
                JavaContainer client =
                        new JavaContainer(
                                here(),
                                Columns.class,
                                here().device(),
                                address(there()),
                                String.valueOf(FLIGHT_PORT),
                                String.valueOf(FLIGHT_BATCHES))) {
            server.start();
            awaitLine(server, "Listening on");
            client.start();
            assertThat(awaitEnd(client)).as(client.getLogs()).isZero();
            List<String> columns =
                    client.getLogs().lines().filter(line -> line.contains("checksum")).toList();
            assertThat(columns).hasSize(2).first().asString().startsWith("DoGet");
            for (String line : columns) {
                awaitLine(server, line);
            }
            assertThatTcpIsRefused(server, FLIGHT_PORT);
        }
    }

    /** HTTP/2 and the event bus. */
    @Test
    void vertxBetweenTwoServices() throws Exception {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue(); // takes a minute or two
        try (JavaContainer server = vertxNode("server", there(), here());
                JavaContainer client = vertxNode("client", here(), there())) {
            server.start();
            awaitLine(server, "Listening on");
            client.start();
            assertThat(awaitEnd(client)).as(client.getLogs()).isZero();
            assertThat(client.getLogs()).contains("over HTTP/2 were", "over the event bus were");
            awaitLine(server, "News: hello");
            assertThatTcpIsRefused(server, VertxNode.HTTP_PORT);
            assertThatTcpIsRefused(server, VertxNode.BUS_PORT);
        }
    }

    private static JavaContainer vertxNode(String role, RdmaHost host, RdmaHost other) {
        return new JavaContainer(
                host, VertxNode.class, role, host.device(), address(host), address(other));
    }

    /** So what its clients have got from there, they have got by RDMA. */
    private static void assertThatTcpIsRefused(JavaContainer server, int port) throws Exception {
        String tcp = "</dev/tcp/%s/%d".formatted(address(server.rdmaHost()), port);
        assertThat(server.execInContainer("bash", "-c", tcp).getStderr())
                .contains("Connection refused");
    }
}
