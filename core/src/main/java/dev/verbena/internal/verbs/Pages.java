package dev.verbena.internal.verbs;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * Memory in whole pages, straight from the kernel: {@code mmap(2)}, {@code munmap}, {@code
 * madvise}. It is zeroed, and no page exists before it is first touched, so each is placed on the
 * NUMA node of the thread that touches or registers it. Freed pages go back to the kernel: they
 * never become another object of this process, as {@code malloc}'s do.
 *
 * <p>Each method takes a multiple of {@link #SIZE} bytes, an alignment that is a power of two, and
 * addresses at a page's start. It returns an address or 0, or a negative errno. The constants are
 * the same on x86-64 and aarch64.
 */
@SuppressWarnings("restricted") // making downcalls is what this module asks native access for
public final class Pages {
    /** The size of an ordinary page. */
    public static final long SIZE = pageSize();

    private static final int PROT_READ_WRITE = 3;
    private static final int MAP_PRIVATE_ANONYMOUS = 0x22;
    private static final int MAP_HUGETLB = 0x4_0000;
    private static final int MADV_HUGEPAGE = 14;

    private static final NativeFunction MMAP = Libraries.c("mmap");
    private static final NativeFunction MUNMAP = Libraries.c("munmap");
    private static final NativeFunction MADVISE = Libraries.c("madvise");

    private Pages() {}

    private static long pageSize() {
        return Libraries.c("getpagesize").count();
    }

    /** Maps zeroed memory. */
    public static long map(long bytes, long alignment) {
        return mapAligned(bytes, alignment, SIZE, 0);
    }

    /**
     * Maps zeroed memory in huge pages that the administrator has reserved ({@code MAP_HUGETLB}): a
     * multiple of {@link #hugeSize}. Fails with ENOMEM when too few are free.
     */
    public static long mapHuge(long bytes, long alignment) {
        return mapAligned(bytes, alignment, hugeSize(), MAP_HUGETLB);
    }

    private static long mapAligned(long bytes, long alignment, long page, int flags) {
        if (alignment <= page) {
            return map(bytes, flags);
        }
        long address = map(bytes + alignment, flags);
        if (address < 0) {
            return address;
        }
        long start = address + alignment - 1 & -alignment;
        long behind = start + bytes;
        trim(address, start - address);
        trim(behind, address + bytes + alignment - behind);
        return start;
    }

    private static void trim(long address, long bytes) {
        if (bytes > 0) {
            unmap(address, bytes);
        }
    }

    private static long map(long bytes, int flags) {
        return MMAP.pointer(0, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS | flags, -1, 0);
    }

    /**
     * Asks for transparent huge pages: a hint, which does nothing where they are switched off.
     * Fails with EINVAL on a kernel without them.
     */
    public static int preferHuge(long address, long bytes) {
        return MADVISE.value(address, bytes, MADV_HUGEPAGE);
    }

    /** Frees memory. */
    public static int unmap(long address, long bytes) {
        return MUNMAP.value(address, bytes);
    }

    /**
     * Describes mapped memory as a segment. Closing the arena ends the access from Java, and does
     * not free the memory.
     */
    public static MemorySegment segment(long address, long bytes, Arena arena) {
        return MemorySegment.ofAddress(address).reinterpret(bytes, arena, null);
    }

    /** The size of a huge page of {@link #mapHuge}; 2 MiB where {@code /proc/meminfo} has none. */
    public static long hugeSize() {
        return kibibytes("Hugepagesize:", 2048) << 10;
    }

    /** How many huge pages are free for {@link #mapHuge}. */
    public static long hugeFree() {
        return kibibytes("HugePages_Free:", 0);
    }

    private static long kibibytes(String name, long otherwise) {
        try (Stream<String> lines = Files.lines(Path.of("/proc/meminfo"))) {
            return lines.filter(line -> line.startsWith(name))
                    .map(line -> line.substring(name.length()).replace("kB", "").strip())
                    .mapToLong(Long::parseLong)
                    .findFirst()
                    .orElse(otherwise);
        } catch (IOException | RuntimeException e) {
            return otherwise;
        }
    }
}
