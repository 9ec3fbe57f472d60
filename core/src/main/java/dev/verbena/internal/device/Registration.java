package dev.verbena.internal.device;

import dev.verbena.VerbenaException;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.RegistrationEvent;
import dev.verbena.internal.queue.Domain;
import dev.verbena.internal.queue.RegisteredMemory;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Pages;
import dev.verbena.internal.verbs.Rights;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.IntToLongFunction;
import java.util.stream.Stream;

/**
 * Registers memory with a device. If that fails, the exception says what to do about it.
 *
 * @param access the rights that the program asked for
 */
public record Registration(Device device, Domain domain, int access) {
    private static final String LOCKED = "Max locked memory";

    // ib_umem_get of the kernel: ib_access_writable includes MW_BIND; before Linux 6.2
    // (b40656aa7d55) all memory was pinned with FOLL_WRITE, read-only by FOLL_FORCE, which shared
    // mappings do not allow.
    private static final String READ_ONLY_PAGES =
            "Is it mapped, and may it be written to? What is mapped read-only (a read-only mapping of a file, PROT_READ) can be registered for reading only: as a segment that says so, asReadOnly(), with no right or REMOTE_READ, without WINDOWS. Linux before 6.2 registers no read-only mapping of a file: map it with MapMode.PRIVATE there. ";

    /** Registers memory of this process ({@code ibv_reg_mr}). */
    public RegisteredMemory ofMemory(MemorySegment memory) {
        checkUsable(memory);
        long bytes = memory.byteSize();
        int granted = access | implied(!memory.isReadOnly());
        long region =
                register(
                        bytes,
                        granted,
                        rights ->
                                device.control().registerMemory(domain.address(), memory, rights));
        if (region < 0) {
            throw new VerbenaException(
                    "ibv_reg_mr(%d bytes)".formatted(bytes),
                    (int) -region,
                    advice((int) -region, bytes));
        }
        return registered(memory, memory.address(), bytes, region, granted);
    }

    /**
     * Registers a part of a dma-buf: memory of another device, such as a GPU's, that a driver
     * exports ({@code ibv_reg_dmabuf_mr}).
     *
     * @param descriptor of the dma-buf
     * @param offset the first byte
     * @param iova the address of the first byte for requests and the peer
     */
    public RegisteredMemory ofDmaBuf(int descriptor, long offset, long bytes, long iova) {
        if (descriptor < 0 || offset < 0 || bytes < 1 || iova < 0 || iova + bytes < 0) {
            throw new IllegalArgumentException(
                    "A dma-buf is registered by a file descriptor and an offset of 0 or more, at least 1 byte, and an address of 0 or more for its first byte, not by %d, %d, %d bytes, %d"
                            .formatted(descriptor, offset, bytes, iova));
        }
        if ((offset & Pages.SIZE - 1) != (iova & Pages.SIZE - 1)) {
            throw new IllegalArgumentException(
                    "Offset %d and address 0x%x of a dma-buf must have the same offset within a page (pages have %d bytes): use the offset as the address"
                            .formatted(offset, iova, Pages.SIZE));
        }
        int granted = access | implied(true);
        long region =
                register(
                        bytes,
                        granted,
                        rights ->
                                device.control()
                                        .registerDmaBuf(
                                                domain.address(),
                                                descriptor,
                                                offset,
                                                bytes,
                                                iova,
                                                rights));
        if (region < 0) {
            throw new VerbenaException(
                    "ibv_reg_dmabuf_mr(descriptor %d, %,d bytes)".formatted(descriptor, bytes),
                    (int) -region,
                    adviceForDmaBuf((int) -region));
        }
        return registered(MemorySegment.NULL, iova, bytes, region, granted);
    }

    /** Returns the {@code ibv_mr}, or a negative errno. */
    private long register(long bytes, int granted, IntToLongFunction call) {
        if ((granted & Rights.ON_DEMAND) != 0) {
            device.checkPaging();
        }
        RegistrationEvent event = FlightRecording.on() ? RegistrationEvent.start() : null;
        long region = call.applyAsLong(granted);
        if ((region == -Errno.EOPNOTSUPP || region == -Errno.EINVAL)
                && (granted & Rights.OPTIONAL) != 0) {
            // Optional rights may be ignored, but rxe refused them in some kernels after 6.1.
            region = call.applyAsLong(granted & ~Rights.OPTIONAL);
        }
        if (event != null) {
            event.end(device.name(), bytes, granted, region > 0);
        }
        return region;
    }

