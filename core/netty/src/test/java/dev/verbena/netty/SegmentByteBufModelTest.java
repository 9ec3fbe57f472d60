package dev.verbena.netty;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.ProtectionDomain;
import dev.verbena.internal.verbs.FakeDevice;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;
import io.netty.util.ByteProcessor;
import io.netty.util.IllegalReferenceCountException;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.ResourceLeakDetector;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.GatheringByteChannel;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.ScatteringByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/**
 * Calls every method of {@link ByteBuf} with random arguments on a registered buffer and on one of
 * Netty's pooled direct buffers, and on slices, duplicates, read-only and swapped views of both.
 * Results, exceptions, indices and contents must be the same.
 */
class SegmentByteBufModelTest {
    private static final int SEEDS = Integer.getInteger("verbena.rounds", 400);

    /** What differs by kind of buffer, needs an argument of its own, or counts references. */
    private static final Set<String> EXCLUDED =
            Set.of(
                    "alloc",
                    "array",
                    "arrayOffset",
                    "equals",
                    "hasArray",
                    "hasMemoryAddress",
                    "isDirect",
                    "isContiguous",
                    "maxFastWritableBytes",
                    "memoryAddress",
                    "refCnt",
                    "release",
                    "retain",
                    "toString",
                    "touch",
                    "unwrap",
                    "writableBytes",
                    "ensureWritable");

    private static final List<Method> METHODS =
            Arrays.stream(ByteBuf.class.getMethods())
                    .filter(
                            method ->
                                    method.getDeclaringClass() == ByteBuf.class
                                            && !method.isBridge())
                    .filter(
                            method ->
                                    !EXCLUDED.contains(method.getName())
                                            || method.getParameterCount() > 0
                                                    && Set.of("toString", "ensureWritable")
                                                            .contains(method.getName()))
                    .sorted(Comparator.comparing(Method::toString))
                    .toList();

    @TempDir Path folder;

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter = FakeAdapters.open(device);
    private final ProtectionDomain domain = adapter.createProtectionDomain();
    private final RegisteredByteBufAllocator allocator =
            new RegisteredByteBufAllocator(domain, 1 << 20);

    private final ResourceLeakDetector.Level level = ResourceLeakDetector.getLevel();

    @BeforeEach
    void withoutWrappers() {
        ResourceLeakDetector.setLevel(ResourceLeakDetector.Level.DISABLED);
    }

