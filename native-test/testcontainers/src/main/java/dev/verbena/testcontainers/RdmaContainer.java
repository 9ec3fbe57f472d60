package dev.verbena.testcontainers;

import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.model.HostConfig;
import com.github.dockerjava.api.model.Ulimit;

import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.lifecycle.Startable;
import org.testcontainers.utility.DockerImageName;

import java.util.Objects;

/**
 * A service that uses RDMA, in a container, for tests: Testcontainers' {@link GenericContainer}
 * with the network, the device files and the memory limit that RDMA needs, and nothing beyond. It
 * adds no capability and is not privileged; a process that is not root can use RDMA in it.
 *
 * <ul>
 *   <li>Network: its {@link RdmaHost}'s.
 *   <li>Devices: the host's device and {@code rdma_cm}, read and write.
 *   <li>Memory: {@code memlock} without limit, as registered memory is locked memory.
 * </ul>
 *
 * <p>A {@link SoftRoceHost} is started first when it is not running yet. A {@link
 * #withCreateContainerCmdModifier modifier} that sets devices or limits replaces these.
 *
 * @param <SELF> the container's own class, as in {@link GenericContainer}
 */
public class RdmaContainer<SELF extends RdmaContainer<SELF>> extends GenericContainer<SELF> {
    private final RdmaHost host;

    /**
     * A container of an image, to be configured and then started.
     *
     * @param image an image with rdma-core's libraries and providers in it, as {@link
     *     RdmaHost#IMAGE} has
     * @param host where it runs
     */
    @SuppressWarnings("this-escape") // to methods of GenericContainer, as its own constructor does
    public RdmaContainer(DockerImageName image, RdmaHost host) {
        super(image);
        this.host = Objects.requireNonNull(host, "host");
        if (host instanceof Startable first) {
            dependsOn(first);
        }
        if (image.getRepository().equals(RdmaHost.IMAGE.getRepository())) {
            withImagePullPolicy(EngineHost.NEVER_PULLED);
        }
        withCreateContainerCmdModifier(this::giveRdma);
    }

    /**
     * Returns the host that this container runs on.
     *
     * @return the host that the constructor was given
     */
    public RdmaHost rdmaHost() {
        return host;
    }

    /**
     * Refused: the network is the {@link RdmaHost}'s.
     *
     * @param network not taken
     * @return never
     */
    @Override
    public SELF withNetwork(Network network) {
        throw new UnsupportedOperationException(
                "A container's RDMA network is its host's: new SoftRoceHost(network)");
    }

    /**
     * Refused: the network is the {@link RdmaHost}'s.
     *
     * @param networkMode not taken
     * @return never
     */
    @Override
    public SELF withNetworkMode(String networkMode) {
        throw new UnsupportedOperationException(
                "A container's RDMA network is its host's: an RdmaHost is given to the constructor");
    }

    @Override
    protected void configure() {
        if (!getExposedPorts().isEmpty()) {
            // The engine refuses the one kind, and Testcontainers waits in vain with the other.
            throw new IllegalStateException(
                    "Ports %s cannot be exposed by a container on another's network: %s"
                            .formatted(
                                    getExposedPorts(),
                                    host instanceof SoftRoceHost
                                            ? "its host can (SoftRoceHost.withExposedPorts)"
                                            : "on the engine's machine all are open, exposed or not"));
        }
        super.withNetworkMode(host.networkMode());
    }

    private void giveRdma(CreateContainerCmd command) {
        HostConfig config = Objects.requireNonNull(command.getHostConfig());
        config.withDevices(EngineHost.devices(host))
                .withUlimits(new Ulimit[] {new Ulimit("memlock", -1L, -1L)});
    }

    /**
     * Where a port of this container is reached from outside.
     *
     * @param port a TCP port inside: on a {@link SoftRoceHost} one that this exposes, otherwise any
     * @return the port of {@link #getHost()} that leads there
     */
    @Override
    public Integer getMappedPort(int port) {
        return host.mappedPort(port);
    }
}
