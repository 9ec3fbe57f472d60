package dev.verbena;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/**
 * Explains why libibverbs lists no device. It omits devices whose file in /dev/infiniband is
 * missing, and devices for which it finds no provider.
 */
final class WithoutDevices {
    private static final Path KNOWN_TO_KERNEL = Path.of("/sys/class/infiniband");
    private static final Path FILES = Path.of("/dev/infiniband");

    private WithoutDevices() {}

    static String reason() {
        return reason(KNOWN_TO_KERNEL, FILES);
    }

    static String reason(Path knownToKernel, Path files) {
        List<String> known = entries(knownToKernel);
        if (known.isEmpty()) {
            return "the kernel has none here (a NIC without its driver, a kernel without RDMA, or devices that belong to another network namespace; for experiments, rdma_rxe makes one out of any network interface: rdma link add rxe0 type rxe netdev IFACE)";
        }
        return "the kernel has %s, but %s"
                .formatted(
                        String.join(", ", known),
                        entries(files).stream().anyMatch(file -> file.startsWith("uverbs"))
                                ? "libibverbs has no provider for what this process was given (Debian: apt install ibverbs-providers)"
                                : "this process was given none of their files /dev/infiniband/uverbs* (docker run --device /dev/infiniband/uverbs0 --device /dev/infiniband/rdma_cm; outside of containers: modprobe ib_uverbs)");
    }

    private static List<String> entries(Path folder) {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(entry -> entry.getFileName().toString()).sorted().toList();
        } catch (IOException | UncheckedIOException e) {
            return List
                    .of(); // no such directory: a kernel without RDMA, or a process without devices
        }
    }
}
