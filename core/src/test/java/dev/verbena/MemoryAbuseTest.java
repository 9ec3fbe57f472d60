package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Threads allocate, register, post and close in every order, while a peer writes into everything
 * that is registered for it. Memory that was freed too early would be another's by then: the JVM
 * crashes, or bytes change that nobody gave away. {@code -Dverbena.abuse.rounds=2000} takes longer
 * and tries more.
 */
@Timeout(300)
class MemoryAbuseTest {
    private static final int THREADS = 6;
    private static final int ROUNDS = Integer.getInteger("verbena.abuse.rounds", 60);
    private static final Access[] GIVEN = {Access.REMOTE_READ, Access.REMOTE_WRITE};

    private static final Logger LOGGER = Logger.getLogger("dev.verbena");

    private final Rig rig =
            Rig.connected(QueuePairLimits.depths(64, 64).withBuffers(3, 1).withInlineBytes(64));

    /** Tracked pools report each buffer that is out when they are closed: hundreds here. */
    @BeforeAll
    static void switchTheLogOff() {
        LOGGER.setLevel(Level.OFF);
    }

    @AfterAll
    static void switchTheLogOn() {
        LOGGER.setLevel(null);
    }

    /** One thread's program. */
    private final class Abuser implements Runnable {
        private final Random random;
        private final BufferList list = new BufferList(3);

        Abuser(long seed) {
            random = new Random(seed);
        }

        @Override
        public void run() {
            for (int round = 0; round < ROUNDS; round++) {
                switch (random.nextInt(5)) {
                    case 0 -> region();
                    case 1 -> arena();
                    case 2 -> pool(false);
                    case 3 -> pool(true);
                    default -> bystander();
                }
            }
        }

        private void post(BufferList buffers) {
            OpFlags flags = random.nextInt(4) == 0 ? OpFlags.INLINE : OpFlags.NONE;
            Status _ =
                    rig.a
                            .write(1, buffers, Rig.REMOTE, Rig.TOKEN, flags)
                            .status(); // or refused: all one
        }

        private void closeInAnyOrder(List<? extends AutoCloseable> all) {
            List<AutoCloseable> order = new ArrayList<>(all);
            Collections.shuffle(order, random);
            for (AutoCloseable each : order) {
                try {
                    each.close();
                } catch (Exception e) {
                    throw new AssertionError("closing " + each, e);
                }
                bystander();
            }
        }

        private void region() {
            MemoryOptions options = MemoryOptions.DEFAULTS.withAlignment(1L << random.nextInt(20));
            MemoryRegion region = rig.domain.allocate(1 + random.nextInt(1 << 16), options, GIVEN);
            MemoryWindow window = rig.domain.createMemoryWindow();
            Status _ =
                    rig.a
                            .bind(2, window, region, 0, region.bytes(), OpFlags.ALLOW_REMOTE_WRITE)
                            .status();
            post(list.clear().add(region, 0, Math.min(64, region.bytes())));
            closeInAnyOrder(List.of(region, window));
            post(list);
        }

        private void arena() {
            RegisteredArena arena = rig.domain.createArena(1 << 16, 1 << 22, GIVEN);
            BufferList segments = new BufferList(2, arena);
            List<MemorySegment> all = new ArrayList<>();
            for (int i = random.nextInt(1, 8); i > 0; i--) {
                MemorySegment segment = arena.allocate(random.nextInt(1 << 17), 8);
                all.add(segment);
                post(segments.clear().add(segment.asSlice(0, Math.min(64, segment.byteSize()))));
            }
            MemoryWindow window = rig.domain.createMemoryWindow();
            MemoryRegion slab = arena.regionOf(all.getFirst());
            Status _ =
                    rig.a
                            .bind(3, window, slab, 0, slab.bytes(), OpFlags.ALLOW_REMOTE_WRITE)
                            .status();
            closeInAnyOrder(List.of(arena, window));
            post(segments);
            refused(() -> segments.clear().add(all.getLast()));
            refused(() -> arena.allocate(1));
            refused(() -> all.getFirst().get(JAVA_BYTE, 0));
        }

