package dev.verbena.tools;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The sizes of messages to measure, from the command line. */
final class PerfSizes {
    /** The largest of all. */
    static final int LARGEST = 1 << 30;

    private static final String ALL = "all";
    private static final int ALL_FROM = 2;
    private static final int ALL_TO = 8 << 20;

    private final boolean all;
    private final List<Integer> sizes;

    private PerfSizes(boolean all, List<Integer> sizes) {
        this.all = all;
        this.sizes = sizes;
    }

    /**
     * Reads a list such as "64,4K,1M", or "all".
     *
     * @throws IllegalArgumentException with a sentence
     */
    static PerfSizes parse(String text) {
        List<Integer> sizes = new ArrayList<>();
        if (text.equalsIgnoreCase(ALL)) {
            for (int size = ALL_FROM; size <= ALL_TO; size *= 2) {
                sizes.add(size);
            }
            return new PerfSizes(true, sizes);
        }
        for (String one : text.split(",", -1)) {
            sizes.add(bytes(one.strip()));
        }
        return new PerfSizes(false, sizes);
    }

    /**
     * Reads one size, such as "64" or "4K".
     *
     * @throws IllegalArgumentException with a sentence
     */
    static int bytes(String text) {
        int shift =
                switch (text.isEmpty()
                        ? ' '
                        : text.toUpperCase(Locale.ROOT).charAt(text.length() - 1)) {
                    case 'K' -> 10;
                    case 'M' -> 20;
                    case 'G' -> 30;
                    default -> 0;
                };
        try {
            long number = Long.parseLong(text, 0, text.length() - (shift == 0 ? 0 : 1), 10);
            if (number >= 1 && number <= LARGEST >> shift) {
                return (int) number << shift;
            }
        } catch (NumberFormatException | IndexOutOfBoundsException e) {
            // reported below
        }
        throw new IllegalArgumentException(
                "\"%s\" is no size; a size is 1 to %d bytes, as in 64, 4K or 1M"
                        .formatted(text, LARGEST));
    }

    int smallest() {
        return sizes.stream().min(Integer::compare).orElseThrow();
    }

    int largest() {
        return sizes.stream().max(Integer::compare).orElseThrow();
    }

    /** All of the list; of "all", those that an operation and the devices allow. */
    List<Integer> within(int least, long most) {
        return all ? sizes.stream().filter(size -> size >= least && size <= most).toList() : sizes;
    }

    /** Whether it is "all", so that what does not fit is left out without a word. */
    boolean all() {
        return all;
    }
}