    private RegisteredMemory registered(
            MemorySegment memory, long start, long bytes, long region, int granted) {
        try {
            return new RegisteredMemory(
                    domain,
                    memory,
                    start,
                    bytes,
                    region,
                    device.control().localKey(region),
                    (granted & Rights.LOCAL_WRITE) != 0,
                    (granted & Rights.BIND_WINDOWS) != 0);
        } catch (Throwable t) {
            device.control().deregisterMemory(region);
            throw t;
        }
    }

    /**
     * Rights that NDK has no flags for: binding windows, if the device has any, and atomics, if the
     * peer may both read and write. Not windows for a read-only segment: for them the kernel pins
     * memory as writable, which fails for a read-only mapping.
     */
    private int implied(boolean writable) {
        int both = Rights.REMOTE_READ | Rights.REMOTE_WRITE;
        return (writable && device.reported().invalidatableWindows() ? Rights.BIND_WINDOWS : 0)
                | (device.reported().atomics() && (access & both) == both
                        ? Rights.REMOTE_ATOMIC
                        : 0);
    }

    private static void checkUsable(MemorySegment memory) {
        if (!memory.isNative()) {
            throw new IllegalArgumentException(
                    "This memory segment is on the Java heap, where the garbage collector moves objects:"
                            + " RDMA needs native memory, as from Arena.ofShared().allocate(…) or"
                            + " FileChannel.map(…, arena)");
        }
        if (!memory.scope().isAlive()) {
            throw new IllegalStateException(
                    "This memory cannot be registered: its arena was closed");
        }
        if (!memory.isAccessibleBy(Thread.currentThread())) {
            throw new WrongThreadException(
                    "This memory is confined to another thread (Arena.ofConfined): register it there, or use Arena.ofShared()");
        }
        if (memory.byteSize() == 0) {
            throw new IllegalArgumentException(
                    "This memory segment has 0 bytes; register at least 1");
        }
    }

    /** How much memory this process may lock in total: its {@code memlock} limit. */
    public static long lockableBytes() {
        try (Stream<String> limits = Files.lines(Path.of("/proc/self/limits"))) {
            return limits.filter(line -> line.startsWith(LOCKED))
                    .map(line -> line.substring(LOCKED.length()).strip().split(" ")[0])
                    .filter(soft -> !soft.equals("unlimited"))
                    .map(Long::valueOf)
                    .findFirst()
                    .orElse(Long.MAX_VALUE);
        } catch (IOException | UncheckedIOException e) {
            return Long.MAX_VALUE;
        }
    }

    private String advice(int errno, long bytes) {
        String large = errno == Errno.ENOMEM ? device.provider().adviceForLargeRegion(bytes) : null;
        if (large != null) {
            return large;
        }
        if ((access & Rights.ON_DEMAND) != 0) {
            return "The memory was to be paged on demand: ordinary memory can be in most cases, huge pages and the memory of devices cannot everywhere. Without ON_DEMAND it is pinned instead.";
        }
        long lockable = lockableBytes();
        return "%sRegistered memory is locked memory, of which this process may have %s (ulimit -l; systemd LimitMEMLOCK=infinity; in a container --ulimit memlock=-1)."
                .formatted(
                        errno == Errno.EFAULT ? READ_ONLY_PAGES : "",
                        lockable == Long.MAX_VALUE
                                ? "any amount"
                                : "%,d bytes in all".formatted(lockable));
    }

    private String adviceForDmaBuf(int errno) {
        return switch (errno) {
            case Errno.EOPNOTSUPP, Errno.ENOSYS ->
                    "The provider %s, or its driver in this kernel, cannot register dma-bufs: copy through memory of ProtectionDomain.allocate instead."
                            .formatted(device.provider().name());
            case Errno.EBADF -> "The file descriptor is not open.";
            case Errno.EINVAL ->
                    "Is the file descriptor a dma-buf's, and are offset and length within it?";
            default ->
                    "The exporter of the dma-buf may not let this device have it: see its driver's messages (dmesg).";
        };
    }
}
