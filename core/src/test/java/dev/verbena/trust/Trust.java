package dev.verbena.trust;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;

/**
 * What the checks of the trust suite have in common: how much they do, the seed of what they
 * choose, and the row of figures that each writes for {@code ci/roce trust}. Needs no other class,
 * so that programs without JUnit can use it.
 */
public final class Trust {
    /** Whether this is the whole suite, and not the part of each CI run. */
    public static final boolean WHOLE = Boolean.getBoolean("verbena.trust.whole");

    /** Why a check is left out that takes too long for each CI run. */
    public static final String ONLY_WHOLE = "in the whole suite only";

    private Trust() {}

    /** How many requests, messages, … a check does: those of each CI run, or of the whole suite. */
    public static int size(int part, int whole) {
        return WHOLE ? whole : part;
    }

    /** That of -Dverbena.trust.seed, or any. */
    public static long seed() {
        return Long.getLong("verbena.trust.seed", new Random().nextLong());
    }

    /** Begins a row; the time from here to its end is one of its figures. */
    public static Row row(String check) {
        return new Row(check);
    }

    /** One row of the report: a check and its figures. What a check does not count is left out. */
    public static final class Row {
        private final long start = System.nanoTime();
        private final String check;
        private final String[] figures = new String[8];

        private Row(String check) {
            this.check = check;
            Arrays.fill(figures, "-");
        }

        private Row figure(int index, String value) {
            figures[index] = value;
            return this;
        }

        /** Work requests that were posted. */
        public Row requests(long count) {
            return figure(0, String.valueOf(count));
        }

        /** Messages of channels. */
        public Row messages(long count) {
            return figure(1, String.valueOf(count));
        }

        /** Refusals, failures, closes and the like that the check brought about. */
        public Row faults(long count) {
            return figure(2, String.valueOf(count));
        }

        /** Random or malformed inputs. */
        public Row inputs(long count) {
            return figure(3, String.valueOf(count));
        }

        /** Everything that was lost, doubled, out of order, or somebody else's: should be 0. */
        public Row losses(long count) {
            return figure(4, String.valueOf(count));
        }

        /** Objects, threads, descriptors and memory that were left behind: should be 0. */
        public Row leaks(long count) {
            return figure(5, String.valueOf(count));
        }

        /** The longest time that a request, a message or a caller had to wait. */
        public Row longestWait(Duration wait) {
            return figure(6, wait.toMillis() + " ms");
        }

        /** What the choices of this run followed from. */
        public Row seed(long seed) {
            return figure(7, String.valueOf(seed));
        }

        /**
         * Ends the row: prints it, and writes it into the folder -Dverbena.trust=…, where the
         * command finds it.
         */
        public void write() {
            Duration took = Duration.ofNanos(System.nanoTime() - start);
            String line =
                    "%s | %s | %.1f s"
                            .formatted(check, String.join(" | ", figures), took.toMillis() / 1e3);
            System.out.println("Trust: " + line);
            String folder = System.getProperty("verbena.trust");
            if (folder != null) {
                try {
                    Path rows = Files.createDirectories(Path.of(folder));
                    Files.writeString(
                            rows.resolve(check.replaceAll("\\W+", "-") + ".row"), line + "\n");
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        }
    }
}
