package dev.verbena.testcontainers;

import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.model.Capability;

import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

import java.net.InetAddress;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A host of its own: a container that does nothing but hold a network namespace with a Soft-RoCE
 * device on its interface. {@link RdmaContainer}s run in that namespace, with that device and its
 * address, and need no capability for it; this container has CAP_NET_ADMIN, to make the device.
 *
 * <p>Needs Linux 7.2 or later, where a Soft-RoCE device can be made inside a network namespace, and
 * its module {@code rdma_rxe}; earlier ones have it in the first namespace only.
 *
 * <p>Its address lasts as long as it does: a service that dies and is started anew finds the same.
 * Stopping this container takes interface, address and device from what runs on it, as when a
 * machine dies. Ports that are to be reached from outside are exposed here ({@link
 * #withExposedPorts}), as are {@link #withNetworkAliases names}.
 */
public class SoftRoceHost extends GenericContainer<SoftRoceHost> implements RdmaHost {
    private static final int[] FIRST_LINUX = {7, 2};
    private static final Pattern VERSION = Pattern.compile("(\\d+)\\.(\\d+).*");
    private static final String DONE = "verbena: done";
    // The last line comes in any case: waiting for a container that has ended would take a minute.
    private static final String SCRIPT =
            "rdma link add \"$1\" type rxe netdev eth0 && {\n"
                    + DeviceReport.SCRIPT
                    + "}; echo '"
                    + DONE
                    + "'; exec sleep infinity";

    private volatile DeviceReport.Device device;

    /**
     * A host on a network.
     *
     * @param network where it gets its address, as {@link Network#newNetwork()} makes it
     */
    public SoftRoceHost(Network network) {
        this(network, IMAGE);
    }

    /**
     * A host on a network, of another image.
     *
     * @param network where it gets its address
     * @param image one with {@code sh}, and {@code rdma} and {@code ip} of iproute2
     */
    @SuppressWarnings("this-escape") // to methods of GenericContainer, as its own constructor does
    public SoftRoceHost(Network network, DockerImageName image) {
        super(image);
        Objects.requireNonNull(network, "network");
        if (image.getRepository().equals(IMAGE.getRepository())) {
            withImagePullPolicy(EngineHost.NEVER_PULLED);
        }
        withNetwork(network);
        withCreateContainerCmdModifier(SoftRoceHost::onlyWhatItNeeds);
        waitingFor(Wait.forLogMessage(".*" + DONE + ".*\\n", 1));
    }

    private static void onlyWhatItNeeds(CreateContainerCmd command) {
        Objects.requireNonNull(command.getHostConfig())
                .withCapDrop(Capability.ALL)
                .withCapAdd(Capability.NET_ADMIN);
    }

    static List<RdmaHost> pair(Network network) {
        SoftRoceHost one = new SoftRoceHost(network);
        SoftRoceHost other = new SoftRoceHost(network);
        try {
            one.start();
            other.start();
            return List.of(one, other);
        } catch (RuntimeException e) {
            one.close();
            other.close();
            throw e;
        }
    }

    /** Why there can be none here, or "". */
    static String whyNot() {
        if (!DockerClientFactory.instance().isDockerAvailable()) {
            return "No container engine answers here; Verbena's \"ci/roce engine -- CMD\" runs a command where one does";
        }
        String version =
                DockerClientFactory.instance().client().infoCmd().exec().getKernelVersion();
        return supports(version)
                ? ""
                : "The container engine runs on Linux %s: a Soft-RoCE device inside a network namespace needs %d.%d or later"
                        .formatted(version, FIRST_LINUX[0], FIRST_LINUX[1]);
    }

    /** Whether a Linux of this version has Soft-RoCE in network namespaces. */
    static boolean supports(String version) {
        Matcher numbers = VERSION.matcher(Objects.requireNonNullElse(version, ""));
        if (!numbers.matches()) {
            return true; // unknown: the attempt will show
        }
        int major = Integer.parseInt(numbers.group(1));
        int minor = Integer.parseInt(numbers.group(2));
        return major > FIRST_LINUX[0] || (major == FIRST_LINUX[0] && minor >= FIRST_LINUX[1]);
    }

    @Override
    protected void configure() {
        String problem = whyNot();
        if (!problem.isEmpty()) {
            throw new IllegalStateException(problem);
        }
        // Device names are unique in the whole machine, namespaces or not.
        String name = "rxe" + UUID.randomUUID().toString().replace("-", "").substring(0, 12);
        super.withCommand("sh", "-c", SCRIPT, "sh", name);
    }

    /**
     * Refused: it has a network of its own.
     *
     * @param networkMode not taken
     * @return never
     */
    @Override
    public SoftRoceHost withNetworkMode(String networkMode) {
        throw new UnsupportedOperationException("A host has a network: new SoftRoceHost(network)");
    }

    /**
     * Refused: what is to run on a host runs in an {@link RdmaContainer}.
     *
     * @param command not taken
     * @return never
     */
    @Override
    public SoftRoceHost withCommand(String command) {
        return withCommand(new String[] {command});
    }

    /**
     * Refused: what is to run on a host runs in an {@link RdmaContainer}.
     *
     * @param command not taken
     * @return never
     */
    @Override
    public SoftRoceHost withCommand(String... command) {
        throw new UnsupportedOperationException(
                "A host runs nothing of yours: new RdmaContainer<>(image, host)");
    }

    @Override
    protected void containerIsStarted(InspectContainerResponse info) {
        String name = getCommandParts()[getCommandParts().length - 1];
        String output = getLogs();
        device =
                DeviceReport.devices(output).stream()
                        .filter(found -> found.name().equals(name))
                        .findFirst()
                        .orElseThrow(
                                () ->
                                        new IllegalStateException(
                                                "No Soft-RoCE device could be made on this host (is there a module rdma_rxe?): "
                                                        + output.replace(DONE, "").strip()));
    }

    @Override
    protected void containerIsStopped(InspectContainerResponse info) {
        device = null;
    }

    private DeviceReport.Device started() {
        DeviceReport.Device now = device;
        if (now == null) {
            throw new IllegalStateException(
                    "This host was not started, or is stopped: start() first");
        }
        return now;
    }

    @Override
    public String device() {
        return started().name();
    }

    @Override
    public InetAddress address() {
        return started().address();
    }

    @Override
    public List<String> deviceFiles() {
        return started().files();
    }

    @Override
    public String networkMode() {
        started();
        return "container:" + getContainerId();
    }

    @Override
    public int mappedPort(int port) {
        return getMappedPort(port);
    }

    @Override
    public void close() {
        stop();
    }

    @Override
    public String toString() {
        DeviceReport.Device now = device;
        return now == null
                ? "SoftRoceHost, not running"
                : "SoftRoceHost %s %s".formatted(now.name(), now.address().getHostAddress());
    }
}
