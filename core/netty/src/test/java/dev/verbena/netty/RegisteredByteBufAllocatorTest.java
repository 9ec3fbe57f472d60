package dev.verbena.netty;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.FakeAdapters;
import dev.verbena.LoggedMessages;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.internal.verbs.FakeDevice;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.ReplayingDecoder;
import io.netty.util.IllegalReferenceCountException;
import io.netty.util.ResourceLeakDetector;
import io.netty.util.internal.logging.InternalLoggerFactory;
import io.netty.util.internal.logging.JdkLoggerFactory;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

class RegisteredByteBufAllocatorTest {
    private static final int MIB = 1 << 20;

    static {
        InternalLoggerFactory.setDefaultFactory(JdkLoggerFactory.INSTANCE); // for leaks
    }

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter = FakeAdapters.open(device);
    private final ProtectionDomain domain = adapter.createProtectionDomain();
    private final RegisteredByteBufAllocator allocator =
            new RegisteredByteBufAllocator(domain, 16 * MIB);
    private final BufferList list = new BufferList(16);

    @AfterEach
    void close() {
        allocator.close();
        domain.close();
        adapter.close();
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    @Test
    void theBufferThatWasReleasedLastIsUsedFirst() {
        ByteBuf first = direct(1000);
        ByteBuf second = direct(1000);
        long address = first.memoryAddress();
        long other = second.memoryAddress();
        second.release();
        first.release();
        ByteBuf again = direct(1024);
        ByteBuf more = direct(900);
        assertThat(again.memoryAddress()).isEqualTo(address);
        assertThat(more.memoryAddress()).isEqualTo(other);
        again.release();
        more.release();
        assertThat(allocator.registeredBytes()).isEqualTo(64 << 10);
    }

    @Test
    void aSlabThatCannotBeRegisteredTakesNothingOfTheLimit() {
        device.beforeStep =
                step -> {
                    if (step.equals("registerMemory")) {
                        throw new OutOfMemoryError("injected");
                    }
                };
        assertThatThrownBy(() -> direct(1000)).hasMessage("injected");
        assertThat(allocator.registeredBytes()).isZero();
        device.beforeStep = step -> {};
        direct(1000).release();
        assertThat(allocator.registeredBytes()).isEqualTo(64 << 10);
    }

    /** It comes back while more are registered. */
    @Test
    void noBlockIsLost() {
        List<ByteBuf> all = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            all.add(direct(1000));
        }
        assertThat(allocator.registeredBytes()).isEqualTo(64 << 10);
        long address = all.getFirst().memoryAddress();
        device.beforeStep =
                step -> {
                    device.beforeStep = other -> {};
                    all.removeFirst().release();
                };
        for (int i = 0; i < 65; i++) {
            all.add(direct(1000));
        }
        assertThat(allocator.registeredBytes()).isEqualTo(128 << 10);
        assertThat(all).anyMatch(one -> one.memoryAddress() == address);
        all.forEach(ByteBuf::release);
    }

