package dev.verbena.tools;

import org.HdrHistogram.Histogram;

import java.util.Arrays;

/**
 * What was measured for one size.
 *
 * @param size of the messages
 * @param iterations how many there were
 * @param latency of latency, or null
 * @param bandwidth of bandwidth, or null
 */
record PerfResult(int size, long iterations, Latency latency, Bandwidth bandwidth) {
    private static final double NANOS_PER_MICRO = 1e3;
    private static final double NANOS_PER_SECOND = 1e9;
    private static final double MIB = 1 << 20;
    private static final int DIGITS = 3;

    /**
     * In microseconds.
     *
     * @param trips one-way trips in each time of the histogram
     * @param histogram of times in nanoseconds
     */
    record Latency(
            double min,
            double max,
            double typical,
            double average,
            double deviation,
            double of99,
            double of999,
            int trips,
            Histogram histogram) {
        /** What so many percent of all took at most, as the histogram has it. */
        double percentile(double percent) {
            return histogram.getValueAtPercentile(percent) / NANOS_PER_MICRO / trips;
        }
    }

    /**
     * In MiB per second, and millions of messages per second.
     *
     * @param peak 0 when it was not measured
     */
    record Bandwidth(double peak, double average, double messages) {}

    /**
     * Of points in time, one more than there were iterations.
     *
     * @param trips how many one-way trips an iteration is
     */
    static PerfResult ofLatency(int size, long[] times, int trips) {
        int count = times.length - 1;
        long[] taken = new long[count];
        Histogram histogram = new Histogram(DIGITS);
        double sum = 0;
        for (int i = 0; i < count; i++) {
            taken[i] = times[i + 1] - times[i];
            sum += taken[i];
            histogram.recordValue(taken[i]);
        }
        Arrays.sort(taken);
        double average = sum / count;
        double squares = 0;
        for (long one : taken) {
            squares += (one - average) * (one - average);
        }
        double unit = NANOS_PER_MICRO * trips;
        double median = (taken[(count - 1) / 2] + taken[count / 2]) / 2.0;
        return new PerfResult(
                size,
                count,
                new Latency(
                        taken[0] / unit,
                        taken[count - 1] / unit,
                        median / unit,
                        average / unit,
                        Math.sqrt(squares / count) / unit,
                        ranked(taken, 0.99) / unit,
                        ranked(taken, 0.999) / unit,
                        trips,
                        histogram),
                null);
    }

    private static double ranked(long[] sorted, double part) {
        return sorted[Math.max(0, (int) Math.ceil(sorted.length * part) - 1)];
    }

    /**
     * Of a time for all.
     *
     * @param peak messages per nanosecond, or 0
     */
    static PerfResult ofBandwidth(int size, long messages, long nanoseconds, double peak) {
        double rate = messages * NANOS_PER_SECOND / nanoseconds;
        return new PerfResult(
                size,
                messages,
                null,
                new Bandwidth(peak * NANOS_PER_SECOND * size / MIB, rate * size / MIB, rate / 1e6));
    }
}
