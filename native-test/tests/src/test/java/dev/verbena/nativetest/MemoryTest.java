package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.BufferPool;
import dev.verbena.BufferPoolOptions;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OnDemandPaging;
import dev.verbena.OpFlags;
import dev.verbena.PooledBuffer;
import dev.verbena.Prefetch;
import dev.verbena.QueuePairLimits;
import dev.verbena.RegisteredArena;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** Memory of each kind, with a kernel that pins it and a device that reads and writes it. */
@NeedsDevices
@Timeout(240)
class MemoryTest {
    private static final Pattern PID = Pattern.compile(" pid (\\d+)");
    private static final Access[] ALL = {Access.REMOTE_READ, Access.REMOTE_WRITE};
    private static final int MEBIBYTE = 1 << 20;

    private static Pair pair() {
        return new Pair(QueuePairLimits.depths(16, 16)).connect();
    }

    private static void write(Pair pair, MemoryRegion source, RemoteMemory target) {
        pair.left.queuePair.write(1, whole(source), target, 0, OpFlags.NONE).orThrow();
        assertThat(pair.left.ends(1)).containsExactly("WRITE 1 SUCCESS");
    }

    @Test
    void allocatedMemoryArenasAndPoolsCarryData() throws InterruptedException {
        try (Pair pair = pair();
                MemoryRegion source = pair.left.domain.allocate(5000, ALL);
                RegisteredArena arena = pair.right.domain.createArena(ALL);
                BufferPool pool =
                        pair.right.domain.createBufferPool(BufferPoolOptions.of(2, 5000), ALL)) {
            Pair.fill(source.memory(), 3);
            MemorySegment segment = arena.allocate(5000);
            write(pair, source, arena.remoteMemory(segment));
            assertThat(segment.mismatch(source.memory())).isEqualTo(-1);

            MemorySegment part = arena.allocate(6000).asSlice(1000);
            pair.right.queuePair.receive(2, new BufferList(1, arena).add(part)).orThrow();
            pair.left.queuePair.send(3, BufferList.of(source)).orThrow();
            assertThat(pair.right.ends(1)).containsExactly("RECEIVE 2 SUCCESS");
            assertThat(pair.left.ends(1)).containsExactly("SEND 3 SUCCESS");
            assertThat(part.mismatch(source.memory())).isEqualTo(-1);

            PooledBuffer buffer = pool.take(Duration.ZERO);
            pair.right
                    .queuePair
                    .read(4, buffer.buffers(), source.remoteMemory(), 0, OpFlags.NONE)
                    .orThrow();
            assertThat(pair.right.ends(1)).containsExactly("READ 4 SUCCESS");
            assertThat(buffer.memory().mismatch(source.memory())).isEqualTo(-1);
            buffer.giveBack();
        }
    }