    /** Its buffer refuses to be unwrapped. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void bytesOfAReplayingDecoderAreCopied(int pieces) {
        EmbeddedChannel channel =
                new EmbeddedChannel(
                        new ReplayingDecoder<Void>() {
                            @Override
                            protected void decode(
                                    ChannelHandlerContext context, ByteBuf in, List<Object> out) {
                                int length = in.readInt();
                                out.add(direct(length).writeBytes(in, length));
                            }
                        });
        ByteBuf all = Unpooled.directBuffer().writeInt(3).writeBytes(new byte[] {7, 8, 9});
        if (pieces == 2) {
            ByteBuf rest = all.copy(5, 2);
            all = Unpooled.wrappedBuffer(all.writerIndex(5), rest);
        }
        channel.writeInbound(all);
        ByteBuf out = channel.readInbound();
        assertThat(ByteBufUtil.getBytes(out)).containsExactly(7, 8, 9);
        out.release();
        channel.finishAndReleaseAll();
    }

    @Test
    void aNewLifeHasNothingOfTheOldOne() {
        ByteBuf old = direct(300, 5000);
        old.writeZero(200).skipBytes(100).markReaderIndex().markWriterIndex();
        old.release();
        ByteBuf buffer = direct(290, 400);
        assertThat(buffer.capacity()).isEqualTo(290);
        assertThat(buffer.maxCapacity()).isEqualTo(400);
        assertThat(buffer.refCnt()).isEqualTo(1);
        buffer.writeZero(10).readByte();
        assertThat(buffer.resetReaderIndex().readerIndex()).isZero();
        assertThat(buffer.resetWriterIndex().writerIndex()).isZero();
        buffer.release();
        assertThatThrownBy(buffer::release).isInstanceOf(IllegalReferenceCountException.class);
    }

    @Test
    void aLifeMayBeOverOtherMemory() {
        try (Arena arena = Arena.ofConfined()) {
            AtomicInteger freed = new AtomicInteger();
            SegmentByteBuf buffer =
                    new SegmentByteBuf(MemorySegment.NULL) {
                        @Override
                        public ByteBufAllocator alloc() {
                            return allocator;
                        }

                        @Override
                        void freed() {
                            freed.incrementAndGet();
                        }
                    };
            assertThat(buffer.refCnt()).isZero();
            for (int life = 1; life <= 3; life++) {
                MemorySegment memory = arena.allocate(100);
                buffer.begin(memory, 50, 100);
                buffer.internalNioBuffer(0, 4).putInt(life);
                buffer.nioBuffer(4, 4).putInt(-life);
                assertThat(buffer.memoryAddress()).isEqualTo(memory.address());
                assertThat(buffer.writerIndex(8).readInt()).isEqualTo(life);
                assertThat(buffer.readInt()).isEqualTo(-life);
                assertThat(buffer.capacity(100).maxWritableBytes()).isEqualTo(92);
                assertThat(buffer.release()).isTrue();
                assertThat(freed).hasValue(life);
            }
        }
    }

    @Test
    void eachSizeHasItsBlocksAndNoTwoOverlap() {
        Random random = new Random(1);
        List<ByteBuf> all = new ArrayList<>();
        for (int i = 0; i < 400; i++) {
            int bytes = random.nextInt(1 << random.nextInt(1, 17));
            ByteBuf buffer = direct(bytes);
            assertThat(buffer.capacity()).isEqualTo(bytes);
            int fast = buffer.maxFastWritableBytes();
            assertThat(fast).isBetween(bytes, Math.max(256, bytes * 3 / 2));
            buffer.capacity(fast).setBytes(0, pattern(i, fast));
            all.add(buffer);
        }
        for (int i = 0; i < all.size(); i++) {
            ByteBuf buffer = all.get(i);
            assertThat(ByteBufUtil.getBytes(buffer, 0, buffer.capacity()))
                    .isEqualTo(pattern(i, buffer.capacity()));
            assertThat(allocator.add(list.clear(), buffer, 0, buffer.capacity())).isTrue();
            buffer.release();
        }
        assertThat(allocator.unregisteredBuffers()).isZero();
    }

    @Test
    void growthKeepsTheContentAndGivesTheOldBlockBack() {
        ByteBuf buffer = direct(256);
        long small = buffer.memoryAddress();
        for (int i = 0; i < 3 * MIB / 4; i++) {
            buffer.writeInt(i);
        }
        assertThat(buffer.memoryAddress()).isNotEqualTo(small);
        for (int i = 0; i < 3 * MIB / 4; i++) {
            assertThat(buffer.readInt()).isEqualTo(i);
        }
        assertThat(allocator.add(list, buffer, 0, 3 * MIB)).isTrue();
        ByteBuf next = direct(256);
        assertThat(next.memoryAddress()).isEqualTo(small);
        next.release();
        buffer.release();
    }

    @Test
    void growthBeyondTheLargestBlockMovesToOrdinaryMemory() {
        ByteBuf buffer = direct(MIB);
        buffer.writeBytes(pattern(1, MIB));
        buffer.writeBytes(pattern(2, 5 * MIB));
        assertThat(allocator.unregisteredBuffers()).isEqualTo(1);
        assertThat(allocator.add(list, buffer, 0, 1)).isFalse();
        assertThat(ByteBufUtil.getBytes(buffer, 0, MIB)).isEqualTo(pattern(1, MIB));
        assertThat(ByteBufUtil.getBytes(buffer, MIB, 5 * MIB)).isEqualTo(pattern(2, 5 * MIB));
        long used = allocator.metric().usedDirectMemory();
        buffer.release();
        assertThat(allocator.usedDirectMemory()).isLessThan(used - 5 * MIB);
        assertThat(allocator.usedDirectMemory()).isEqualTo(allocator.registeredBytes());
    }

    @Test
    void aboveTheLimitBuffersAreInOrdinaryMemory() {
        List<ByteBuf> all = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            all.add(direct(MIB).writeInt(i));
        }
        assertThat(allocator.registeredBytes()).isEqualTo(16 * MIB);
        assertThat(allocator.unregisteredBuffers()).isEqualTo(4);
        all.forEach(buffer -> assertThat(buffer.isDirect()).isTrue());
        all.forEach(ByteBuf::release);
        assertThat(allocator.usedDirectMemory()).isEqualTo(16 * MIB);
        direct(MIB).release();
        assertThat(allocator.unregisteredBuffers()).isEqualTo(4);
    }

    @Test
    void whereNothingCanBeRegisteredBuffersAreInOrdinaryMemory() {
        domain.close();
        ByteBuf buffer = direct(100).writeInt(7);
        assertThat(buffer.readInt()).isEqualTo(7);
        assertThat(allocator.unregisteredBuffers()).isEqualTo(1);
        assertThat(allocator.registeredBytes()).isZero();
        buffer.release();
    }

    @Test
    void afterCloseBuffersKeepTheirMemoryUntilTheyAreReleased() {
        ByteBuf kept = direct(1000).writeInt(7);
        ByteBuf other = direct(1000);
        ByteBuf large = direct(MIB);
        large.release();
        allocator.close();
        allocator.close();
        assertThat(allocator.registeredBytes()).isEqualTo(64 << 10);
        ByteBuf after = direct(1000);
        assertThat(allocator.unregisteredBuffers()).isEqualTo(1);
        assertThat(allocator.add(list, kept, 0, 4)).isTrue();
        other.release();
        assertThat(kept.readInt()).isEqualTo(7);
        kept.release();
        assertThat(allocator.registeredBytes()).isZero();
        after.release();
        assertThat(allocator.usedDirectMemory()).isZero();
    }

    @Test
    void registeredMemoryIsFoundThroughEveryViewOfIt() {
        ByteBuf buffer = direct(1000).writeZero(1000);
        List<ByteBuf> views =
                List.of(
                        buffer.slice(10, 500),
                        buffer.duplicate(),
                        buffer.asReadOnly(),
                        Unpooled.unreleasableBuffer(buffer),
                        buffer.slice(10, 500).asReadOnly().slice(3, 100),
                        allocator.compositeBuffer().addComponent(true, buffer.retainedDuplicate()));
        for (ByteBuf view : views) {
            assertThat(allocator.add(list.clear(), view, 5, 20)).as("%s", view).isTrue();
            assertThat(list.bytes()).isEqualTo(20);
        }
        views.get(5).release();
        assertThat(buffer.refCnt()).isEqualTo(1);
        assertThat(allocator.add(list, Unpooled.directBuffer(100), 0, 100)).isFalse();
        assertThat(allocator.add(list, Unpooled.wrappedBuffer(new byte[100]), 0, 100)).isFalse();
        assertThatThrownBy(() -> allocator.add(list, buffer, 990, 20))
                .isInstanceOf(IndexOutOfBoundsException.class);
        buffer.release();
        assertThatThrownBy(() -> allocator.add(list, buffer, 0, 20))
                .isInstanceOf(IllegalReferenceCountException.class);
    }

    @Test
    void regionsOfTheUserAreKnownUntilTheyAreForgottenOrClosed() {
        MemoryRegion first = domain.allocate(8192);
        MemoryRegion second = domain.allocate(8192);
        ByteBuf inFirst = Unpooled.wrappedBuffer(first.memory().asByteBuffer());
        ByteBuf inSecond = Unpooled.wrappedBuffer(second.memory().asByteBuffer());
        assertThat(allocator.add(list, inFirst, 0, 8192)).isFalse();
        allocator.know(first);
        allocator.know(second);
        allocator.know(first);
        assertThat(allocator.add(list, inFirst, 100, 8092)).isTrue();
        assertThat(allocator.add(list, inSecond, 100, 8092)).isTrue();
        assertThat(list.bytes()).isEqualTo(2 * 8092);
        allocator.forget(first);
        assertThat(allocator.add(list, inFirst, 0, 1)).isFalse();
        assertThat(allocator.add(list, inSecond, 0, 1)).isTrue();
        long address = inSecond.memoryAddress();
        second.close();
        assertThat(inSecond.memoryAddress()).isEqualTo(address);
        assertThat(allocator.add(list, inSecond, 0, 1)).isFalse();
        first.close();
    }

    @Test
    void regionsOfOtherDomainsAreRefused() {
        ProtectionDomain other = adapter.createProtectionDomain();
        MemoryRegion region = other.allocate(100, Access.REMOTE_READ);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> allocator.know(region))
                .withMessageContaining("another domain");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new RegisteredByteBufAllocator(domain, -1));
        region.close();
        other.close();
    }

    @Test
    void aLeakIsReported() {
        // The lost buffer's memory stays registered, so this device is never closed.
        var other =
                new RegisteredByteBufAllocator(
                        FakeAdapters.open(new FakeDevice()).createProtectionDomain(), MIB);
        ResourceLeakDetector.Level level = ResourceLeakDetector.getLevel();
        ResourceLeakDetector.setLevel(ResourceLeakDetector.Level.PARANOID);
        try (LoggedMessages logged = new LoggedMessages(ResourceLeakDetector.class.getName())) {
            ByteBuf fine = direct(100);
            assertThat(fine).isNotInstanceOf(SegmentByteBuf.class);
            assertThat(allocator.add(list, fine, 0, 100)).as("through the wrapper").isTrue();
            other.directBuffer(100).touch("lost");
            fine.touch("released").release();
            while (!says(logged, "Hint: lost")) { // until the collector has found it
                System.gc();
                direct(100).release();
            }
            assertThat(says(logged, "Hint: released")).isFalse();
        } finally {
            ResourceLeakDetector.setLevel(level);
        }
    }

    private static boolean says(LoggedMessages logged, String text) {
        return logged.records().stream().anyMatch(record -> record.getMessage().contains(text));
    }

    @Test
    void reuseAllocatesNothing() {
        ResourceLeakDetector.Level level = ResourceLeakDetector.getLevel();
        ResourceLeakDetector.setLevel(ResourceLeakDetector.Level.DISABLED);
        ByteBuf other = direct(2000).writeZero(2000);
        Runnable life =
                () -> {
                    ByteBuf buffer = direct(1000, 3000);
                    buffer.writeLong(5).writeBytes(other, 100, 600);
                    buffer.capacity(3000); // another block
                    allocator.add(list.clear(), buffer, 0, 600);
                    buffer.release();
                };
        try {
            assertThat(allocatedBy(life)).isZero();
        } finally {
            ResourceLeakDetector.setLevel(level);
        }
        other.release();
    }

    @Test
    void copiesAllocateNothing() {
        byte[] bytes = pattern(3, 1000);
        ByteBuf registered = direct(1000).writeBytes(bytes);
        ByteBuf heap = Unpooled.copiedBuffer(bytes);
        ByteBuf ordinary = Unpooled.directBuffer(1000).writeBytes(bytes);
        CompositeByteBuf composite =
                Unpooled.compositeBuffer()
                        .addComponent(true, heap.retainedSlice(0, 300))
                        .addComponent(true, registered.retainedSlice(300, 400))
                        .addComponent(true, ordinary.retainedSlice(700, 300));
        ByteBuffer target = ByteBuffer.allocateDirect(2000);
        List<ByteBuf> all =
                List.of(
                        registered,
                        heap,
                        ordinary,
                        registered.slice().asReadOnly(),
                        heap.duplicate(),
                        composite,
                        composite.slice(),
                        heap.asReadOnly());
        for (int i = 0; i < all.size(); i++) {
            ByteBuf from = all.get(i);
            SegmentByteBuf.copy(from, 10, target, 500 + i, 900);
            assertThat(target.position()).isZero();
            assertThat(target.limit()).isEqualTo(2000);
            byte[] copied = new byte[900];
            target.get(500 + i, copied);
            assertThat(copied).isEqualTo(Arrays.copyOfRange(bytes, 10, 910));
            if (i < 5) {
                assertThat(allocatedBy(() -> SegmentByteBuf.copy(from, 10, target, 500, 900)))
                        .as("%s", from)
                        .isZero();
            }
            assertThatThrownBy(() -> SegmentByteBuf.copy(from, 200, target, 0, 900))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
        composite.release();
        List.of(registered, heap, ordinary).forEach(ByteBuf::release);
    }

    @Test
    void threadsAllocateAndOthersRelease() throws InterruptedException {
        BlockingQueue<ByteBuf> handed = new ArrayBlockingQueue<>(100);
        Queue<Throwable> problems = new ConcurrentLinkedQueue<>();
        List<Thread> threads = new ArrayList<>();
        int rounds = 3000;
        for (int t = 0; t < 3; t++) {
            Random random = new Random(t);
            threads.add(
                    started(
                            problems,
                            () -> {
                                for (int i = 0; i < rounds; i++) {
                                    ByteBuf buffer = direct(random.nextInt(6000));
                                    int fill = buffer.capacity();
                                    buffer.writeInt(fill);
                                    while (buffer.writerIndex() < fill) {
                                        buffer.writeByte(fill);
                                    }
                                    handed.put(buffer);
                                }
                            }));
            threads.add(
                    started(
                            problems,
                            () -> {
                                for (int i = 0; i < rounds; i++) {
                                    ByteBuf buffer = handed.take();
                                    int fill = buffer.readInt();
                                    while (buffer.isReadable()) {
                                        assertThat(buffer.readByte()).isEqualTo((byte) fill);
                                    }
                                    buffer.release();
                                }
                            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(problems).isEmpty();
        assertThat(allocator.unregisteredBuffers()).isZero();
    }

    @Test
    void closingWhileOthersAllocateAndReleaseLeavesNothing() throws InterruptedException {
        Queue<Throwable> problems = new ConcurrentLinkedQueue<>();
        for (int round = 0; round < 50; round++) {
            RegisteredByteBufAllocator brief = new RegisteredByteBufAllocator(domain, MIB);
            List<Thread> threads = new ArrayList<>();
            CountDownLatch some = new CountDownLatch(100);
            for (int t = 0; t < 3; t++) {
                int bytes = 1000 << t;
                threads.add(
                        started(
                                problems,
                                () -> {
                                    while (brief.unregisteredBuffers() < 30) {
                                        ByteBuf buffer = brief.directBuffer(bytes);
                                        buffer.writeLong(7).capacity(3 * bytes);
                                        assertThat(buffer.readLong()).isEqualTo(7);
                                        buffer.release();
                                        some.countDown();
                                    }
                                }));
            }
            some.await();
            brief.close();
            for (Thread thread : threads) {
                thread.join();
            }
            assertThat(problems).isEmpty();
            assertThat(brief.usedDirectMemory()).isZero();
        }
    }

    private interface Work {
        void run() throws InterruptedException;
    }

    private static Thread started(Queue<Throwable> problems, Work work) {
        return Thread.ofPlatform()
                .start(
                        () -> {
                            try {
                                work.run();
                            } catch (Throwable t) {
                                problems.add(t);
                            }
                        });
    }

    private static long allocatedBy(Runnable work) {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 20 && least > 0; round++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < 100; i++) {
                work.run();
            }
            least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
        }
        return least;
    }

    private ByteBuf direct(int bytes) {
        return allocator.directBuffer(bytes);
    }

    private ByteBuf direct(int bytes, int max) {
        return allocator.directBuffer(bytes, max);
    }

    private static byte[] pattern(int seed, int length) {
        byte[] bytes = new byte[length];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }
}
