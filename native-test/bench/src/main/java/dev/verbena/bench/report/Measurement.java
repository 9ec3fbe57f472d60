package dev.verbena.bench.report;

import java.util.Locale;

/**
 * One value that one fork of one side gave.
 *
 * @param row the name of a {@link Row}, or of what is only plotted
 * @param parameter what was varied in the row: bytes, outstanding requests; empty if nothing was
 * @param side who did it
 * @param fork which of the runs, from 1
 * @param value the value
 * @param unit its unit
 */
record Measurement(String row, String parameter, Side side, int fork, double value, String unit) {

    /** The head of a file of such lines. */
    static final String HEAD = "row\tparameter\tside\tfork\tvalue\tunit";

    /** Who did it. */
    enum Side {
        /** perftest, or a small program in C. */
        C,
        /** This library. */
        JAVA;

        /** As it stands in files and their names. */
        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** As a line. */
    @Override
    public String toString() {
        return String.join(
                "\t",
                row,
                parameter,
                side.toString(),
                Integer.toString(fork),
                Double.toString(value),
                unit);
    }
}
