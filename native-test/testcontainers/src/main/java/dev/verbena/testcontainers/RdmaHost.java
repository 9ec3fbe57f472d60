package dev.verbena.testcontainers;

import org.testcontainers.containers.ContainerLaunchException;
import org.testcontainers.containers.Network;
import org.testcontainers.utility.DockerImageName;

import java.net.InetAddress;
import java.util.List;

/**
 * Where an {@link RdmaContainer} runs, as RDMA sees it: a network namespace, one device in it, and
 * that device's address.
 *
 * <p>There are two kinds. A {@link SoftRoceHost} is a host of its own, with its own address and its
 * own Soft-RoCE device, and needs Linux 7.2 or later; two of them are two hosts on one network.
 * {@link #ofEngine()} has the devices of the machine that the container engine runs on, for any
 * Linux and for real NICs: containers share its network.
 */
public interface RdmaHost extends AutoCloseable {
    /**
     * The image that {@code ci/Dockerfile} of this project describes; hosts are made and asked with
     * the tools in it. It is never pulled: {@code docker build -t verbena/rdma-java:25 ci} makes
     * it.
     */
    DockerImageName IMAGE = DockerImageName.parse("verbena/rdma-java:25");

    /**
     * The device's name.
     *
     * @return as {@code ibv_devices} prints it
     * @throws IllegalStateException when a {@link SoftRoceHost} is not running
     */
    String device();

    /**
     * The device's address: a server listens there, a client of another host connects there.
     *
     * @return an address of the device's network interface, an IPv4 one if it has any
     * @throws IllegalStateException when a {@link SoftRoceHost} is not running, as in the
     *     initialiser of a {@code @Container} field; a network alias is known before
     */
    InetAddress address();

    /**
     * The device files that a process needs: the device's own, and that of connections by IP
     * address.
     *
     * @return as in {@code /dev/infiniband/uverbs0} and {@code /dev/infiniband/rdma_cm}
     */
    List<String> deviceFiles();

    /**
     * The network of the containers on this host.
     *
     * @return as {@code docker run --network} takes it
     */
    String networkMode();

    /**
     * Where a port of a container on this host is reached from outside.
     *
     * @param port a TCP port inside
     * @return the port of {@link RdmaContainer#getHost()} that leads there
     * @throws IllegalArgumentException when none does
     */
    int mappedPort(int port);

    /**
     * Ends a host of its own: what still runs on it has no network and no device any more. The
     * engine's machine goes on.
     */
    @Override
    void close();

    /**
     * Two started hosts: {@link SoftRoceHost}s on a network where the engine's kernel can have
     * those; otherwise the engine's machine with two of its devices, or with its only one twice.
     *
     * @param network for hosts of their own
     * @return two, to be closed before the network
     * @throws IllegalStateException when the kernel is an older one and no device is up
     * @throws ContainerLaunchException when a container that makes a host, or asks for devices,
     *     cannot be run
     */
    static List<RdmaHost> pair(Network network) {
        String problem = whyNoSoftRoce();
        return problem.isEmpty() ? SoftRoceHost.pair(network) : EngineHost.pair(problem);
    }

    /**
     * The machine that the container engine runs on, once for each device whose link is up and
     * whose interface has an address: several for one with several devices, which containers then
     * use as if they were hosts. Asks it by running a container with the tools of {@link #IMAGE}.
     *
     * @return the hosts in order of their devices' names; empty without any device
     * @throws ContainerLaunchException when the container cannot be run
     */
    static List<RdmaHost> ofEngine() {
        return EngineHost.all(IMAGE);
    }

    /**
     * Why there can be no {@link SoftRoceHost} here, for an assumption of tests that need one.
     *
     * @return a sentence, or "" when nothing is known against it
     */
    static String whyNoSoftRoce() {
        return SoftRoceHost.whyNot();
    }
}