        private void pool(boolean tracked) {
            BufferPool pool =
                    rig.domain.createBufferPool(
                            BufferPoolOptions.of(4, 1 + random.nextInt(10_000))
                                    .withTracking(tracked),
                            GIVEN);
            List<AutoCloseable> all = new ArrayList<>();
            for (int i = random.nextInt(6); i > 0; i--) {
                PooledBuffer buffer = pool.tryTake();
                if (buffer != null) {
                    buffer.memory().fill((byte) i);
                    post(buffer.buffers(0, 1));
                    all.add(buffer);
                }
            }
            refused(pool.region()::close);
            all.add(pool);
            closeInAnyOrder(all);
            refused(pool::tryTake);
        }

        private void refused(ThrowingCallable call) {
            assertThatThrownBy(call).isInstanceOf(IllegalStateException.class);
        }

        /** Memory of others, at addresses that may have been anything before. */
        private void bystander() {
            byte mine = (byte) (1 + random.nextInt(100)); // the peer writes negative bytes
            int bytes = 1 + random.nextInt(1 << 14);
            try (Arena arena = Arena.ofConfined();
                    MemoryRegion ours = rig.domain.allocate(bytes, Access.LOCAL_WRITE)) {
                MemorySegment malloc = arena.allocate(bytes).fill(mine);
                ours.memory().fill(mine);
                Thread.yield();
                for (MemorySegment memory : List.of(malloc, ours.memory())) {
                    for (long i = 0; i < bytes; i++) {
                        if (memory.get(JAVA_BYTE, i) != mine) {
                            throw new AssertionError("a byte changed that nobody gave away");
                        }
                    }
                }
            }
        }
    }