    @Test
    void memoryIsPagedOnDemandOrRefusedInWords() {
        try (Pair pair = pair()) {
            OnDemandPaging paging = pair.right.adapter.info().onDemandPaging();
            System.err.println("On demand: " + paging);
            if (!paging.supported()) {
                assertThatThrownBy(
                                () ->
                                        pair.right.domain.allocate(
                                                4096, Access.REMOTE_WRITE, Access.ON_DEMAND))
                        .isInstanceOfSatisfying(
                                VerbenaException.class,
                                e -> assertThat(e.status()).isEqualTo(Status.NOT_SUPPORTED))
                        .hasMessageContaining("no on-demand paging");
                return;
            }
            long bytes = 64L << 20;
            long before = lockedOrPinned();
            try (MemoryRegion target =
                            pair.right.domain.allocate(
                                    bytes,
                                    Access.REMOTE_READ,
                                    Access.REMOTE_WRITE,
                                    Access.ON_DEMAND);
                    MemoryRegion source = pair.left.domain.allocate(9000, ALL)) {
                assertThat(lockedOrPinned() - before).isLessThan(bytes / 2);
                Pair.fill(source.memory(), 5);
                prefetch(target, 4096, 9000, Prefetch.WRITE);
                boolean soft = RdmaDevices.isSoftRoce(pair.right.adapter.name());
                if (soft) {
                    sayWhereBytesOfAPageArrive(pair, source, target);
                }
                // Seen on Linux 7.3.4: rxe (__rxe_odp_mr_copy) leaves out the offset in the page,
                // so each packet arrives at a page's start. There one packet, to a page's start.
                long length = soft ? 512 : 9000;
                for (long at : new long[] {8192, bytes - (soft ? 4096 : 9000), soft ? 0 : 12345}) {
                    if (!paging.writes()) {
                        break;
                    }
                    BufferList part = new BufferList(1).add(source, 0, length);
                    pair.left
                            .queuePair
                            .write(1, part, target.remoteMemory(), at, OpFlags.NONE)
                            .orThrow();
                    assertThat(pair.left.ends(1)).containsExactly("WRITE 1 SUCCESS");
                    MemorySegment there = target.memory().asSlice(at, length);
                    assertThat(there.mismatch(source.memory().asSlice(0, length))).isEqualTo(-1);
                }
                if (paging.reads()) {
                    MemorySegment here = source.memory().asSlice(0, length);
                    here.fill((byte) 0);
                    BufferList part = new BufferList(1).add(source, 0, length);
                    pair.left
                            .queuePair
                            .read(2, part, target.remoteMemory(), 8192, OpFlags.NONE)
                            .orThrow();
                    assertThat(pair.left.ends(1)).containsExactly("READ 2 SUCCESS");
                    assertThat(here.mismatch(target.memory().asSlice(8192, length))).isEqualTo(-1);
                }
                prefetch(target, 0, 1 << 16, Prefetch.READ);
                prefetch(target, 0, 1 << 16, Prefetch.PRESENT);
            }
        }
    }

    /** Not a check: what is printed decides whether the detour above is still needed. */
    private static void sayWhereBytesOfAPageArrive(
            Pair pair, MemoryRegion source, MemoryRegion target) {
        BufferList eight = new BufferList(1).add(source, 0, 8);
        pair.left.queuePair.write(1, eight, target.remoteMemory(), 100, OpFlags.NONE).orThrow();
        assertThat(pair.left.ends(1)).containsExactly("WRITE 1 SUCCESS");
        MemorySegment page = target.memory().asSlice(0, 4096);
        for (long at = 0; at <= 4088; at++) {
            if (page.asSlice(at, 8).mismatch(source.memory().asSlice(0, 8)) == -1) {
                System.err.println("On demand: 8 bytes for offset 100 arrived at " + at);
            }
        }
    }

    private static void prefetch(MemoryRegion region, long offset, long length, Prefetch purpose) {
        try {
            region.prefetch(offset, length, purpose);
            System.err.println("Prefetch " + purpose + ": done");
        } catch (VerbenaException e) {
            System.err.println("Prefetch " + purpose + ": " + e.getMessage());
            assertThat(e.status()).isEqualTo(Status.NOT_SUPPORTED);
        }
    }

    private static long lockedOrPinned() {
        return status("VmPin") + status("VmLck");
    }

