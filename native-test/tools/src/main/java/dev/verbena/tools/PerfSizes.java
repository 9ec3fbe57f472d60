package dev.verbena.tools;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Which sizes of messages are to be measured, as the command line says it. */
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
            sizes.add(size(one.strip()));
        }
        return new PerfSizes(false, sizes);
    }

    private static int size(String text) {
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
                "\"%s\" is no size: 1 to %d bytes, K and M allowed, several with commas, or \"all\""
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
