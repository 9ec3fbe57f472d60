package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.text.Arguments;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * The size of a {@link BufferPool}, and what it is made of: {@code BufferPoolOptions.of(256,
 * 4096).withTracking(true)}.
 *
 * <p>Immutable. Options with the same values are equal.
 */
@CheckReturnValue
public final class BufferPoolOptions {
    private static final int MOST = 1 << 24;

    private final int count;
    private final long bytes;
    private final MemoryOptions memory;
    private final boolean tracking;

    private BufferPoolOptions(int count, long bytes, MemoryOptions memory, boolean tracking) {
        this.count = count;
        this.bytes = bytes;
        this.memory = memory;
        this.tracking = tracking;
    }

    /**
     * A pool in ordinary pages, without tracking.
     *
     * @param count how many buffers, from 1 to 2^24
     * @param bytes the size of each, from 1 to 4 GiB less one
     * @return new options
     */
    public static BufferPoolOptions of(int count, long bytes) {
        if (count < 1 || count > MOST) {
            throw new IllegalArgumentException(
                    "A pool has from 1 to %,d buffers, not %,d".formatted(MOST, count));
        }
        if (bytes < 1 || bytes > 0xFFFF_FFFFL) {
            throw new IllegalArgumentException(
                    "A buffer has from 1 to 4 GiB less one byte, not %,d".formatted(bytes));
        }
        return new BufferPoolOptions(count, bytes, MemoryOptions.DEFAULTS, false);
    }

    /**
     * Changes how the memory of all buffers is made.
     *
     * @param options the options; their alignment applies to the first buffer, and each buffer
     *     starts at a multiple of 64 bytes
     * @return a changed copy of these options
     */
    public BufferPoolOptions withMemory(MemoryOptions options) {
        return new BufferPoolOptions(count, bytes, Arguments.notNull(options, "options"), tracking);
    }

    /**
     * Detects misuse, for tests and to find leaks: the pool remembers where each buffer was taken
     * and given back. Use of a buffer after it was given back, by Java code or a post, throws.
     * {@link BufferPool#outstanding()} says where the buffers were taken that have not been given
     * back, and closing the pool reports them to the {@link System.Logger} {@code dev.verbena}. A
     * take then allocates some kilobytes and takes some microseconds.
     *
     * @param on whether to track
     * @return a changed copy of these options
     */
    public BufferPoolOptions withTracking(boolean on) {
        return new BufferPoolOptions(count, bytes, memory, on);
    }

    /**
     * How many buffers there are.
     *
     * @return 1 or more
     */
    public int count() {
        return count;
    }

    /**
     * The size of each buffer.
     *
     * @return in bytes
     */
    public long bytes() {
        return bytes;
    }

    /**
     * How the memory of all buffers is made.
     *
     * @return its options
     */
    public MemoryOptions memory() {
        return memory;
    }

    /**
     * Whether takes are tracked.
     *
     * @return false by default
     */
    public boolean tracking() {
        return tracking;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof BufferPoolOptions that
                && count == that.count
                && bytes == that.bytes
                && memory.equals(that.memory)
                && tracking == that.tracking;
    }

    @Override
    public int hashCode() {
        return Objects.hash(count, bytes, memory, tracking);
    }

    @Override
    public String toString() {
        return "BufferPoolOptions(%,d buffers of %,d bytes, %s%s)"
                .formatted(count, bytes, memory, tracking ? ", tracked" : "");
    }
}