    /** A line of /proc/self/status, in bytes. */
    private static long status(String name) {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            return lines.filter(line -> line.startsWith(name + ":"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) << 10)
                    .findFirst()
                    .orElseThrow();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void relaxedOrderingIsTakenOrIgnored() {
        try (Pair pair = pair();
                MemoryRegion source = pair.left.domain.allocate(9000, ALL);
                MemoryRegion target =
                        pair.right.domain.allocate(
                                9000, Access.REMOTE_WRITE, Access.RELAXED_ORDERING)) {
            Pair.fill(source.memory(), 7);
            write(pair, source, target.remoteMemory());
            assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
        }
    }

    @Test
    void whereThereAreNoDmaBufsOneSentenceSaysSo() {
        try (Pair pair = pair()) {
            boolean soft = RdmaDevices.isSoftRoce(pair.left.adapter.name());
            assertThatThrownBy(() -> pair.left.domain.registerDmaBuf(0, 0, 4096, 0, ALL))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("ibv_reg_dmabuf_mr(descriptor 0, 4,096 bytes)")
                    .hasMessageContaining(soft ? "rxe" : "dma-buf")
                    .hasMessageContaining(soft ? "cannot register dma-bufs" : "");
        }
    }

    /**
     * 64 MiB; {@code -Dverbena.file.mebibytes=1024} for the largest region that Soft-RoCE of newer
     * kernels registers.
     */
    @Test
    void aLargeReadOnlyMappingIsSentWithoutACopy(@TempDir Path folder) throws IOException {
        long bytes = Long.getLong("verbena.file.mebibytes", 64) * MEBIBYTE;
        Path file = folder.resolve("sparse");
        try (FileChannel channel =
                        FileChannel.open(
                                file,
                                StandardOpenOption.CREATE_NEW,
                                StandardOpenOption.SPARSE,
                                StandardOpenOption.READ,
                                StandardOpenOption.WRITE);
                Arena arena = Arena.ofShared();
                Pair pair = pair();
                MemoryRegion target = pair.right.domain.allocate(MEBIBYTE, ALL)) {
            MemorySegment written = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
            for (long at = 0; at < bytes; at += MEBIBYTE) {
                written.set(JAVA_LONG, at + MEBIBYTE - Long.BYTES, at + 1);
            }
            // Linux before 6.2 registers no read-only mapping of a file.
            FileChannel.MapMode mode =
                    OperationsTest.kernelIsAtLeast(6, 2)
                            ? FileChannel.MapMode.READ_ONLY
                            : FileChannel.MapMode.READ_WRITE;
            long own = status("RssAnon");
            long start = System.nanoTime();
            try (MemoryRegion source =
                    pair.left.domain.register(channel.map(mode, 0, bytes, arena))) {
                BufferList part = new BufferList(1);
                for (long at = 0; at < bytes; at += MEBIBYTE) {
                    part.clear().add(source, at, MEBIBYTE);
                    pair.left
                            .queuePair
                            .write(at, part, target.remoteMemory(), 0, OpFlags.NONE)
                            .orThrow();
                    assertThat(pair.left.completion().status(0)).isEqualTo(Status.SUCCESS);
                    assertThat(target.memory().get(JAVA_LONG, MEBIBYTE - Long.BYTES))
                            .isEqualTo(at + 1);
                }
                assertThat(status("RssAnon") - own).as("copied bytes").isLessThan(bytes / 2);
            }
            System.err.printf(
                    "%d MiB from a mapping, %s: %d ms%n",
                    bytes >> 20, mode, (System.nanoTime() - start) / 1_000_000);
        }
    }

    /** The peer has the token and the address, and goes on writing. */
    @Test
    void memoryThatWasFreedIsNobodysForThePeer() throws InterruptedException {
        for (String kind : List.of("region", "arena", "pool")) {
            for (int round = 0; round < 4; round++) {
                try (Pair pair = pair();
                        MemoryRegion source = pair.left.domain.allocate(4096, ALL)) {
                    source.memory().fill((byte) 0x55);
                    writeWhileItIsClosed(pair, kind, source, round);
                }
            }
        }
    }

    private static void writeWhileItIsClosed(Pair pair, String kind, MemoryRegion source, int round)
            throws InterruptedException {
        RemoteMemory target;
        List<AutoCloseable> owners;
        switch (kind) {
            case "region" -> {
                MemoryRegion region = pair.right.domain.allocate(4096, ALL);
                target = region.remoteMemory();
                owners = List.of(region);
            }
            case "arena" -> {
                RegisteredArena arena = pair.right.domain.createArena(ALL);
                target = arena.remoteMemory(arena.allocate(4096));
                owners = List.of(arena);
            }
            default -> {
                BufferPool pool =
                        pair.right.domain.createBufferPool(
                                BufferPoolOptions.of(1, 4096).withTracking(round % 2 == 0), ALL);
                PooledBuffer buffer = pool.take(Duration.ZERO);
                target = buffer.remoteMemory();
                owners = round % 4 < 2 ? List.of(pool, buffer) : List.of(buffer, pool);
            }
        }
        for (int i = 0; i < 12; i++) { // outstanding while it is closed
            pair.left.queuePair.write(i, whole(source), target, 0, OpFlags.NONE).orThrow();
        }
        for (AutoCloseable owner : owners) {
            close(owner);
        }
        // What comes next at these addresses is another's.
        try (Arena arena = Arena.ofConfined();
                MemoryRegion next = pair.right.domain.allocate(4096, ALL);
                RegisteredArena nextArena = pair.right.domain.createArena(ALL)) {
            List<MemorySegment> bystanders =
                    List.of(arena.allocate(4096), next.memory(), nextArena.allocate(4096));
            Status late =
                    pair.left.queuePair.write(99, whole(source), target, 0, OpFlags.NONE).status();
            List<String> ends = pair.left.ends(late == Status.SUCCESS ? 13 : 12);
            assertThat(ends.getLast()).as(kind).doesNotContain("SUCCESS");
            for (MemorySegment bystander : bystanders) {
                assertThat(bystander.toArray(JAVA_BYTE)).as(kind).containsOnly(0);
            }
        }
    }

    private static void close(AutoCloseable owner) {
        try {
            owner.close();
        } catch (Exception e) {
            throw new AssertionError("closing " + owner, e);
        }
    }

    @Test
    void nothingGrowsWithCycles() throws InterruptedException {
        int cycles = Integer.getInteger("verbena.pool.cycles", 10_000);
        try (Pair pair = pair();
                MemoryRegion target = pair.right.domain.allocate(4096, ALL);
                BufferPool pool =
                        pair.left.domain.createBufferPool(BufferPoolOptions.of(16, 64), ALL)) {
            cycle(pair, pool, target, cycles / 10);
            long regions = regions();
            assertThat(regions).as("what rdma resource show has found").isNotZero();
            long resident = status("RssAnon");
            cycle(pair, pool, target, cycles);
            assertThat(regions()).isEqualTo(regions);
            allocateAndClose(pair, 200);
            long again = status("RssAnon");
            allocateAndClose(pair, 2000); // 2 GiB in all
            assertThat(regions()).isEqualTo(regions);
            System.err.printf(
                    "RssAnon %,d, after %d pool cycles %,d, after 2000 allocations %,d%n",
                    resident, cycles, again, status("RssAnon"));
            assertThat(again - resident).as("bytes").isLessThan(64L << 20); // a heap that warms up
            assertThat(status("RssAnon") - again).as("bytes").isLessThan(64L << 20);
        }
    }

    private static void cycle(Pair pair, BufferPool pool, MemoryRegion target, int cycles)
            throws InterruptedException {
        Completions completions = new Completions(16);
        for (int i = 0; i < cycles; i++) {
            PooledBuffer buffer = pool.take(Duration.ZERO);
            pair.left
                    .queuePair
                    .write(buffer.index(), buffer.buffers(), target.remoteMemory(), 0, OpFlags.NONE)
                    .orThrow();
            while (pair.left.completionQueue.poll(completions) == 0) {
                Thread.onSpinWait();
            }
            pool.buffer((int) completions.context(0)).giveBack();
        }
    }

    private static void allocateAndClose(Pair pair, int times) {
        for (int i = 0; i < times; i++) {
            try (MemoryRegion region = pair.left.domain.allocate(MEBIBYTE, ALL)) {
                region.memory().set(JAVA_BYTE, i, (byte) 1);
            }
        }
    }

    /** How many regions this process has, as the kernel counts them; -1 if it cannot be asked. */
    private static long regions() {
        try {
            Process rdma =
                    new ProcessBuilder("rdma", "resource", "show", "mr")
                            .redirectErrorStream(true)
                            .start();
            try (Stream<String> lines = rdma.inputReader().lines()) {
                return lines.map(PID::matcher)
                        .filter(Matcher::find)
                        // The kernel notes the thread that has registered.
                        .filter(pid -> Files.exists(Path.of("/proc/self/task", pid.group(1))))
                        .count();
            }
        } catch (IOException e) {
            return -1; // no iproute2 here
        }
    }

    @Test
    void aSlabOrAPoolsRegionIsNotClosedAlone() throws InterruptedException {
        try (Pair pair = pair();
                RegisteredArena arena = pair.left.domain.createArena(ALL);
                BufferPool pool =
                        pair.left.domain.createBufferPool(BufferPoolOptions.of(1, 64), ALL)) {
            MemoryRegion slab = arena.regionOf(arena.allocate(8));
            assertThatIllegalStateException().isThrownBy(slab::close);
            try (PooledBuffer buffer = pool.take(Duration.ZERO)) {
                assertThatIllegalStateException().isThrownBy(() -> buffer.region().close());
            }
        }
    }
}
