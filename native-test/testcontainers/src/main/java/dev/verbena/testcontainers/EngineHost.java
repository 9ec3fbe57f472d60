package dev.verbena.testcontainers;

import com.github.dockerjava.api.exception.NotFoundException;
import com.github.dockerjava.api.model.Device;

import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.startupcheck.OneShotStartupCheckStrategy;
import org.testcontainers.images.ImagePullPolicy;
import org.testcontainers.utility.DockerImageName;

import java.net.InetAddress;
import java.util.List;

/** The machine that the container engine runs on, and one of its devices. */
record EngineHost(String device, InetAddress address, List<String> deviceFiles)
        implements RdmaHost {
    /** This project's image is in no registry, and nobody here owns its name in one. */
    static final ImagePullPolicy NEVER_PULLED = EngineHost::isNeverPulled;

    private static boolean isNeverPulled(DockerImageName image) {
        try {
            DockerClientFactory.lazyClient().inspectImageCmd(image.asCanonicalNameString()).exec();
            return false;
        } catch (NotFoundException e) {
            throw new IllegalStateException(
                    "There is no image %s in this container engine, and it is not pulled. Verbena's \"ci/roce image\" makes %s"
                            .formatted(image, RdmaHost.IMAGE),
                    e);
        }
    }

    static List<RdmaHost> all(DockerImageName image) {
        try (GenericContainer<?> tools = new GenericContainer<>(image)) {
            tools.withImagePullPolicy(NEVER_PULLED)
                    .withNetworkMode("host")
                    .withCommand("sh", "-c", DeviceReport.SCRIPT)
                    .withStartupCheckStrategy(new OneShotStartupCheckStrategy())
                    .start();
            return DeviceReport.devices(tools.getLogs()).stream()
                    .map(
                            device ->
                                    (RdmaHost)
                                            new EngineHost(
                                                    device.name(),
                                                    device.address(),
                                                    device.files()))
                    .toList();
        }
    }

    static List<RdmaHost> pair(String whyNoSoftRoce) {
        List<RdmaHost> all = all(IMAGE);
        if (all.isEmpty()) {
            throw new IllegalStateException(
                    whyNoSoftRoce + "; and its machine has no RDMA device whose link is up");
        }
        return List.of(all.getFirst(), all.get(Math.min(1, all.size() - 1)));
    }

    /** The device files, for a container to have them as they are there. */
    static Device[] devices(RdmaHost host) {
        return host.deviceFiles().stream()
                .map(file -> new Device("rwm", file, file))
                .toArray(Device[]::new);
    }

    @Override
    public String networkMode() {
        return "host";
    }

    @Override
    public int mappedPort(int port) {
        return port;
    }

    /** This machine stays. */
    @Override
    public void close() {}
}
