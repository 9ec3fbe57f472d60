package dev.verbena.tools;

import java.util.LinkedHashMap;
import java.util.Locale;
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
        if (latency != null) {
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
            all.put("bw_peak_mib_per_sec", bandwidth.peak() == 0 ? null : bandwidth.peak());
            all.put("bw_average_mib_per_sec", bandwidth.average());
            all.put("msg_rate_mpps", bandwidth.messages());
        }
        all.put("run", run);
        StringBuilder text = new StringBuilder();
        append(text, all);
        return text.toString();
    }

    private static void append(StringBuilder text, Object value) {
        switch (value) {
            case Map<?, ?> map -> {
                String separator = "{";
                for (Map.Entry<?, ?> entry : map.entrySet()) {
                    text.append(separator);
                    quote(text, entry.getKey().toString());
                    text.append(':');
                    append(text, entry.getValue());
                    separator = ",";
                }
                text.append(map.isEmpty() ? "{}" : "}");
            }
            case Double number -> text.append(String.format(Locale.ROOT, "%.6f", number));
            case Number number -> text.append(number);
            case Boolean truth -> text.append(truth);
            case null -> text.append("null");
            default -> quote(text, value.toString());
        }
    }

    private static void quote(StringBuilder text, String words) {
        text.append('"');
        for (int i = 0; i < words.length(); i++) {
            char one = words.charAt(i);
            if (one == '"' || one == '\\') {
                text.append('\\').append(one);
            } else if (one < ' ') {
                text.append(String.format(Locale.ROOT, "\\u%04x", (int) one));
            } else {
                text.append(one);
            }
        }
        text.append('"');
    }
}
