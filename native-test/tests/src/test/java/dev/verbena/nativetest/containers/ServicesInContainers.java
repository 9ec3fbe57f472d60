package dev.verbena.nativetest.containers;

import static dev.verbena.nativetest.containers.JavaContainer.awaitEnd;
import static dev.verbena.nativetest.containers.JavaContainer.awaitLine;
import static dev.verbena.nativetest.containers.JavaContainer.kill;

import static org.assertj.core.api.Assertions.assertThat;

import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.model.HostConfig;

import dev.verbena.examples.services.GrpcClient;
import dev.verbena.examples.services.GrpcServer;
import dev.verbena.nativetest.Rping;
import dev.verbena.testcontainers.RdmaContainer;
import dev.verbena.testcontainers.RdmaHost;
import dev.verbena.tools.Verbena;

import org.junit.jupiter.api.Test;
import org.testcontainers.containers.wait.strategy.Wait;

/** What services in containers do with each other, wherever their two hosts come from. */
@NeedsContainers
abstract class ServicesInContainers {
    private static final int ROUNDS = 20;
    private static final String GRPC_PORT = "7472";

    /** Where servers run. */
    abstract RdmaHost there();

    /** Where clients run. */
    abstract RdmaHost here();

    @Test
    void sendWriteAndInvalidateBetweenTwoServices() {
        try (JavaContainer server = letterServer(1);
                JavaContainer client = letterClient(ROUNDS)) {
            server.start();
            awaitLine(server, "listening on");
            client.start();
            assertThat(awaitEnd(client)).as(client.getLogs()).isZero();
            assertThat(client.getLogs())
                    .contains(ROUNDS + " rounds written; the dead token: ACCESS_VIOLATION");
            assertThat(awaitEnd(server)).as(server.getLogs()).isZero();
            assertThat(server.getLogs()).contains("client left after " + ROUNDS + " rounds");
            assertThatItHasNothingBeyond(client);
        }
    }

    /** As the engine has it: one device, one limit, and no right that others have not. */
    private void assertThatItHasNothingBeyond(RdmaContainer<?> container) {
        InspectContainerResponse facts = container.getCurrentContainerInfo();
        HostConfig config = facts.getHostConfig();
        assertThat(config.getPrivileged()).isFalse();
        assertThat(config.getCapAdd()).isNullOrEmpty();
        assertThat(config.getBinds()).isNullOrEmpty();
        assertThat(config.getDevices())
                .extracting("pathOnHost")
                .containsExactlyElementsOf(container.rdmaHost().deviceFiles());
        assertThat(config.getUlimits()).extracting("name").containsExactly("memlock");
        assertThat(config.getNetworkMode()).isEqualTo(container.rdmaHost().networkMode());
    }

    @Test
    void pingFromJavaToC() {
        try (RdmaContainer<?> server =
                        rping(there(), "-s", "-a", address(there()), "-C", "10", "-S", "4096");
                JavaContainer client =
                        new JavaContainer(
                                here(),
                                Verbena.class,
                                "ping",
                                "client",
                                address(there()),
                                "--from",
                                address(here()),
                                "--count",
                                "10",
                                "--size",
                                "4096",
                                "--timeout",
                                "60")) {
            server.waitingFor(
                    Wait.forSuccessfulCommand("rdma resource show cm_id | grep LISTEN")
                            .withStartupTimeout(JavaContainer.LONG));
            server.start();
            client.start();
            assertThat(awaitEnd(client)).as(client.getLogs()).isZero();
            assertThat(client.getLogs())
                    .contains("10 rounds of 4,096 bytes; all data came back as it was sent");
            assertRpingEndsWell(server);
        }
    }

