package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.OptionValues;

import java.util.List;

/**
 * How {@link ProtectionDomain#allocate} allocates memory. Start from {@link #DEFAULTS} and change
 * what differs: {@code DEFAULTS.withAlignment(1 << 16).withHugePages(HugePages.PREFERRED)}.
 *
 * <p>Immutable. Options with the same values are equal.
 */
@CheckReturnValue
public final class MemoryOptions extends OptionValues<MemoryOptions> {
    /** Page-aligned memory, in pages of the size that the system chooses. */
    public static final MemoryOptions DEFAULTS = new MemoryOptions();

    private static final long LARGEST_ALIGNMENT = 1L << 40;

    private long alignment = 1;
    private HugePages hugePages = HugePages.DEFAULT;

    private MemoryOptions() {
        super(o -> List.of(o.alignment, o.hugePages));
    }

    /**
     * Changes the alignment of the first byte. Memory is page-aligned in any case, so only
     * alignments above 4,096 have an effect.
     *
     * @param bytes a power of two, at most 1 TiB
     * @return a changed copy of these options
     */
    public MemoryOptions withAlignment(long bytes) {
        if (Long.bitCount(bytes) != 1 || bytes < 1 || bytes > LARGEST_ALIGNMENT) {
            throw new IllegalArgumentException(
                    "An alignment is a power of two of at most 2^40 bytes, not " + bytes);
        }
        return with(changed -> changed.alignment = bytes);
    }

    /**
     * Changes whether to use huge pages.
     *
     * @param pages which pages
     * @return a changed copy of these options
     */
    public MemoryOptions withHugePages(HugePages pages) {
        return with(changed -> changed.hugePages = Arguments.notNull(pages, "pages"));
    }

    /**
     * The alignment of the first byte.
     *
     * @return a power of two
     */
    public long alignment() {
        return alignment;
    }

    /**
     * The size of the pages.
     *
     * @return which pages
     */
    public HugePages hugePages() {
        return hugePages;
    }

    @Override
    public String toString() {
        return "MemoryOptions(aligned to %d, huge pages: %s)".formatted(alignment(), hugePages());
    }
}