    @Test
    void noByteChangesThatNobodyGaveAway() throws InterruptedException {
        Queue<Throwable> thrown = new ConcurrentLinkedQueue<>();
        AtomicBoolean over = new AtomicBoolean();
        Thread peer =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    Random random = new Random(1);
                                    while (!over.get()) {
                                        rig.device.peerWrites(
                                                random, (byte) -random.nextInt(1, 100));
                                    }
                                });
        Thread poller =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    Completions completions = new Completions(16);
                                    Random random = new Random(2);
                                    while (!over.get()) {
                                        rig.device.running = random.nextInt(4) > 0;
                                        rig.queue.poll(completions);
                                        forgetPosts();
                                    }
                                    rig.device.running = true;
                                });
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < THREADS; t++) {
            Abuser abuser = new Abuser(t);
            threads.add(
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            abuser.run();
                                        } catch (Throwable e) {
                                            thrown.add(e);
                                        }
                                    }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        over.set(true);
        peer.join();
        poller.join();
        assertThat(thrown).isEmpty();
        rig.close(); // nothing native is left
    }

    @Test
    void aHundredThreadsThatAreInterruptedAndClosedLoseNoBuffer() throws InterruptedException {
        BufferPool pool = rig.domain.createBufferPool(BufferPoolOptions.of(3, 64), GIVEN);
        AtomicIntegerArray users = new AtomicIntegerArray(3);
        Queue<Throwable> thrown = new ConcurrentLinkedQueue<>();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 100; t++) {
            Duration timeout = Duration.ofMillis(t % 4);
            threads.add(
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            useUntilClosed(pool, timeout, users);
                                        } catch (Throwable e) {
                                            thrown.add(e);
                                        }
                                    }));
        }
        Random random = new Random(3);
        while (pool.counters().taken() < 20_000 && thrown.isEmpty()) {
            threads.get(random.nextInt(100)).interrupt();
            Thread.yield();
        }
        pool.close();
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(thrown).isEmpty();
        pool.awaitClosed(Duration.ZERO);
        assertThat(pool.counters().givenBack()).isEqualTo(pool.counters().taken());
        rig.close();
    }

    private static void useUntilClosed(
            BufferPool pool, Duration timeout, AtomicIntegerArray users) {
        while (true) {
            try (PooledBuffer buffer = pool.take(timeout)) {
                assertThat(users.incrementAndGet(buffer.index())).as("users").isEqualTo(1);
                Thread.yield();
                users.decrementAndGet(buffer.index());
            } catch (VerbenaException e) {
                assertThat(e.status()).isEqualTo(Status.IO_TIMEOUT);
            } catch (InterruptedException e) {
                continue;
            } catch (IllegalStateException e) {
                assertThat(e).hasMessageContaining("closed");
                return;
            }
        }
    }

    private void forgetPosts() {
        synchronized (rig.device) {
            rig.device.sends.clear();
            rig.device.chains.clear();
            rig.device.registeredFor.clear();
            rig.device.destroys.clear();
        }
    }

    @Test
    void nothingGrowsWithPoolCycles() throws Exception {
        try (BufferPool pool = rig.domain.createBufferPool(BufferPoolOptions.of(16, 4096), GIVEN)) {
            Completions completions = new Completions(16);
            int objects = rig.device.objects();
            long mappings = mappings();
            for (int i = 0; i < 100_000; i++) {
                PooledBuffer buffer = pool.take(Duration.ZERO);
                rig.a
                        .write(
                                buffer.index(),
                                buffer.buffers(),
                                Rig.REMOTE,
                                Rig.TOKEN,
                                OpFlags.NONE)
                        .orThrow();
                assertThat(rig.queue.poll(completions)).isEqualTo(1);
                pool.buffer((int) completions.context(0)).giveBack();
                if (i % 1000 == 0) {
                    forgetPosts();
                }
            }
            assertThat(pool.counters().taken()).isEqualTo(100_000);
            assertThat(pool.counters().free()).isEqualTo(16);
            assertThat(rig.device.objects()).isEqualTo(objects);
            assertThat(mappings() - mappings).isLessThan(20); // the JVM makes some
        }
        rig.close();
    }

    @Test
    void nothingGrowsWithAllocations() throws Exception {
        int objects = rig.device.objects();
        long before = addressSpace();
        long mappings = mappings();
        for (int i = 0; i < 3000; i++) {
            try (MemoryRegion region = rig.domain.allocate(1 << 20, GIVEN);
                    RegisteredArena arena = rig.domain.createArena(1 << 16, 1 << 22, GIVEN);
                    BufferPool pool =
                            rig.domain.createBufferPool(BufferPoolOptions.of(4, 4096), GIVEN)) {
                region.memory().set(JAVA_BYTE, i, (byte) 1);
                arena.allocate(100_000).set(JAVA_BYTE, 0, (byte) 1);
                pool.take(Duration.ZERO).giveBack();
            }
        }
        assertThat(rig.device.objects()).isEqualTo(objects);
        assertThat(addressSpace() - before).as("bytes").isLessThan(500L << 20); // or 15 GiB
        assertThat(mappings() - mappings).isLessThan(100); // or 9000
        rig.close();
    }

    private static long addressSpace() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[0]) << 12;
    }

    private static long mappings() throws IOException {
        try (var lines = Files.lines(Path.of("/proc/self/maps"))) {
            return lines.count();
        }
    }

    /**
     * Another thread closes a region between the post of its bytes, inline, and the provider's look
     * at them.
     */
    @Test
    void theProviderReadsNoInlineBytesFromMemoryOfACaller() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4).withInlineBytes(64))) {
            MemoryRegion region = rig.domain.allocate(4096);
            region.memory().setString(0, "written before the close");
            rig.device.beforePost = region::close; // its pages are unmapped then
            BufferList list = new BufferList(1).add(region, 0, 24);
            rig.a.write(1, list, Rig.REMOTE, 1, OpFlags.INLINE).orThrow();
            assertThat(region.toString()).endsWith("closed");
            assertThat(new String(rig.device.sends.getLast().inline(), StandardCharsets.UTF_8))
                    .isEqualTo("written before the close");
            assertThat(rig.a.write(2, list, Rig.REMOTE, 1, OpFlags.INLINE).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }
    }

    @Test
    void aRequestFailsIfTheRegionOfItsBytesIsClosedBeforeTheDeviceReadsThem() {
        rig.device.carriesBytes = true;
        rig.device.running = false;
        MemoryRegion region = rig.domain.allocate(4096); // its pages are unmapped by the close
        rig.a.send(1, BufferList.of(region), OpFlags.NONE).orThrow();
        region.close();
        rig.device.running = true;
        assertThat(rig.poll()).containsExactly("SEND 1 ACCESS_VIOLATION");
        rig.close();
    }

    @Test
    void aMessageFailsIfTheRegionOfItsReceiveIsClosedBefore() {
        rig.device.carriesBytes = true;
        MemoryRegion region = rig.domain.allocate(4096, Access.LOCAL_WRITE);
        rig.b.receive(2, BufferList.of(region)).orThrow();
        region.close();
        rig.a.send(1, rig.bytes(8), OpFlags.NONE).orThrow();
        assertThat(rig.poll())
                .containsExactlyInAnyOrder("SEND 1 REMOTE_RESOURCES", "RECEIVE 2 ACCESS_VIOLATION");
        rig.close();
    }
}
