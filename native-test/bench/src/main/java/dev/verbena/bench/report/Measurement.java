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

    /** The name of a file of such lines. */
    static final String FILE = "raw.tsv";

    /** Its head. */
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

    /** From a line. */
    static Measurement parse(String line) {
        String[] fields = line.split("\t", -1);
        return new Measurement(
                fields[0],
                fields[1],
                fields[2].equals("c") ? Side.C : Side.JAVA,
                Integer.parseInt(fields[3]),
                Double.parseDouble(fields[4]),
                fields[5]);
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
