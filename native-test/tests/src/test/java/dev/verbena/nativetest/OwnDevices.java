package dev.verbena.nativetest;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.opentest4j.TestAbortedException;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Two Soft-RoCE devices of a test's own, flap0 and flap1, on a veth pair of their own: to take
 * their links down and to delete them, which no other test notices. Beside them is an interface
 * without a device. Needs to be root.
 */
final class OwnDevices implements AutoCloseable {
    static final String FIRST = "flap0";
    static final String SECOND = "flap1";
    static final List<String> NAMES = List.of(FIRST, SECOND);
    static final String FIRST_LINK = "vflap0";
    static final String FIRST_ADDRESS = "198.19.77.1";
    static final String SECOND_ADDRESS = "198.19.77.2";

    /** An interface without a device, its address, and those of neighbours that never answer. */
    static final String BARE_LINK = "vbare0";

    static final String BARE_ADDRESS = "198.19.80.1";
    static final String BARE_NEIGHBOUR = "198.19.80.5";
    static final String NEIGHBOUR = "198.19.77.50"; // of the first

    private static final int SECONDS = 60;

    OwnDevices() {
        if (!Files.isWritable(Path.of("/proc/sys/net/ipv4/ip_forward"))) {
            throw new TestAbortedException("making network interfaces takes root");
        }
        if (RdmaDevices.active().stream().noneMatch(RdmaDevices::isSoftRoce)) {
            throw new TestAbortedException("there is no Soft-RoCE here");
        }
        removeAll();
        run(
                """
                set -e
                ip link add vflap0 type veth peer name vflap1
                ip link add vbare0 type veth peer name vbare1
                for link in vflap0 vflap1; do
                    echo 1 >/proc/sys/net/ipv4/conf/$link/accept_local
                    echo 0 >/proc/sys/net/ipv4/conf/$link/rp_filter
                    echo 0 >/proc/sys/net/ipv6/conf/$link/accept_dad
                done
                ip address add 198.19.77.1/24 dev vflap0
                ip address add 198.19.77.2/24 dev vflap1
                ip address add 198.19.80.1/24 dev vbare0
                for link in vflap0 vflap1 vbare0 vbare1; do ip link set $link up; done
                ip neighbour replace 198.19.77.50 lladdr 02:00:00:00:00:50 dev vflap0
                ip neighbour replace 198.19.80.5 lladdr 02:00:00:00:00:05 dev vbare0
                rdma link add flap0 type rxe netdev vflap0
                rdma link add flap1 type rxe netdev vflap1
                """);
    }

    private static void removeAll() {
        run(
                """
                for device in flap0 flap1; do
                    [ ! -e /sys/class/infiniband/$device ] || rdma link delete $device
                done
                for link in vflap0 vbare0; do
                    [ ! -e /sys/class/net/$link ] || ip link delete $link
                done
                """);
    }

    /** Runs a shell script and waits for its end. */
    static void run(String script) {
        Process shell = start(script);
        try {
            if (!shell.waitFor(SECONDS, TimeUnit.SECONDS)) {
                throw new AssertionError("still running after %d s: %s".formatted(SECONDS, script));
            }
            String output = new String(shell.getInputStream().readAllBytes(), UTF_8);
            if (shell.exitValue() != 0) {
                throw new AssertionError("%s%nprinted %s".formatted(script, output));
            }
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        } finally {
            shell.destroyForcibly();
        }
    }

    /** Starts a shell script. */
    static Process start(String script) {
        try {
            return new ProcessBuilder("sh", "-c", script).redirectErrorStream(true).start();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void close() {
        removeAll();
    }
}
