package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.OptionValues;
import dev.verbena.internal.util.Text;

import java.util.List;

/**
 * The size and the memory of a {@link BufferPool}: {@code BufferPoolOptions.of(256,
 * 4096).withTracking(true)}.
 *
 * <p>Immutable. Options with the same values are equal.
 */
@CheckReturnValue
public final class BufferPoolOptions extends OptionValues<BufferPoolOptions> {
    private static final int MOST = 1 << 24;

    private int count;
    private long bytes;
    private MemoryOptions memory = MemoryOptions.DEFAULTS;
    private boolean tracking;

    private BufferPoolOptions() {
        super(o -> List.of(o.count, o.bytes, o.memory, o.tracking));
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
        return new BufferPoolOptions()
                .with(
                        made -> {
                            made.count = count;
                            made.bytes = bytes;
                        });
    }

    /**
     * Changes how the memory of all buffers is allocated.
     *
     * @param options the options; their alignment applies to the first buffer, and each buffer
     *     starts at a multiple of 64 bytes
     * @return a changed copy of these options
     */
    public BufferPoolOptions withMemory(MemoryOptions options) {
        return with(changed -> changed.memory = Arguments.notNull(options, "options"));
    }

    /**
     * Detects misuse, for tests and to find leaks. The pool records where each buffer was taken and
     * given back, and use of a buffer after it was given back, by Java code or a post, throws.
     * {@link BufferPool#outstanding()} shows where each missing buffer was taken, and closing the
     * pool reports the missing buffers to the {@link System.Logger} {@code dev.verbena}. With
     * tracking, each take allocates some kilobytes and costs some microseconds.
     *
     * @param on whether to track
     * @return a changed copy of these options
     */
    public BufferPoolOptions withTracking(boolean on) {
        return with(changed -> changed.tracking = on);
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
     * How the memory of all buffers is allocated.
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
    public String toString() {
        return "BufferPoolOptions(%s of %s, %s%s)"
                .formatted(
                        Text.count(count(), "buffer"),
                        Text.count(bytes(), "byte"),
                        memory(),
                        tracking() ? ", tracked" : "");
    }
}
