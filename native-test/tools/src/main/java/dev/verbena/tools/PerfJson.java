package dev.verbena.tools;

import java.util.LinkedHashMap;
import java.util.Map;

/** Results as JSON, one object a line. */
final class PerfJson {
    private static final double[] PERCENTILES = {50, 75, 90, 95, 99, 99.9, 99.99, 100};

    private PerfJson() {}

    /**
     * A result.
     *
     * @param run what it was measured with: texts, numbers, truths
     */
    static String of(PerfResult result, Map<String, Object> run) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("bytes", result.size());
        all.put("iterations", result.iterations());
        PerfResult.Latency latency = result.latency();
        PerfResult.Average average = result.average();
        if (average != null) {
            all.put("t_avg_usec", average.average());
            all.put("transactions_per_sec", average.perSecond());
        } else if (latency != null) {
            all.put("t_min_usec", latency.min());
            all.put("t_max_usec", latency.max());
            all.put("t_typical_usec", latency.typical());
            all.put("t_avg_usec", latency.average());
            all.put("t_stdev_usec", latency.deviation());
            Map<String, Object> percentiles = new LinkedHashMap<>();
            for (double percent : PERCENTILES) {
                percentiles.put(
                        percent == Math.rint(percent)
                                ? Integer.toString((int) percent)
                                : Double.toString(percent),
                        latency.percentile(percent));
            }
            all.put("percentiles_usec", percentiles);
        } else {
            PerfResult.Bandwidth bandwidth = result.bandwidth();
            boolean peak = bandwidth.peak() != 0;
            all.put("bw_peak_mib_per_sec", peak ? bandwidth.peak() : null);
            all.put("bw_average_mib_per_sec", bandwidth.average());
            all.put(
                    "bw_peak_gbit_per_sec",
                    peak ? PerfResult.Bandwidth.gigabits(bandwidth.peak()) : null);
            all.put("bw_average_gbit_per_sec", PerfResult.Bandwidth.gigabits(bandwidth.average()));
            all.put("msg_rate_mpps", bandwidth.messages());
        }
        all.put("run", run);
        return Json.of(all);
    }
}
