package dev.verbena.tools;

import java.util.Locale;

/** How messages write numbers of things. */
final class Words {
    private Words() {}

    /** As in "1 round" and "4,096 bytes". */
    static String count(long number, String noun) {
        return String.format(Locale.ROOT, "%,d %s%s", number, noun, number == 1 ? "" : "s");
    }
}
