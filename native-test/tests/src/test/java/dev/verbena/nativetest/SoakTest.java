package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.trust.Footprint;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;

/**
 * The work of {@link LeaksTest} for so many minutes as {@code -Dverbena.trust.soak} says, with a
 * line of figures every second, or every round if that takes longer. {@code ci/roce trust --soak}
 * makes a plot of them.
 */
@NeedsDevices
@EnabledIfSystemProperty(named = "verbena.trust.soak", matches = "\\d+")
class SoakTest {
    private static final Duration INTERVAL = Duration.ofSeconds(1);
    private static final long MOST_KIBIBYTES = 100_000;

    @Test
    void nothingGrows() throws Exception {
        long minutes = Long.getLong("verbena.trust.soak");
        Path file = Path.of(System.getProperty("verbena.trust", ".")).resolve("soak.csv");
        try (Churn churn = new Churn();
                PrintStream csv = new PrintStream(file.toFile())) {
            csv.println(
                    "minutes,resident KiB,heap KiB,pinned KiB,descriptors,threads,kernel objects,"
                            + "messages");
            long start = System.nanoTime();
            long end = start + Duration.ofMinutes(minutes).toNanos();
            long messages = 0;
            long lost = round(churn);
            Churn.Held first = Churn.held();
            Churn.Held held = first;
            while (System.nanoTime() < end) {
                long next = System.nanoTime() + INTERVAL.toNanos();
                do {
                    lost += round(churn);
                    messages += 100;
                } while (System.nanoTime() < next);
                held = Churn.held();
                print(csv, System.nanoTime() - start, held, messages);
            }
            assertThat(held.kernel()).isEqualTo(first.kernel());
            assertThat(held.process().leaks(first.process(), MOST_KIBIBYTES, MOST_KIBIBYTES))
                    .as("at first %s, at last %s", first, held)
                    .isZero();
            assertThat(lost).isZero();
        }
    }

    private static long round(Churn churn) throws InterruptedException {
        churn.register(100);
        churn.queuePairs(10);
        return churn.channels(1, 100);
    }

    private static void print(PrintStream csv, long nanos, Churn.Held held, long messages) {
        Footprint process = held.process();
        csv.printf(
                "%.3f,%d,%d,%d,%d,%d,%d,%d%n",
                nanos / 60e9,
                process.kibibytes(),
                process.heap(),
                process.locked(),
                process.descriptors(),
                process.threads(),
                held.kernelObjects(),
                messages);
        csv.flush();
    }
}
