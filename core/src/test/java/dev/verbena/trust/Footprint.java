package dev.verbena.trust;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * What this process has of the system.
 *
 * @param kibibytes of memory that is resident
 * @param heap KiB of the Java heap that objects take
 * @param locked KiB of memory that is pinned for devices
 * @param descriptors how many are open
 * @param threads of Java, without that which reaps processes: it goes after a minute
 */
public record Footprint(long kibibytes, long heap, long locked, int descriptors, int threads) {
    /** After a collection, which frees what objects of Java hold. */
    public static Footprint now() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return new Footprint(
                kibibytes("VmRSS:"),
                (runtime.totalMemory() - runtime.freeMemory()) >> 10,
                kibibytes("VmPin:"),
                count("/proc/self/fd"),
                liveThreads());
    }

    /** A line of what the kernel says of this process. */
    static long kibibytes(String name) {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            return lines.filter(line -> line.startsWith(name))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                    .sum();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** How many threads of Java there are, without that which reaps processes. */
    public static int liveThreads() {
        return (int)
                Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> !thread.getName().startsWith("process reaper"))
                        .count();
    }

    private static int count(String folder) {
        try (Stream<Path> files = Files.list(Path.of(folder))) {
            return (int) files.count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * What is here and was not before: each descriptor and thread counts, and pinned memory once.
     */
    public int leaks(Footprint before) {
        return Math.max(0, descriptors - before.descriptors)
                + Math.max(0, threads - before.threads)
                + (locked > before.locked ? 1 : 0);
    }

    /** The same, and memory and heap once each if they have grown by more than that. */
    public int leaks(Footprint before, long mostKibibytes, long mostHeap) {
        return leaks(before)
                + (kibibytes - before.kibibytes > mostKibibytes ? 1 : 0)
                + (heap - before.heap > mostHeap ? 1 : 0);
    }
}
