package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.verbena.Gid;

import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;

/** What of perf needs no device. */
class PerfTest {
    private static final int ROOM = 44; // of a connection's private data

    private static final PerfPlan PLAN =
            new PerfPlan(
                    0x1234_5678_9ABC_DEF0L,
                    3,
                    PerfOperation.SEND_INV,
                    PerfMeasure.BW,
                    true,
                    17,
                    256,
                    32,
                    220,
                    8 << 20,
                    30,
                    true,
                    40_000,
                    10);

    private final StringWriter err = new StringWriter();

    private int run(String line) {
        return Verbena.run(
                new PrintWriter(new StringWriter()),
                new PrintWriter(err, true),
                ("perf " + line).split(" "));
    }

    // ---- the command line

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "atomic lat 192.0.2.1 | Unmatched argument",
                "send | lat|bw",
                "send fast 192.0.2.1 | fast",
                "send lat | ADDRESS",
                "send lat 192.0.2.1 --port 0 | --port must be 1 to 65535",
                "send lat 192.0.2.1 --size 0 | \"0\" is no size",
                "send lat 192.0.2.1 --size 4,x | \"x\" is no size",
                "send lat 192.0.2.1 --iterations 0 | --iterations must be 1 to",
                "send lat 192.0.2.1 --warmup -1 | --warmup must be 0 to",
                "send lat 192.0.2.1 --timeout 0 | --timeout must be 1 to",
                "send lat 192.0.2.1 --depth 2 | --depth is for bw",
                "send lat 192.0.2.1 --qps 2 | --qps is for bw",
                "send lat 192.0.2.1 --chain 2 | --chain is for bw",
                "send lat 192.0.2.1 --signal-every 2 | --signal-every is for bw",
                "send bw 192.0.2.1 --depth 16 --chain 17 | --chain must be 1 to 16, not 17",
                "send bw 192.0.2.1 --depth 16 --signal-every 17 | --signal-every must be 1 to 16",
                "send bw 192.0.2.1 --depth 16 --chain 8 --signal-every 10 | --signal-every must be 1 to 9",
                "send bw 192.0.2.1 --qps 0 | --qps must be 1 to",
                "send lat 192.0.2.1 --qp-timeout 0 | --qp-timeout must be 1 to 31",
                "send lat 192.0.2.1 --qp-timeout 32 | --qp-timeout must be 1 to 31",
                "send lat 192.0.2.1 --tclass 256 | --tclass must be 0 to 255, not 256",
                "send bw 192.0.2.1 --sl -1 | --sl must be 0 to 15, not -1",
                "write lat 192.0.2.1 --events | omit --events",
                "read bw 192.0.2.1 --inline 8 | read takes no --inline",
                "send-inv lat 192.0.2.1 --size 3 | --size must be at least 4, not 3",
                "channel bw 192.0.2.1 --chain 2 | channel takes no --inline, --signal-every or --chain",
                "send-inv bw 192.0.2.1 -b | --bidirectional is for send, write and read",
                "channel bw 192.0.2.1 -b | --bidirectional is for send, write and read",
                "send lat 192.0.2.1 -b | --bidirectional is for bw",
                "read lat 192.0.2.1 --report_gbits | --report_gbits is for bw",
                "send bw 192.0.2.1 -D 0 | --duration must be 1 to 65535",
                "send bw 192.0.2.1 -D 1 -n 5 | give one of the two",
                "write bw 192.0.2.1 -x 1 --from 192.0.2.2 | give one of the two",
                "channel lat 192.0.2.1 --inline 64 | channel takes no --inline",
                "server --port 65536 | --port must be 0 to 65535",
            })
    void explainsWrongUsage(String line, String explanation) {
        assertThat(run(line)).isEqualTo(2);
        assertThat(err.toString()).contains(explanation.strip());
    }

    @Test
    void readsSizes() {
        assertThat(PerfSizes.parse("64, 4k,1M").within(1, 1)).containsExactly(64, 4096, 1 << 20);
        PerfSizes all = PerfSizes.parse("all");
        assertThat(all.within(1, Long.MAX_VALUE))
                .hasSize(23)
                .startsWith(2, 4, 8)
                .endsWith(4 << 20, 8 << 20);
        assertThat(all.within(4, 16)).containsExactly(4, 8, 16);
        assertThat(all.largest()).isEqualTo(8 << 20);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "64,",
                "K",
                "1T",
                "-1",
                "2G",
                "9999999999999999999",
                "18014398509481985K"
            })
    void refusesSizes(String text) {
        assertThatThrownBy(() -> PerfSizes.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("is no size");
    }

    // ---- what travels

    @Test
    void plansTravelInPrivateData() {
        byte[] data = PLAN.encode();
        assertThat(data).hasSizeLessThanOrEqualTo(ROOM);
        assertThat(PerfPlan.decode(data)).isEqualTo(PLAN);
        assertThat(PerfPlan.decode(PLAN.withIndex(0).encode())).isEqualTo(PLAN.withIndex(0));
    }

    /** Index of a byte, its new value, and what is said of it. */
    @ParameterizedTest
    @CsvSource({
        "0, 0, is not a client of perf",
        "4, 9, version 9",
        "5, 5, makes no sense",
        "6, 2, makes no sense",
        "17, 18, makes no sense", // more connections than queue pairs
        "20, -1, makes no sense", // a depth below zero
        "27, 0, makes no sense", // chains of none
        "36, -1, makes no sense",
        "40, 0, makes no sense", // which verbs has for ever
        "40, 32, makes no sense", // five bits
    })
    void refusesWhatIsNoPlan(int index, byte value, String explanation) {
        byte[] data = PLAN.encode();
        data[index] = value;
        assertThatThrownBy(() -> PerfPlan.decode(data))
                .isInstanceOf(ToolFailure.class)
                .hasMessageContaining(explanation);
    }

    @Test
    void refusesMoreMessagesThanAChannelTakes() {
        byte[] data = PLAN.encode();
        data[5] = (byte) PerfOperation.CHANNEL.ordinal();
        ByteBuffer.wrap(data).putInt(20, 32_767);
        assertThat(PerfPlan.decode(data).depth()).isEqualTo(32_767);
        ByteBuffer.wrap(data).putInt(20, 32_768);
        assertThatThrownBy(() -> PerfPlan.decode(data))
                .isInstanceOf(ToolFailure.class)
                .hasMessageContaining("makes no sense");
    }

    @Test
    void plansSayWhenPacketsAreSentAgain() {
        assertThat(PLAN.connection(new byte[0]))
                .hasToString(
                        "ConnectionOptions(within 30 s, 0 bytes of private data, PathOptions(acknowledged"
                                + " within 4.194304 ms))");
    }

    @Test
    void refusesPrivateDataOfOthers() {
        for (byte[] data : List.of(new byte[0], new byte[56], "hello, world".getBytes())) {
            assertThatThrownBy(() -> PerfPlan.decode(data))
                    .isInstanceOf(ToolFailure.class)
                    .hasMessageContaining("is not a client of perf");
        }
        assertThatThrownBy(() -> PerfTerms.decode(new byte[184]))
                .isInstanceOf(ToolFailure.class)
                .hasMessageContaining("is not a server of perf");
    }

    @Test
    void termsTravelInPrivateData() {
        PerfTerms terms = new PerfTerms(8 << 20, 512, 256, 7175);
        PerfAddress address = new PerfAddress(0x1234, 0xFFFE, Gid.parse("::ffff:192.0.2.1"));
        byte[] data = terms.encode(address);
        assertThat(PerfTerms.decode(data)).isEqualTo(terms);
        assertThat(PerfTerms.address(data)).isEqualTo(address);
    }

    @Test
    void dataDifferBySeed() {
        byte[] mine = PerfData.of(70_000, PerfData.seed(5, false));
        byte[] theirs = PerfData.of(70_000, PerfData.seed(5, true));
        byte[] later = PerfData.of(70_000, PerfData.seed(6, false));
        for (int i = 0; i < mine.length; i++) {
            assertThat(mine[i]).isNotEqualTo(theirs[i]).isNotEqualTo(later[i]);
        }
        assertThat(PerfData.of(1, PerfData.seed(254, true))[0]).isNotZero();
    }

    @Test
    void findsEachWrongByte() {
        int at = 100;
        int size = 600;
        int tokens = 4; // in front of the data, and not looked at
        byte[] expected = PerfData.of(size, PerfData.seed(3, true));
        byte[] others = PerfData.of(size, PerfData.seed(3, false));
        MemorySegment memory = MemorySegment.ofArray(new byte[at + size + 1]);
        MemorySegment.copy(expected, 0, memory, ValueLayout.JAVA_BYTE, at, size);
        for (int i = -1; i <= size; i++) {
            byte right = memory.get(ValueLayout.JAVA_BYTE, at + i);
            memory.set(ValueLayout.JAVA_BYTE, at + i, (byte) (right ^ 1 << Math.abs(i) % 8));
            assertThat(PerfData.mismatch(memory, at, tokens, size, expected))
                    .as("when byte %d is wrong", i)
                    .isEqualTo(i < tokens || i == size ? -1 : i);
            memory.set(ValueLayout.JAVA_BYTE, at + i, right);
        }
        assertThat(PerfData.mismatch(memory, at, tokens, size, others)).isEqualTo(tokens);
    }

    // ---- results

    /** Round trips of 2, 4, … 2000 us, in the order of a card trick. */
    private static PerfResult latencies(int trips) {
        long[] times = new long[1001];
        for (int i = 0; i < 1000; i++) {
            times[i + 1] = times[i] + 2000L * (1 + i * 7 % 1000);
        }
        return PerfResult.ofLatency(64, times, trips);
    }

    @Test
    void halvesRoundTrips() {
        PerfResult.Latency latency = latencies(2).latency();
        assertThat(latency.min()).isEqualTo(1);
        assertThat(latency.max()).isEqualTo(1000);
        assertThat(latency.typical()).isEqualTo(500.5);
        assertThat(latency.average()).isEqualTo(500.5);
        assertThat(latency.deviation()).isCloseTo(288.675, within(0.001));
        assertThat(latency.of99()).isEqualTo(990);
        assertThat(latency.of999()).isEqualTo(999);
        assertThat(latency.percentile(99)).isCloseTo(990, within(1.0));
        assertThat(latencies(1).latency().typical()).isEqualTo(1001);
    }

    @Test
    void printsPerftestsColumns() {
        assertThat(PerfTable.header(PerfMeasure.LAT, false, false).strip().split("\\s{2,}|(?<=s) "))
                .containsExactly(
                        "#bytes",
                        "#iterations",
                        "t_min[usec]",
                        "t_max[usec]",
                        "t_typical[usec]",
                        "t_avg[usec]",
                        "t_stdev[usec]",
                        "99% percentile[usec]",
                        "99.9% percentile[usec]");
        assertThat(PerfTable.row(latencies(2), false).strip().split("\\s+"))
                .containsExactly(
                        "64", "1000", "1.00", "1000.00", "500.50", "500.50", "288.67", "990.00",
                        "999.00");
        assertThat(PerfTable.header(PerfMeasure.BW, false, false).strip().split("\\s{2,}"))
                .containsExactly(
                        "#bytes",
                        "#iterations",
                        "BW peak[MB/sec]",
                        "BW average[MB/sec]",
                        "MsgRate[Mpps]");
        // 1000 messages of 1 MiB in half a second
        PerfResult result = PerfResult.ofBandwidth(1 << 20, 1000, 500_000_000, 3e-6);
        assertThat(PerfTable.row(result, false).strip().split("\\s+"))
                .containsExactly("1048576", "1000", "3000.00", "2000.00", "0.002000");
        assertThat(PerfTable.header(PerfMeasure.BW, true, true))
                .contains("BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]");
        assertThat(PerfTable.row(result, true).strip().split("\\s+"))
                .containsExactly("1048576", "1000", "25.17", "16.78", "0.002000");
    }

    @Test
    void printsPerftestsColumnsOfLatencyByTime() {
        assertThat(PerfTable.header(PerfMeasure.LAT, true, false).strip().split("\\s{2,}"))
                .containsExactly("#bytes", "#iterations", "t_avg[usec]", "tps average");
        // 1000 round trips in 5 ms
        PerfResult result = PerfResult.ofAverage(64, 1000, 5_000_000, 2);
        assertThat(PerfTable.row(result, false).strip().split("\\s+"))
                .containsExactly("64", "1000", "2.50", "200000.00");
        assertThat(PerfJson.of(result, Map.of()))
                .contains("\"t_avg_usec\":2.500000,\"transactions_per_sec\":200000.000000");
    }

    @Test
    void printsJson() {
        assertThat(PerfJson.of(latencies(2), Map.of("device", "a\"b\\c\n")))
                .startsWith("{\"bytes\":64,\"iterations\":1000,\"t_min_usec\":1.000000,")
                .containsPattern(
                        "\"percentiles_usec\":\\{\"50\":[0-9.]+,\"75\":[0-9.]+,\"90\":[0-9.]+,"
                                + "\"95\":[0-9.]+,\"99\":[0-9.]+,\"99.9\":[0-9.]+,"
                                + "\"99.99\":[0-9.]+,\"100\":[0-9.]+}")
                .endsWith("\"run\":{\"device\":\"a\\\"b\\\\c\\u000a\"}}")
                .doesNotContain("\n");
        assertThat(PerfJson.of(PerfResult.ofBandwidth(64, 10, 1000, 0), Map.of()))
                .contains("\"bw_peak_mib_per_sec\":null", "\"msg_rate_mpps\":10.000000")
                .endsWith("\"run\":{}}");
    }

    /** Credit may run out between two signals: then no completion comes, and sleep has no end. */
    @ParameterizedTest
    @CsvSource({
        "0, 0, false", // nothing is outstanding
        "99, 0, false", // the next signal is the 100th's
        "100, 0, true",
        "512, 500, false",
        "600, 500, true",
        "1049, 1000, false",
        "1050, 1000, true", // the last is signaled
        "1050, 1050, false",
    })
    void sleepsOnlyUntilACompletionThatComes(int posted, int completed, boolean due) {
        assertThat(
                        PerfBandwidth.completionIsDue(
                                new long[] {0, posted},
                                new long[] {0, completed},
                                100,
                                new long[] {1050, 1050}))
                .isEqualTo(due);
    }

    // ---- the peak

    @RepeatedTest(200)
    void findsThePeakThatComparingAllFinds(RepetitionInfo repetition) {
        Random random = new Random(repetition.getCurrentRepetition());
        int requests = 1 + random.nextInt(60);
        int chain = 1 + random.nextInt(4);
        int every = 1 + random.nextInt(5);
        long[] postedAt = new long[requests];
        int[] postedBefore = new int[requests];
        long[] completedAt = new long[requests];
        int[] completedBy = new int[requests];
        int posts = 0;
        int signals = 0;
        int posted = 0;
        int completed = 0;
        long now = 0;
        while (completed < requests) {
            now += 1 + random.nextInt(100);
            if (posted < requests && (posted == completed || random.nextBoolean())) {
                postedAt[posts] = now;
                postedBefore[posts++] = posted;
                posted = Math.min(requests, posted + chain);
            } else {
                completed = Math.min(posted, completed + every);
                completedAt[signals] = now;
                completedBy[signals++] = completed;
            }
        }
        double most = 0;
        for (int p = 0; p < posts; p++) {
            for (int c = 0; c < signals; c++) {
                if (completedBy[c] > postedBefore[p]) {
                    most =
                            Math.max(
                                    most,
                                    (double) (completedBy[c] - postedBefore[p])
                                            / (completedAt[c] - postedAt[p]));
                }
            }
        }
        assertThat(PerfPeak.of(postedAt, postedBefore, posts, completedAt, completedBy, signals))
                .isCloseTo(most, within(1e-12));
    }

    @Test
    void findsThePeakOfMany() {
        int count = PerfBandwidth.MOST_TIMED;
        long[] postedAt = LongStream.range(0, count).map(i -> i * 100).toArray();
        long[] completedAt = LongStream.range(0, count).map(i -> i * 100 + 50).toArray();
        int[] before = LongStream.range(0, count).mapToInt(i -> (int) i).toArray();
        int[] by = LongStream.rangeClosed(1, count).mapToInt(i -> (int) i).toArray();
        assertThat(PerfPeak.of(postedAt, before, count, completedAt, by, count))
                .isEqualTo(1 / 50.0);
    }
}
