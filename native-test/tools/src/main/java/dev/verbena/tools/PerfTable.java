package dev.verbena.tools;

import java.util.Locale;

/** Results in perftest's columns. */
final class PerfTable {
    private PerfTable() {}

    /**
     * The columns.
     *
     * @param byTime whether measurements end by time
     * @param gigabits whether bandwidth is in Gb/s instead of MiB/s
     */
    static String header(PerfMeasure measure, boolean byTime, boolean gigabits) {
        if (measure == PerfMeasure.BW && gigabits) {
            return " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]";
        }
        if (measure == PerfMeasure.LAT && byTime) {
            return " #bytes        #iterations       t_avg[usec]    tps average";
        }
        return measure == PerfMeasure.LAT
                ? " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
                        + "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
                : " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]";
    }

    static String row(PerfResult result, boolean gigabits) {
        PerfResult.Average average = result.average();
        if (average != null) {
            return String.format(
                    Locale.ROOT,
                    " %-13d %-17d %-14.2f %.2f",
                    result.size(),
                    result.iterations(),
                    average.average(),
                    average.perSecond());
        }
        PerfResult.Latency latency = result.latency();
        if (latency != null) {
            return String.format(
                    Locale.ROOT,
                    " %-7d %-14d %-14.2f %-12.2f %-18.2f %-14.2f %-15.2f %-22.2f %.2f",
                    result.size(),
                    result.iterations(),
                    latency.min(),
                    latency.max(),
                    latency.typical(),
                    latency.average(),
                    latency.deviation(),
                    latency.of99(),
                    latency.of999());
        }
        PerfResult.Bandwidth bandwidth = result.bandwidth();
        return String.format(
                Locale.ROOT,
                " %-10d %-14d %-18.2f %-20.2f %.6f",
                result.size(),
                result.iterations(),
                gigabits ? PerfResult.Bandwidth.gigabits(bandwidth.peak()) : bandwidth.peak(),
                gigabits ? PerfResult.Bandwidth.gigabits(bandwidth.average()) : bandwidth.average(),
                bandwidth.messages());
    }
}