    @Test
    void pingFromCToJava() {
        try (JavaContainer server =
                        new JavaContainer(
                                there(),
                                Verbena.class,
                                "ping",
                                "server",
                                "--bind",
                                address(there()),
                                "--timeout",
                                "60");
                RdmaContainer<?> client =
                        rping(
                                here(),
                                "-c",
                                "-a",
                                address(there()),
                                "-I",
                                address(here()),
                                "-C",
                                "10",
                                "-S",
                                "4096",
                                "-V")) {
            server.start();
            awaitLine(server, "Listening on");
            client.start();
            assertRpingEndsWell(client);
            assertThat(awaitEnd(server)).as(server.getLogs()).isZero();
            assertThat(server.getLogs()).contains("10 rounds of 4,096 bytes; all data was correct");
        }
    }

    @Test
    void aKilledClientIsReplaced() {
        try (JavaContainer server = letterServer(2);
                JavaContainer killed = letterClient(0);
                JavaContainer next = letterClient(ROUNDS)) {
            server.start();
            awaitLine(server, "listening on");
            killed.start();
            awaitLine(server, "round 5\n");
            kill(killed);
            awaitLine(server, "client left after \\d+ rounds: CONNECTION_INVALID");
            next.start();
            assertThat(awaitEnd(next)).as(next.getLogs()).isZero();
            assertThat(awaitEnd(server)).as(server.getLogs()).isZero();
        }
    }

    @Test
    void aKilledServerIsReplaced() {
        try (JavaContainer killed = letterServer(1);
                JavaContainer client = letterClient(0);
                JavaContainer next = letterServer(1);
                JavaContainer again = letterClient(ROUNDS)) {
            killed.start();
            awaitLine(killed, "listening on");
            client.start();
            awaitLine(client, "round 5\n");
            kill(killed);
            assertThat(awaitEnd(client)).as(client.getLogs()).isOne();
            assertThat(client.getLogs()).contains("failed: the server is gone");
            next.start();
            awaitLine(next, "listening on");
            again.start();
            assertThat(awaitEnd(again)).as(again.getLogs()).isZero();
            assertThat(awaitEnd(next)).as(next.getLogs()).isZero();
        }
    }

    /** As published, except for its event loops and channels. */
    @Test
    void grpcBetweenTwoServices() {
        try (JavaContainer server =
                        new JavaContainer(
                                there(),
                                GrpcServer.class,
                                there().device(),
                                address(there()),
                                GRPC_PORT);
                JavaContainer client =
                        new JavaContainer(
                                here(),
                                GrpcClient.class,
                                here().device(),
                                address(there()),
                                GRPC_PORT)) {
            server.start();
            awaitLine(server, "Listening on");
            client.start();
            assertThat(awaitEnd(client)).as(client.getLogs()).isZero();
            assertThat(client.getLogs())
                    .contains("HELLO, RDMA", "[7, 8, 9]", "A stream of words", "You say: Why?");
            awaitLine(server, "Cancelled before");
            assertThatItHasNothingBeyond(client);
        }
    }

    private JavaContainer letterServer(int clients) {
        return new JavaContainer(
                there(), Letters.class, "server", address(there()), Integer.toString(clients));
    }

    private JavaContainer letterClient(int rounds) {
        return new JavaContainer(
                here(),
                Letters.class,
                "client",
                address(there()),
                address(here()),
                Integer.toString(rounds));
    }

    private static RdmaContainer<?> rping(RdmaHost host, String... words) {
        String[] command = new String[words.length + 1];
        command[0] = "rping";
        System.arraycopy(words, 0, command, 1, words.length);
        RdmaContainer<?> container = new RdmaContainer<>(RdmaHost.IMAGE, host);
        container.withImagePullPolicy(image -> false).withCommand(command);
        JavaContainer.asAService(container);
        return container;
    }

    private static void assertRpingEndsWell(RdmaContainer<?> rping) {
        int exitCode = awaitEnd(rping);
        String logs = rping.getLogs();
        assertThat(Rping.endedWell(exitCode, logs)).as("exit code %d: %s", exitCode, logs).isTrue();
    }

    static String address(RdmaHost host) {
        return host.address().getHostAddress();
    }
}
