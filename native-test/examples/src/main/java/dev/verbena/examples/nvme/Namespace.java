package dev.verbena.examples.nvme;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.UUID;

/**
 * A disk: registered memory, from which and into which the device copies blocks. It is either
 * memory of its own, or a mapped file.
 *
 * <p><b>Files.</b> The kernel learns from the processor's page table which pages of a mapping have
 * changed, and a device's writes do not go through that. So {@link #written} touches each page that
 * a command has written, and the next {@link #flush} finds it. For the same reason kernels from 6.5
 * on refuse to register a writable mapping of a file on a disk; there the file has to be on a tmpfs
 * or on huge pages.
 */
final class Namespace implements AutoCloseable {
    static final int BLOCK_SHIFT = 9;
    static final int BLOCK_BYTES = 1 << BLOCK_SHIFT;
    private static final int PAGE_BYTES = 4096;
    private static final Access[] RIGHTS = {Access.LOCAL_WRITE, Access.RDMA_READ_SINK};

    private final MemoryRegion region;
    private final MemorySegment memory;
    private final Arena mapping; // of the file; null where there is none
    private final UUID id;

    private Namespace(MemoryRegion region, MemorySegment memory, Arena mapping, String name) {
        this.region = region;
        this.memory = memory;
        this.mapping = mapping;
        // Made of the name, to be the same after a restart: hosts that reconnect compare it.
        this.id = UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Makes a disk of zeros that is gone when it is closed.
     *
     * @param name no other disk has it, on this machine or another: hosts refuse one that they have
     */
    static Namespace inMemory(ProtectionDomain domain, long bytes, String name) {
        checkSize(bytes, name);
        MemoryRegion region = domain.allocate(bytes, RIGHTS);
        return new Namespace(region, region.memory(), null, name);
    }

    /** Makes a disk of a file, all of which is kept in memory from now on; its name is as above. */
    @SuppressWarnings("MustBeClosedChecker") // by close(), which has more to do before
    static Namespace ofFile(ProtectionDomain domain, Path file, String name) throws IOException {
        Arena arena = Arena.ofShared();
        try (FileChannel channel = open(file)) {
            checkSize(channel.size(), file.toString());
            MemorySegment mapped =
                    channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size(), arena);
            return new Namespace(domain.register(mapped, RIGHTS), mapped, arena, name);
        } catch (Throwable t) {
            arena.close();
            throw t;
        }
    }

    /** Throws if a file cannot be a disk: it is absent, may not be written, or has a wrong size. */
    static void check(Path file) throws IOException {
        try (FileChannel channel = open(file)) {
            checkSize(channel.size(), file.toString());
        }
    }

    private static FileChannel open(Path file) throws IOException {
        return FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    /** For tests without a device: nothing can be sent from it. */
    static Namespace withoutDevice(MemorySegment memory, String name) {
        return new Namespace(null, memory, null, name);
    }

    /** For such tests, of a file. */
    static Namespace mappedWithoutDevice(MemorySegment mapped, Arena mapping, String name) {
        return new Namespace(null, mapped, mapping, name);
    }

    private static void checkSize(long bytes, String name) {
        if (bytes < BLOCK_BYTES || bytes % BLOCK_BYTES != 0) {
            throw new IllegalArgumentException(
                    "%s has %,d bytes; a disk has a multiple of %d"
                            .formatted(name, bytes, BLOCK_BYTES));
        }
    }

    MemorySegment memory() {
        return memory;
    }

    MemoryRegion region() {
        return region;
    }

    long blocks() {
        return memory.byteSize() >> BLOCK_SHIFT;
    }

    /** An identifier that no other disk has (NGUID). */
    UUID id() {
        return id;
    }

    /** Whether all of a range of blocks exists. */
    boolean contains(long first, long count) {
        return first >= 0 && count <= blocks() && first <= blocks() - count;
    }

    /**
     * Marks pages as changed after the device has written them. To be called before the command is
     * answered, as the host writes nothing else to these bytes until then.
     */
    void written(long offset, long length) {
        if (isVolatile()) {
            for (long at = offset; at < offset + length; at = (at | PAGE_BYTES - 1) + 1) {
                memory.set(ValueLayout.JAVA_BYTE, at, memory.get(ValueLayout.JAVA_BYTE, at));
            }
        }
    }

    void zero(long offset, long length) {
        memory.asSlice(offset, length).fill((byte) 0);
    }

    /** Writes what has changed back into the file. May take long. */
    void flush() {
        if (isVolatile()) {
            memory.force();
        }
    }

    /** Whether there is something to flush. */
    boolean isVolatile() {
        return mapping != null;
    }

    /** Flushes it and frees its memory. No queue may use it any more. */
    @Override
    public void close() {
        flush();
        region.close();
        try {
            region.awaitClosed(Duration.ofSeconds(10));
        } finally {
            if (mapping != null) {
                mapping.close();
            }
        }
    }
}
