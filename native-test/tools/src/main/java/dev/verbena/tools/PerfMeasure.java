package dev.verbena.tools;

import java.util.Locale;

/** What perf measures of it. */
enum PerfMeasure {
    /** How long one takes. */
    LAT,
    /** How many bytes and messages go through in a second. */
    BW;

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