    @AfterEach
    void close() {
        ResourceLeakDetector.setLevel(level);
        allocator.close();
        domain.close();
        adapter.close();
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    @Test
    void everyMethodDoesWhatItDoesOnNettysBuffers() throws IOException {
        Set<Method> succeeded = new HashSet<>();
        try (FileChannel file = file()) {
            for (int seed = 0; seed < SEEDS; seed++) {
                Random random = new Random(seed);
                int initial = random.nextInt(random.nextBoolean() ? 16 : 1500);
                int max = initial + random.nextInt(3000);
                ByteBuf model = PooledByteBufAllocator.DEFAULT.directBuffer(initial, max);
                ByteBuf buffer = allocator.directBuffer(initial, max);
                alignCapacities(buffer, model);
                for (int step = 0; step < 100; step++) {
                    Method method = METHODS.get(random.nextInt(METHODS.size()));
                    long arguments = random.nextLong();
                    String at = "seed %d, step %d, %s".formatted(seed, step, method);
                    int capacity = model.capacity();
                    Object expected = call(model, method, new Random(arguments), file);
                    Object actual = call(buffer, method, new Random(arguments), file);
                    assertThat(actual).as(at).isEqualTo(expected);
                    assertThat(content(buffer)).as(at).isEqualTo(content(model));
                    assertThat(buffer.refCnt()).as(at).isEqualTo(1);
                    if (!expected.toString().startsWith("class ")) {
                        succeeded.add(method);
                    }
                    if (model.readerIndex() > model.writerIndex()) { // readCharSequence
                        model.clear();
                        buffer.clear();
                    }
                    if (buffer.capacity() != capacity || model.capacity() != capacity) {
                        alignCapacities(buffer, model);
                    }
                }
                buffer.release();
                model.release();
                afterTheLastRelease(buffer, model, file);
            }
        }
        assertThat(METHODS).filteredOn(method -> !succeeded.contains(method)).isEmpty();
    }

    /** New bytes have any value, and growing by a write gives what the memory has. */
    private static void alignCapacities(ByteBuf buffer, ByteBuf model) {
        int capacity = Math.max(buffer.capacity(), model.capacity());
        for (ByteBuf one : List.of(buffer, model)) {
            one.capacity(capacity);
            one.setZero(one.writerIndex(), capacity - one.writerIndex());
        }
    }

    private static void afterTheLastRelease(ByteBuf buffer, ByteBuf model, FileChannel file) {
        for (Method method : METHODS) {
            Object expected = call(model, method, new Random(1), file);
            Object actual = call(buffer, method, new Random(1), file);
            if (expected.equals(IllegalReferenceCountException.class)) {
                assertThat(actual).as("%s of a released buffer", method).isEqualTo(expected);
            }
        }
    }

    private FileChannel file() throws IOException {
        FileChannel file =
                FileChannel.open(
                        folder.resolve("file"),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.READ,
                        StandardOpenOption.WRITE);
        file.write(ByteBuffer.wrap(bytes(new Random(0), 4000)));
        return file;
    }

    /** The result, or the class of the exception, and what became of the arguments. */
    private static Object call(ByteBuf buffer, Method method, Random random, FileChannel file) {
        if (buffer.refCnt() > 0 && random.nextInt(4) == 0) {
            buffer = derived(buffer, random);
        }
        int capacity = buffer.capacity();
        List<Object> arguments = new ArrayList<>();
        try {
            for (Class<?> type : method.getParameterTypes()) {
                arguments.add(argument(type, capacity, random, file, isSource(method)));
            }
            file.position(random.nextInt(100));
            Object result = method.invoke(buffer, arguments.toArray());
            List<Object> all = new ArrayList<>();
            all.add(plain(result, result == buffer));
            all.add(file.position());
            arguments.forEach(argument -> all.add(plain(argument, false)));
            if (result instanceof ByteBuf other && isNew(method)) {
                other.release();
            }
            return all;
        } catch (InvocationTargetException e) {
            Class<?> thrown = e.getCause().getClass();
            return IndexOutOfBoundsException.class.isAssignableFrom(thrown)
                            || thrown == IllegalArgumentException.class // a negative length
                    ? IndexOutOfBoundsException.class
                    : thrown;
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            arguments.forEach(ReferenceCountUtil::release);
        }
    }

    private static boolean isSource(Method method) {
        return method.getName().startsWith("set") || method.getName().startsWith("write");
    }

    private static boolean isNew(Method method) {
        return method.getName().equals("copy")
                || method.getName().contains("etained")
                || method.getName().equals("readBytes")
                        && Arrays.equals(method.getParameterTypes(), new Class<?>[] {int.class});
    }

    @SuppressWarnings("deprecation")
    private static ByteBuf derived(ByteBuf buffer, Random random) {
        int index = random.nextInt(buffer.capacity() + 1);
        return switch (random.nextInt(5)) {
            case 0 -> buffer.slice(index, random.nextInt(buffer.capacity() - index + 1));
            case 1 -> buffer.duplicate();
            case 2 -> buffer.asReadOnly();
            case 3 -> buffer.order(ByteOrder.LITTLE_ENDIAN);
            default -> buffer.slice(index, buffer.capacity() - index).duplicate().slice();
        };
    }

    private static Object argument(
            Class<?> type, int capacity, Random random, FileChannel file, boolean source) {
        int some = random.nextInt(8) == 0 ? 10 : Math.max(capacity / 3, 1);
        if (type == int.class) {
            return switch (random.nextInt(20)) {
                case 0 -> -1;
                case 1 -> random.nextInt();
                case 2 -> capacity;
                case 3 -> capacity + random.nextInt(20);
                case 4, 5, 6, 7, 8, 9, 10 -> random.nextInt(some);
                default -> random.nextInt(capacity + 1);
            };
        } else if (type == long.class) {
            return random.nextInt(5) == 0 ? (long) random.nextInt(100) : random.nextLong(5000);
        } else if (type == boolean.class) {
            return random.nextBoolean();
        } else if (type == byte.class) {
            return (byte) random.nextInt(4);
        } else if (type == float.class) {
            return random.nextFloat();
        } else if (type == double.class) {
            return random.nextDouble();
        } else if (type == byte[].class) {
            return bytes(random, random.nextInt(some));
        } else if (type == ByteBuf.class) {
            return buffer(random, bytes(random, random.nextInt(some)), source);
        } else if (type == ByteBuffer.class) {
            byte[] bytes = bytes(random, random.nextInt(some));
            return random.nextBoolean()
                    ? ByteBuffer.wrap(bytes)
                    : ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
        } else if (type == CharSequence.class) {
            return "Wörter €".repeat(random.nextInt(4));
        } else if (type == Charset.class) {
            return random.nextBoolean() ? StandardCharsets.UTF_8 : StandardCharsets.ISO_8859_1;
        } else if (type == ByteProcessor.class) {
            int end = random.nextInt(4);
            return (ByteProcessor) value -> value != end;
        } else if (type == ByteOrder.class) {
            return random.nextBoolean() ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
        } else if (type == InputStream.class) {
            return new ByteArrayInputStream(bytes(random, random.nextInt(some)));
        } else if (type == OutputStream.class) {
            return new ByteArrayOutputStream();
        } else if (type == FileChannel.class) {
            return file;
        } else if (type == GatheringByteChannel.class) {
            return new Written();
        } else if (type == ScatteringByteChannel.class) {
            return new Read(bytes(random, random.nextInt(some)));
        }
        throw new AssertionError(type);
    }

    private static ByteBuf buffer(Random random, byte[] bytes, boolean source) {
        int half = bytes.length / 2;
        return switch (random.nextInt(source ? 5 : 3)) {
            case 0 -> Unpooled.wrappedBuffer(bytes);
            case 1 -> Unpooled.directBuffer(bytes.length).writeBytes(bytes);
            case 2 -> Unpooled.directBuffer(bytes.length).writeBytes(bytes).slice();
            case 3 -> Unpooled.wrappedBuffer(bytes).asReadOnly();
            default ->
                    Unpooled.compositeBuffer()
                            .addComponent(true, Unpooled.copiedBuffer(bytes, 0, half))
                            .addComponent(
                                    true,
                                    Unpooled.directBuffer(bytes.length)
                                            .writeBytes(bytes)
                                            .skipBytes(half));
        };
    }

    private static byte[] bytes(Random random, int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) (random.nextBoolean() ? random.nextInt(4) : random.nextInt());
        }
        return bytes;
    }

    private static List<Object> content(ByteBuf buffer) {
        return List.of(
                buffer.readerIndex(),
                buffer.writerIndex(),
                ByteBufUtil.hexDump(buffer, 0, buffer.writerIndex()));
    }

    @SuppressWarnings("deprecation") // order()
    private static Object plain(Object value, boolean self) {
        return switch (value) {
            case null -> "null";
            case ByteBuf _ when self -> "itself";
            case ByteBuf buffer when buffer.refCnt() == 0 -> "released";
            case ByteBuf buffer -> List.of(content(buffer), buffer.order(), buffer.isReadOnly());
            case ByteBuffer buffer ->
                    List.of(
                            ByteBufUtil.hexDump(Unpooled.wrappedBuffer(buffer)),
                            buffer.remaining(),
                            buffer.order(),
                            buffer.isReadOnly());
            case ByteBuffer[] buffers ->
                    Arrays.stream(buffers).map(one -> plain(one, false)).toList();
            case byte[] bytes -> ByteBufUtil.hexDump(bytes);
            case ByteArrayOutputStream out -> ByteBufUtil.hexDump(out.toByteArray());
            case InputStream in -> available(in);
            case Written written -> ByteBufUtil.hexDump(written.bytes.toByteArray());
            case ByteProcessor _, FileChannel _, Read _ -> "";
            default -> value;
        };
    }

    private static int available(InputStream in) {
        try {
            return in.available();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Takes one buffer. */
    private static final class Written implements GatheringByteChannel {
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final WritableByteChannel channel = Channels.newChannel(bytes);

        @Override
        public int write(ByteBuffer from) throws IOException {
            return channel.write(from);
        }

        @Override
        public long write(ByteBuffer[] from) throws IOException {
            return write(from[0]);
        }

        @Override
        public long write(ByteBuffer[] from, int offset, int length) throws IOException {
            return write(from[offset]);
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {}
    }

    /** Gives what it has, and then the end. */
    private static final class Read implements ScatteringByteChannel {
        private final ReadableByteChannel channel;

        Read(byte[] bytes) {
            channel = Channels.newChannel(new ByteArrayInputStream(bytes));
        }

        @Override
        public int read(ByteBuffer to) throws IOException {
            return channel.read(to);
        }

        @Override
        public long read(ByteBuffer[] to) throws IOException {
            return read(to[0]);
        }

        @Override
        public long read(ByteBuffer[] to, int offset, int length) throws IOException {
            return read(to[offset]);
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {}
    }
}
