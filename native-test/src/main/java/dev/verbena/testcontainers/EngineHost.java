package dev.verbena.testcontainers;

import com.github.dockerjava.api.model.Device;

import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.startupcheck.OneShotStartupCheckStrategy;
import org.testcontainers.images.ImagePullPolicy;
import org.testcontainers.utility.DockerImageName;

import java.net.InetAddress;
import java.util.List;

/** The machine that the container engine runs on, and one of its devices. */
record EngineHost(String device, InetAddress address, List<String> deviceFiles)
        implements RdmaHost {
    /** Neither of this project's images is in any registry. */
    static final ImagePullPolicy NEVER_PULLED = image -> false;

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
