package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.fill;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.Access;
import dev.verbena.AdapterInfo;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.SharedReceiveQueue;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Each operation with its data, over a real device. */
@NeedsDevices
@Timeout(120)
class OperationsTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(16, 16).withBuffers(2, 1);

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 4097, 100_000})
    void writeAndRead(int bytes) {
        try (Pair pair = new Pair(LIMITS).connect()) {
            MemoryRegion source = pair.left.filled(bytes + 8L, 1);
            MemoryRegion target = pair.right.filled(bytes + 100L, 2);
            MemoryRegion back = pair.left.filled(bytes + 8L, 3);
            long at = target.memory().address() + 50; // the handed-out address plus an offset
            BufferList two =
                    new BufferList(2)
                            .add(source, 0, bytes / 3)
                            .add(source, bytes / 3, bytes - bytes / 3);
            pair.left.queuePair.write(1, two, at, target.remoteToken(), OpFlags.NONE).orThrow();
            pair.left
                    .queuePair
                    .read(
                            2,
                            new BufferList(1).add(back, 4, bytes),
                            at,
                            target.remoteToken(),
                            OpFlags.RDMA_READ_LOCAL_INVALIDATE)
                    .orThrow();
            assertThat(pair.left.ends(2)).containsExactly("WRITE 1 SUCCESS", "READ 2 SUCCESS");
            assertThat(
                            target.memory()
                                    .asSlice(50, bytes)
                                    .mismatch(source.memory().asSlice(0, bytes)))
                    .isEqualTo(-1);
            assertThat(back.memory().asSlice(4, bytes).mismatch(source.memory().asSlice(0, bytes)))
                    .isEqualTo(-1);
            assertThat(pair.right.endsNow()).isEmpty(); // the peer gets a completion of neither
        }
    }

    @Test
    void aFencedSendCarriesWhatTheReadBeforeItBrought() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            MemoryRegion remote = pair.right.filled(65_536, 1);
            MemoryRegion inbox = pair.right.filled(65_536, 2);
            MemoryRegion local = pair.left.filled(65_536, 3);
            pair.right.queuePair.receive(1, whole(inbox)).orThrow();
            pair.left
                    .queuePair
                    .read(
                            2,
                            whole(local),
                            remote.memory().address(),
                            remote.remoteToken(),
                            OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER))
                    .orThrow();
            pair.left.queuePair.send(3, whole(local), OpFlags.READ_FENCE).orThrow();
            assertThat(pair.right.ends(1)).containsExactly("RECEIVE 1 SUCCESS");
            assertThat(inbox.memory().mismatch(remote.memory())).isEqualTo(-1);
        }
    }

    @Test
    void immediateDataComesWithSendsAndWrites() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            assumeTrue(pair.left.adapter.info().immediateData(), "SKIPPED: no immediate data");
            MemoryRegion source = pair.left.filled(32, 1);
            MemoryRegion inbox = pair.right.filled(64, 2);
            MemoryRegion target = pair.right.filled(64, 3);
            pair.right.queuePair.receive(1, whole(inbox)).orThrow();
            pair.right.queuePair.receive(2, new BufferList(1)).orThrow();
            pair.left
                    .queuePair
                    .sendWithImmediate(3, whole(source), 0x8123_4567, OpFlags.NONE)
                    .orThrow();
            pair.left
                    .queuePair
                    .writeWithImmediate(
                            4,
                            whole(source),
                            target.memory().address() + 8,
                            target.remoteToken(),
                            -2,
                            OpFlags.SEND_AND_SOLICIT_EVENT)
                    .orThrow();
            Completions received = pair.right.completion();
            assertThat(received.type(0)).isEqualTo(OperationType.RECEIVE);
            assertThat(received.hasImmediate(0)).isTrue();
            assertThat(received.immediate(0)).isEqualTo(0x8123_4567);
            assertThat(received.bytes(0)).isEqualTo(32);
            received = pair.right.completion();
            assertThat(received.type(0)).isEqualTo(OperationType.RECEIVE_OF_WRITE);
            assertThat(received.immediate(0)).isEqualTo(-2);
            assertThat(received.bytes(0)).isEqualTo(32);
            assertThat(target.memory().asSlice(8, 32).mismatch(source.memory())).isEqualTo(-1);
            assertThat(pair.left.ends(2)).containsExactly("SEND 3 SUCCESS", "WRITE 4 SUCCESS");
        }
    }

    @Test
    void atomicsChangeTheTargetAndBringWhatWasThere() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            assumeTrue(pair.left.adapter.info().atomics(), "SKIPPED: no atomics");
            MemoryRegion target = pair.right.filled(16, 0);
            MemoryRegion old = pair.left.filled(8, 0);
            target.memory().set(ValueLayout.JAVA_LONG, 8, 40);
            long at = target.memory().address() + 8;
            int token = target.remoteToken();
            pair.left.queuePair.fetchAndAdd(1, whole(old), at, token, 2, OpFlags.NONE).orThrow();
            assertThat(pair.left.ends(1)).containsExactly("FETCH_AND_ADD 1 SUCCESS");
            assertThat(old.memory().get(ValueLayout.JAVA_LONG, 0)).isEqualTo(40);
            pair.left
                    .queuePair
                    .compareAndSwap(2, whole(old), at, token, 41, 7, OpFlags.NONE)
                    .orThrow();
            assertThat(pair.left.ends(1)).containsExactly("COMPARE_AND_SWAP 2 SUCCESS");
            assertThat(old.memory().get(ValueLayout.JAVA_LONG, 0)).isEqualTo(42);
            assertThat(target.memory().get(ValueLayout.JAVA_LONG, 8)).isEqualTo(42);
            pair.left
                    .queuePair
                    .compareAndSwap(3, whole(old), at, token, 42, -7, OpFlags.NONE)
                    .orThrow();
            assertThat(pair.left.ends(1)).containsExactly("COMPARE_AND_SWAP 3 SUCCESS");
            assertThat(target.memory().get(ValueLayout.JAVA_LONG, 8)).isEqualTo(-7);
        }
    }

    @Test
    void aPeerThatLetsNoReadsInIsNotRead() {
        try (Pair pair = new Pair(QueuePairLimits.depths(4, 4).withReads(0, 4)).connect()) {
            MemoryRegion target = pair.right.filled(8, 0);
            MemoryRegion sink = pair.left.filled(8, 0);
            assertThat(
                            pair.left
                                    .queuePair
                                    .read(
                                            1,
                                            whole(sink),
                                            target.memory().address(),
                                            target.remoteToken(),
                                            OpFlags.NONE)
                                    .status())
                    .isEqualTo(Status.NOT_SUPPORTED);
            pair.left
                    .queuePair
                    .write(
                            2,
                            whole(sink),
                            target.memory().address(),
                            target.remoteToken(),
                            OpFlags.NONE)
                    .orThrow();
            assertThat(pair.left.ends(1)).containsExactly("WRITE 2 SUCCESS");
        }
    }

    @Test
    void receivesAreSharedAndRunLow() throws InterruptedException {
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        try (Pair pair = new Pair(LIMITS)) {
            assumeTrue(
                    pair.right.adapter.info().maxSharedReceiveDepth() > 0,
                    "SKIPPED: no shared receive queues");
            Pair.Side right = pair.right;
            SharedReceiveQueue shared = right.domain.createSharedReceiveQueue(8, 1, called::add);
            shared.notifyBelow(2);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
            MemoryRegion inbox = right.memory(8 * 8);
            for (int i = 0; i < 8; i++) {
                shared.receive(i, new BufferList(1).add(inbox, i * 8L, 8)).orThrow();
            }
            assertThat(shared.receive(8, new BufferList(1).add(inbox, 0, 8)).status())
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            shared.notifyBelow(6);
            QueuePair first =
                    right.domain.createQueuePair(
                            right.completionQueue, right.completionQueue, shared, LIMITS);
            QueuePair second =
                    right.domain.createQueuePair(
                            right.completionQueue, right.completionQueue, shared, LIMITS);
            try (QueuePair toSecond =
                    pair.left.domain.createQueuePair(
                            pair.left.completionQueue, pair.left.completionQueue, LIMITS)) {
                pair.left.queuePair.connect(first.address());
                first.connect(pair.left.queuePair.address());
                toSecond.connect(second.address());
                second.connect(toSecond.address());
                MemoryRegion source = pair.left.filled(8, 1);
                for (int i = 0; i < 3; i++) {
                    toSecond.send(10, new BufferList(1).add(source, 0, 5)).orThrow();
                    Completions received = right.completion();
                    assertThat(received.queuePair(0)).isSameAs(second);
                    assertThat(received.bytes(0)).isEqualTo(5);
                    assertThat(received.context(0)).isEqualTo(i);
                }
                assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
                pair.left.queuePair.send(11, whole(source)).orThrow();
                Completions received = right.completion();
                assertThat(received.queuePair(0)).isSameAs(first);
                assertThat(received.context(0)).isEqualTo(3);
                assertThat(shared.outstanding()).isEqualTo(4);
                assertThat(called).isEmpty();
                first.flush(); // leaves the shared receives alone
                assertThat(right.endsNow()).isEmpty();
            }
            first.close();
            second.close();
            shared.close();
        }
    }

    @Test
    void anEmptySharedQueueKeepsItsPeersWaiting() {
        try (Pair pair = new Pair(LIMITS)) {
            assumeTrue(
                    pair.right.adapter.info().maxSharedReceiveDepth() > 0,
                    "SKIPPED: no shared receive queues");
            Pair.Side right = pair.right;
            SharedReceiveQueue shared = right.domain.createSharedReceiveQueue(2, 1, status -> {});
            try (QueuePair receiver =
                    right.domain.createQueuePair(
                            right.completionQueue, right.completionQueue, shared, LIMITS)) {
                pair.left.queuePair.connect(receiver.address());
                receiver.connect(pair.left.queuePair.address());
                pair.left.queuePair.send(1, new BufferList(1)).orThrow();
                pair.left.completionQueue.arm(NotifyType.ANY);
                // On a NIC it would wait for ever; Soft-RoCE ends it after 4 s.
                assertThat(pair.left.completionQueue.await(Duration.ofSeconds(2)))
                        .isEqualTo(Status.IO_TIMEOUT);
                shared.receive(2, whole(right.memory(8))).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("SEND 1 SUCCESS");
                assertThat(right.ends(1)).containsExactly("RECEIVE 2 SUCCESS");
            }
            shared.close();
        }
    }

    @Test
    void aSharedReceiveQueueIsResizedWithReceivesInIt() {
        try (Pair pair = new Pair(LIMITS)) {
            assumeTrue(
                    pair.right.adapter.info().sharedReceiveResize(),
                    "SKIPPED: no resizing of shared receive queues");
            Pair.Side right = pair.right;
            SharedReceiveQueue shared = right.domain.createSharedReceiveQueue(2, 1, status -> {});
            try (QueuePair receiver =
                    right.domain.createQueuePair(
                            right.completionQueue, right.completionQueue, shared, LIMITS)) {
                pair.left.queuePair.connect(receiver.address());
                receiver.connect(pair.left.queuePair.address());
                BufferList inbox = whole(right.memory(8));
                shared.receive(0, inbox).orThrow();
                shared.receive(1, inbox).orThrow();
                shared.resize(40);
                for (int i = 2; i < 40; i++) {
                    shared.receive(i, inbox).orThrow();
                }
                assertThat(shared.receive(40, inbox).status()).isEqualTo(Status.NO_MORE_ENTRIES);
                for (int i = 0; i < 40; i++) {
                    if (i == 30) {
                        shared.resize(10);
                    }
                    pair.left.queuePair.send(i, new BufferList(1)).orThrow();
                    assertThat(right.ends(1)).containsExactly("RECEIVE " + i + " SUCCESS");
                    assertThat(pair.left.ends(1)).containsExactly("SEND " + i + " SUCCESS");
                }
            } finally {
                shared.close();
            }
        }
    }

    @Test
    void everyMaximumAtOnceMakesAQueuePair() {
        try (Pair pair = new Pair(LIMITS)) {
            AdapterInfo info = pair.left.adapter.info();
            QueuePairLimits all =
                    QueuePairLimits.depths(info.maxInitiatorDepth(), info.maxReceiveDepth())
                            .withBuffers(info.maxInitiatorBuffers(), info.maxReceiveBuffers())
                            .withInlineBytes(info.maxInlineBytes())
                            .withReads(info.maxInboundReads(), info.maxOutboundReads());
            CompletionQueue queue =
                    pair.left.adapter.createCompletionQueue(info.maxCompletionQueueDepth());
            try (QueuePair one = pair.left.domain.createQueuePair(queue, queue, all);
                    QueuePair two = pair.left.domain.createQueuePair(queue, queue, all)) {
                one.connect(two.address());
                two.connect(one.address());
                MemoryRegion inbox = pair.left.memory(info.maxInlineBytes());
                MemorySegment inline = pair.left.arena.allocate(info.maxInlineBytes());
                fill(inline, 3);
                two.receive(1, whole(inbox)).orThrow();
                one.send(2, new BufferList(1).addUnregistered(inline), OpFlags.INLINE).orThrow();
                Completions completions = new Completions(2);
                int seen = 0;
                long deadline = System.nanoTime() + 30_000_000_000L;
                while (seen < 2 && System.nanoTime() < deadline) {
                    seen += queue.poll(completions);
                }
                assertThat(seen).isEqualTo(2);
                assertThat(inbox.memory().mismatch(inline)).isEqualTo(-1);
            }
            queue.close();
        }
    }

    @Test
    void aCompletionQueueIsResizedWithCompletionsInIt() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            assumeTrue(pair.left.adapter.info().completionQueueResize(), "SKIPPED: no resizing");
            for (int i = 0; i < 5; i++) {
                pair.right.queuePair.receive(i, new BufferList(1)).orThrow();
                pair.left.queuePair.send(i, new BufferList(1)).orThrow();
            }
            assertThat(pair.left.ends(5)).hasSize(5);
            pair.right.completionQueue.resize(500);
            assertThat(pair.right.ends(5)).hasSize(5);
        }
    }

    @Test
    void aMappedFileIsWrittenByThePeer(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("mapped");
        try (FileChannel channel =
                        FileChannel.open(
                                file,
                                StandardOpenOption.CREATE,
                                StandardOpenOption.READ,
                                StandardOpenOption.WRITE);
                Arena arena = Arena.ofShared();
                Pair pair = new Pair(LIMITS).connect()) {
            MemorySegment mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 8192, arena);
            MemoryRegion source = pair.left.filled(1000, 1);
            try (MemoryRegion target = pair.right.domain.register(mapped, Access.REMOTE_WRITE)) {
                pair.left
                        .queuePair
                        .write(
                                1,
                                whole(source),
                                mapped.address() + 5000,
                                target.remoteToken(),
                                OpFlags.NONE)
                        .orThrow();
                assertThat(pair.left.ends(1)).containsExactly("WRITE 1 SUCCESS");
            }
            mapped.force();
            byte[] bytes = Files.readAllBytes(file);
            assertThat(MemorySegment.ofArray(bytes).asSlice(5000, 1000).mismatch(source.memory()))
                    .isEqualTo(-1);
        }
    }

    /**
     * Linux 6.2 and later: before, ib_umem_get pinned all memory with FOLL_WRITE, which a shared
     * read-only mapping does not allow.
     */
    @Test
    void aFileMappedReadOnlyIsSentFromAndReadByThePeer(@TempDir Path folder) throws IOException {
        assumeTrue(
                kernelIsAtLeast(6, 2),
                "SKIPPED: this kernel registers no read-only mapping of a file");
        byte[] bytes = new byte[8192];
        new Random(1).nextBytes(bytes);
        Path file = Files.write(folder.resolve("mapped"), bytes);
        try (FileChannel channel = FileChannel.open(file); // for reading
                Arena arena = Arena.ofShared();
                Pair pair = new Pair(LIMITS).connect()) {
            MemorySegment mapped =
                    channel.map(FileChannel.MapMode.READ_ONLY, 0, bytes.length, arena);
            MemoryRegion sink = pair.right.memory(1000);
            try (MemoryRegion source = pair.left.domain.register(mapped)) {
                pair.right.queuePair.receive(1, whole(sink)).orThrow();
                pair.left.queuePair.send(2, new BufferList(1).add(source, 5000, 1000)).orThrow();
                assertThat(pair.right.ends(1)).containsExactly("RECEIVE 1 SUCCESS");
                assertThat(pair.left.ends(1)).containsExactly("SEND 2 SUCCESS");
                assertThat(sink.memory().mismatch(mapped.asSlice(5000, 1000))).isEqualTo(-1);
                assertThat(source.bindable()).isFalse();
                if (pair.left.adapter.info().invalidatableWindows()) {
                    try (MemoryWindow window = pair.left.domain.createMemoryWindow()) {
                        assertThat(
                                        pair.left
                                                .queuePair
                                                .bind(
                                                        3,
                                                        window,
                                                        source,
                                                        0,
                                                        8,
                                                        OpFlags.ALLOW_REMOTE_READ)
                                                .status())
                                .isEqualTo(Status.ACCESS_VIOLATION);
                    }
                }
            }
            try (MemoryRegion source = pair.left.domain.register(mapped, Access.REMOTE_READ)) {
                pair.right
                        .queuePair
                        .read(
                                4,
                                whole(sink),
                                mapped.address() + 100,
                                source.remoteToken(),
                                OpFlags.NONE)
                        .orThrow();
                assertThat(pair.right.ends(1)).containsExactly("READ 4 SUCCESS");
                assertThat(sink.memory().mismatch(mapped.asSlice(100, 1000))).isEqualTo(-1);
            }
            assertThatThrownBy(() -> pair.left.domain.register(mapped, Access.LOCAL_WRITE))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("read-only");
            if (pair.left.adapter.info().invalidatableWindows()) {
                assertThatThrownBy(() -> pair.left.domain.register(mapped, Access.WINDOWS))
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContaining("EFAULT")
                        .hasMessageContaining("mapped read-only");
            }
        }
    }

    static boolean kernelIsAtLeast(int major, int minor) {
        String[] version = System.getProperty("os.version").split("[^0-9]+");
        int first = Integer.parseInt(version[0]);
        return first > major || (first == major && Integer.parseInt(version[1]) >= minor);
    }

    @Test
    void moreThanTwoGibibytesAreOneRegion() throws IOException {
        long bytes = (2L << 30) + 8192;
        long free =
                Files.readAllLines(Path.of("/proc/meminfo")).stream()
                        .filter(line -> line.startsWith("MemAvailable:"))
                        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) << 10)
                        .findFirst()
                        .orElse(0);
        assumeTrue(free > bytes + (256 << 20), "SKIPPED: only " + free + " bytes are free");
        try (Pair pair = new Pair(LIMITS).connect();
                Arena arena = Arena.ofShared()) {
            MemorySegment large = arena.allocate(bytes, 4096);
            MemoryRegion source = pair.left.filled(4096, 1);
            if (softRoceRefusesMoreThanOneGibibyte()) {
                assertThatThrownBy(() -> pair.right.domain.register(large))
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContaining("ENOMEM")
                        .hasMessageContaining("limit of 1 GiB");
                pair.right.domain.register(large.asSlice(0, 1L << 30)).close();
                return;
            }
            try (MemoryRegion target =
                    pair.right.domain.register(large, Access.REMOTE_WRITE, Access.REMOTE_READ)) {
                long offset = bytes - 4096;
                pair.left
                        .queuePair
                        .write(
                                1,
                                whole(source),
                                large.address() + offset,
                                target.remoteToken(),
                                OpFlags.NONE)
                        .orThrow();
                assertThat(pair.left.ends(1)).containsExactly("WRITE 1 SUCCESS");
                assertThat(large.asSlice(offset, 4096).mismatch(source.memory())).isEqualTo(-1);
                BufferList end = new BufferList(1).add(target, offset, 4096);
                pair.left.queuePair.receive(2, whole(source)).orThrow();
                pair.right.queuePair.send(3, end).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("RECEIVE 2 SUCCESS");
            }
        }
    }

    /** Tried: Linux 6.1 does not, 6.12.117 and 7.3 do. */
    private static boolean softRoceRefusesMoreThanOneGibibyte() {
        String[] version = System.getProperty("os.version").split("[^0-9]+");
        int major = Integer.parseInt(version[0]);
        int minor = Integer.parseInt(version[1]);
        boolean patched = major == 6 && minor == 12 && Integer.parseInt(version[2]) >= 117;
        return RdmaDevices.isSoftRoce(RdmaDevices.active().getLast()) && (patched || major > 6);
    }
}
