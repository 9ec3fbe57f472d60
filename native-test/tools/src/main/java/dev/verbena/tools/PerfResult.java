package dev.verbena.tools;

import org.HdrHistogram.Histogram;

import java.util.Arrays;

/**
 * What was measured for one size.
 *
 * @param size of the messages
 * @param iterations how many there were
 * @param latency of latency by a number of messages, or null
 * @param average of latency by time, or null
 * @param bandwidth of bandwidth, or null
 */
record PerfResult(
        int size, long iterations, Latency latency, Average average, Bandwidth bandwidth) {
    private static final double NANOS_PER_MICRO = 1e3;
    private static final double NANOS_PER_SECOND = 1e9;
    private static final double MEGA = 1e6;
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

    /** In microseconds, and iterations per second. */
    record Average(double average, double perSecond) {}

    /**
     * In MiB per second, and millions of messages per second.
     *
     * @param peak 0 when it was not measured
     */
    record Bandwidth(double peak, double average, double messages) {
        private static final double MEBIBYTES_PER_GIGABIT = 1e9 / 8 / MIB;

        /** The same in 10^9 bits per second. */
        static double gigabits(double mebibytes) {
            return mebibytes / MEBIBYTES_PER_GIGABIT;
        }
    }

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
                null,
                null);
    }

    private static double ranked(long[] sorted, double part) {
        return sorted[Math.max(0, (int) Math.ceil(sorted.length * part) - 1)];
    }

    /**
     * Of a time for all round trips.
     *
     * @param trips how many one-way trips an iteration is
     */
    static PerfResult ofAverage(int size, long count, long nanoseconds, int trips) {
        double average = (double) nanoseconds / count / NANOS_PER_MICRO / trips;
        return new PerfResult(
                size, count, null, new Average(average, perSecond(count, nanoseconds)), null);
    }

    /**
     * Of a time for all.
     *
     * @param peak messages per nanosecond, or 0
     */
    static PerfResult ofBandwidth(int size, long messages, long nanoseconds, double peak) {
        return ofRate(size, messages, perSecond(messages, nanoseconds), peak * NANOS_PER_SECOND);
    }

    /** Messages per second. */
    static double perSecond(long messages, long nanoseconds) {
        return messages * NANOS_PER_SECOND / Math.max(1, nanoseconds);
    }

    private static PerfResult ofRate(int size, long messages, double rate, double peak) {
        return new PerfResult(
                size,
                messages,
                null,
                null,
                new Bandwidth(peak * size / MIB, rate * size / MIB, rate / MEGA));
    }

    /** The same, with what the peer has sent meanwhile: messages per second. */
    PerfResult plus(double rate) {
        return rate == 0
                ? this
                : ofRate(size, iterations, bandwidth.messages() * MEGA + rate, bandwidth.peak());
    }
}
