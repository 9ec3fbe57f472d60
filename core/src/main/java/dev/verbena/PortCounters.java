package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * The counters of a port: a snapshot from {@link Adapter#counters}, or the difference of two. Each
 * driver has counters of its own, so they are found by name:
 *
 * <ul>
 *   <li>Counters that the InfiniBand specification defines, such as {@code port_xmit_packets},
 *       {@code port_rcv_errors}, {@code link_downed}. {@code port_xmit_data} and {@code
 *       port_rcv_data} count units of four bytes. (Folder {@code counters} of the kernel.)
 *   <li>Counters of the driver: mlx5 has {@code out_of_sequence}, {@code packet_seq_err}, {@code
 *       rnr_nak_retry_err} and so on; Soft-RoCE has only this kind, such as {@code sent_pkts},
 *       {@code rcvd_pkts}, {@code retry_exceeded_err}. (Folder {@code hw_counters}; rdma-core's
 *       program: {@code rdma statistic}.)
 * </ul>
 *
 * <p>Counters that the device does not have are missing; all are missing if this process cannot
 * read {@code /sys}. They start at zero when the driver is loaded, and count the traffic of all
 * programs of the machine.
 *
 * <p>Snapshots are equal if they are of one port and have the same counters.
 *
 * @param device the device's name, as {@link Adapter#name}
 * @param port the port's number, from 1
 * @param nanoTime when the counters were read: {@link System#nanoTime}
 * @param elapsed the time between the two snapshots that {@link #since} compared; zero for a
 *     snapshot
 * @param values all counters: an immutable map, in alphabetic order; the values are unsigned 64-bit
 *     numbers
 */
@CheckReturnValue
public record PortCounters(
        String device, int port, long nanoTime, Duration elapsed, Map<String, Long> values) {
    /** Where the kernel has a folder for each device. */
    static final Path DEVICES = Path.of("/sys/class/infiniband");

    /** How often the driver reads the hardware's counters, in milliseconds; no counter itself. */
    private static final String LIFESPAN = "lifespan";

    /** Copies the counters. */
    public PortCounters {
        Arguments.notNull(device, "device");
        Arguments.notNull(elapsed, "elapsed");
        values = Collections.unmodifiableMap(new TreeMap<>(values));
    }

    /** Reads the counters; those that cannot be read are left out. */
    static PortCounters read(Path devices, String device, int port) {
        Path folder = devices.resolve(device).resolve("ports").resolve(Integer.toString(port));
        Map<String, Long> values = new TreeMap<>();
        long now = System.nanoTime();
        readFolder(folder.resolve("hw_counters"), values);
        readFolder(folder.resolve("counters"), values);
        return new PortCounters(device, port, now, Duration.ZERO, values);
    }

    private static void readFolder(Path folder, Map<String, Long> values) {
        try (Stream<Path> files = Files.list(folder)) {
            files.forEach(file -> readFile(file, values));
        } catch (IOException | UncheckedIOException e) {
            // Not all drivers have both folders, and containers may have no /sys.
        }
    }

    private static void readFile(Path file, Map<String, Long> values) {
        String name = file.getFileName().toString();
        if (name.equals(LIFESPAN)) {
            return;
        }
        try {
            values.put(name, Long.parseUnsignedLong(Files.readString(file).strip()));
        } catch (IOException | NumberFormatException e) {
            // The kernel knows the name and not the number: EINVAL, or the text "N/A (no PMA)".
        }
    }

    /**
     * One counter.
     *
     * @param name its name, as in {@link #values}
     * @return empty if the port does not have it
     */
    public OptionalLong value(String name) {
        Long value = values.get(name);
        return value == null ? OptionalLong.empty() : OptionalLong.of(value);
    }

    /**
     * The difference between this snapshot and an earlier one of the same port.
     *
     * @param earlier the earlier snapshot
     * @return the differences of the counters that both have, with the time between the two as
     *     {@link #elapsed}
     * @throws IllegalArgumentException for a snapshot of another port
     */
    public PortCounters since(PortCounters earlier) {
        if (!device.equals(earlier.device) || port != earlier.port) {
            throw new IllegalArgumentException(
                    "These are the counters of %s port %d, the earlier ones those of %s port %d"
                            .formatted(device, port, earlier.device, earlier.port));
        }
        Map<String, Long> differences = new TreeMap<>();
        values.forEach(
                (name, value) -> {
                    Long before = earlier.values.get(name);
                    if (before != null) {
                        differences.put(name, value - before);
                    }
                });
        return new PortCounters(
                device, port, nanoTime, Duration.ofNanos(nanoTime - earlier.nanoTime), differences);
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof PortCounters that
                && device.equals(that.device)
                && port == that.port
                && values.equals(that.values);
    }

    @Override
    public int hashCode() {
        return Objects.hash(device, port, values);
    }

    @Override
    public String toString() {
        return "%s port %d: %s".formatted(device, port, values);
    }
}
