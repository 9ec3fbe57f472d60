package dev.verbena.bench.report;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bench.report.Comparison.Verdict;
import dev.verbena.bench.report.Measurement.Side;

import org.junit.jupiter.api.Test;
import org.w3c.dom.Element;
import org.xml.sax.InputSource;

import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

import javax.xml.parsers.DocumentBuilderFactory;

class ReportTest {
    private final List<Measurement> measurements = new ArrayList<>();

    /** Adds what forks gave, from the first on. */
    private ReportTest given(Row row, String parameter, Side side, double... values) {
        for (int fork = 1; fork <= values.length; fork++) {
            measurements.add(
                    new Measurement(row.key(), parameter, side, fork, values[fork - 1], "us"));
        }
        return this;
    }

    private Comparison compared(Row row, String parameter) {
        return Comparison.of(row, parameter, measurements, "");
    }

    private Report report(String... asked) {
        Set<List<String>> pairs =
                asked.length == 0 ? Set.of() : Set.of(List.of(asked[0], asked[1]));
        return new Report(measurements, pairs, Map.of(), Map.of("devices", "two & a <cable>"));
    }

    @Test
    void ratioIsThatOfMedians() {
        given(Row.CONNECT, "", Side.C, 10, 100, 12)
                .given(Row.CONNECT, "", Side.JAVA, 6, 15, 18, 12);
        Comparison connect = compared(Row.CONNECT, "");
        assertThat(connect.c().median()).isEqualTo(12);
        assertThat(connect.java().median()).isEqualTo(13.5);
        assertThat(connect.ratio()).isEqualTo(1.125);
        assertThat(connect.c()).hasToString("12.0 (10.0..100)");
        // Fork by fork: 6/10, 15/100, 18/12; Java's fourth has no partner.
        assertThat(connect.ratioWords()).isEqualTo("1.13 (0.15..1.50)");
    }

    @Test
    void atMost() {
        given(Row.SEND_LATENCY, "64", Side.C, 100).given(Row.SEND_LATENCY, "64", Side.JAVA, 105);
        given(Row.SEND_LATENCY, "256", Side.C, 100)
                .given(Row.SEND_LATENCY, "256", Side.JAVA, 105.1);
        given(Row.SEND_LATENCY, "1024", Side.C, 100).given(Row.SEND_LATENCY, "1024", Side.JAVA, 50);
        assertThat(compared(Row.SEND_LATENCY, "64").verdict()).isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.SEND_LATENCY, "256").verdict()).isEqualTo(Verdict.MISSED);
        assertThat(compared(Row.SEND_LATENCY, "1024").verdict()).isEqualTo(Verdict.REACHED);
    }

    @Test
    void atLeast() {
        given(Row.READ_BANDWIDTH, "4096", Side.C, 100)
                .given(Row.READ_BANDWIDTH, "4096", Side.JAVA, 97);
        given(Row.READ_BANDWIDTH, "16384", Side.C, 100)
                .given(Row.READ_BANDWIDTH, "16384", Side.JAVA, 96.9);
        given(Row.READ_BANDWIDTH, "65536", Side.C, 100)
                .given(Row.READ_BANDWIDTH, "65536", Side.JAVA, 200);
        assertThat(compared(Row.READ_BANDWIDTH, "4096").verdict()).isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.READ_BANDWIDTH, "16384").verdict()).isEqualTo(Verdict.MISSED);
        assertThat(compared(Row.READ_BANDWIDTH, "65536").verdict()).isEqualTo(Verdict.REACHED);
    }

    @Test
    void allocationIsJudgedByTheWorstFork() {
        given(Row.ALLOCATION, "one", Side.JAVA, 1e-5, 0, 2e-4);
        given(Row.ALLOCATION, "chain", Side.JAVA, 1e-5, 0, 0.02);
        assertThat(compared(Row.ALLOCATION, "one").verdict()).isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.ALLOCATION, "chain").verdict()).isEqualTo(Verdict.MISSED);
    }

    @Test
    void aSideWithoutValueIsNotMeasured() {
        given(Row.SEND_LATENCY, "64", Side.C, 100).given(Row.SEND_LATENCY, "64", Side.JAVA, 101);
        given(Row.SEND_LATENCY, "256", Side.C, 100);
        given(Row.EVENTS, "", Side.JAVA, 100);
        given(Row.FIRST_MESSAGE, "", Side.JAVA, 1e6);
        assertThat(compared(Row.SEND_LATENCY, "256").verdict()).isEqualTo(Verdict.NOT_MEASURED);
        assertThat(compared(Row.EVENTS, "").verdict()).isEqualTo(Verdict.NOT_MEASURED);
        assertThat(compared(Row.FIRST_MESSAGE, "").verdict()).isEqualTo(Verdict.SHOWN);
        assertThat(lineOf(report(), Row.SEND_LATENCY)).contains("256 B").endsWith("not measured");
        assertThat(report().table().exitCode()).isEqualTo(2);
    }

    @Test
    void whatWasAskedForAndIsMissingIsReported() {
        given(Row.CONNECT, "", Side.C, 10).given(Row.CONNECT, "", Side.JAVA, 10);
        assertThat(report().table().exitCode()).isZero();
        Report asked = report("register", "1073741824");
        assertThat(asked.table().exitCode()).isEqualTo(2);
        assertThat(lineOf(asked, Row.REGISTER)).contains("1 GiB").endsWith("not measured");
    }

    @Test
    void aRowIsAsGoodAsItsWorstParameter() {
        given(Row.SEND_BANDWIDTH, "4096", Side.C, 100)
                .given(Row.SEND_BANDWIDTH, "4096", Side.JAVA, 90);
        given(Row.SEND_BANDWIDTH, "1048576", Side.C, 100)
                .given(Row.SEND_BANDWIDTH, "1048576", Side.JAVA, 120);
        assertThat(lineOf(report(), Row.SEND_BANDWIDTH))
                .containsSubsequence("4 KiB", "100", "90.0", "0.90", ">= 0.97")
                .endsWith("missed");
        assertThat(report().table().exitCode()).isEqualTo(1);
        assertThat(report().table().toString().split("All parameters:")[1])
                .containsSubsequence("4 KiB", "missed", "1 MiB", "1.20", "reached");
    }

    @Test
    void instructionsHaveTheGoalOfTheRowWhoseProgramsRan() {
        given(Row.INSTRUCTIONS, "events", Side.C, 100)
                .given(Row.INSTRUCTIONS, "events", Side.JAVA, 119)
                .given(Row.INSTRUCTIONS, "message-rate", Side.C, 100)
                .given(Row.INSTRUCTIONS, "message-rate", Side.JAVA, 106)
                .given(Row.INSTRUCTIONS, "channel-latency", Side.C, 100)
                .given(Row.INSTRUCTIONS, "channel-latency", Side.JAVA, 115)
                .given(Row.INSTRUCTIONS, "channel-rate", Side.C, 1000)
                .given(Row.INSTRUCTIONS, "channel-rate", Side.JAVA, 1155)
                .given(Row.INSTRUCTIONS_IN_KERNEL, "read-bandwidth", Side.C, 100)
                .given(Row.INSTRUCTIONS_IN_KERNEL, "read-bandwidth", Side.JAVA, 103)
                .given(Row.INSTRUCTIONS_IN_PROCESSES, "events", Side.C, 100)
                .given(Row.INSTRUCTIONS_IN_PROCESSES, "events", Side.JAVA, 300);
        assertThat(compared(Row.INSTRUCTIONS, "events").verdict()).isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.INSTRUCTIONS, "message-rate").verdict()).isEqualTo(Verdict.MISSED);
        assertThat(compared(Row.INSTRUCTIONS, "channel-latency").verdict())
                .isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.INSTRUCTIONS, "channel-rate").verdict()).isEqualTo(Verdict.MISSED);
        assertThat(compared(Row.INSTRUCTIONS_IN_KERNEL, "read-bandwidth").verdict())
                .isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.INSTRUCTIONS_IN_PROCESSES, "events").verdict())
                .isEqualTo(Verdict.SHOWN);
        // 1.06 misses 1 / 0.95 by more than 1.155 misses 1.15.
        assertThat(lineOf(report(), Row.INSTRUCTIONS))
                .containsSubsequence("message-rate", "106", "1.06", "<= 1.05")
                .endsWith("missed");
    }

    @Test
    void aBoundIsOfJavasMedianItself() {
        given(Row.TWO_THREADS, "", Side.C, 1.8).given(Row.TWO_THREADS, "", Side.JAVA, 1.9);
        given(Row.INSTRUCTIONS_IN_PROCESSES, "connect", Side.C, 1)
                .given(Row.INSTRUCTIONS_IN_PROCESSES, "connect", Side.JAVA, 56_000);
        given(Row.INSTRUCTIONS_IN_PROCESSES, "write-latency", Side.C, 800)
                .given(Row.INSTRUCTIONS_IN_PROCESSES, "write-latency", Side.JAVA, 751);
        assertThat(compared(Row.TWO_THREADS, "").verdict()).isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.INSTRUCTIONS_IN_PROCESSES, "connect").verdict())
                .isEqualTo(Verdict.REACHED);
        assertThat(lineOf(report(), Row.INSTRUCTIONS_IN_PROCESSES))
                .containsSubsequence("write-latency", "751", "Java <= 750")
                .endsWith("missed");
        measurements.clear();
        given(Row.TWO_THREADS, "", Side.C, 1.8).given(Row.TWO_THREADS, "", Side.JAVA, 1.89);
        assertThat(compared(Row.TWO_THREADS, "").verdict()).isEqualTo(Verdict.MISSED);
    }

    @Test
    void aParameterMayHaveAGoalAndAnotherNone() {
        for (String count : List.of("1", "64", "512", "1024")) {
            given(Row.LOAD_QUEUE_PAIRS, count, Side.C, 10);
        }
        given(Row.LOAD_QUEUE_PAIRS, "1", Side.JAVA, 40)
                .given(Row.LOAD_QUEUE_PAIRS, "64", Side.JAVA, 15)
                .given(Row.LOAD_QUEUE_PAIRS, "512", Side.JAVA, 50)
                .given(Row.LOAD_QUEUE_PAIRS, "1024", Side.JAVA, 19);
        assertThat(compared(Row.LOAD_QUEUE_PAIRS, "512").verdict()).isEqualTo(Verdict.SHOWN);
        // The worst of those with a goal, not of all.
        assertThat(lineOf(report(), Row.LOAD_QUEUE_PAIRS))
                .containsSubsequence("64", "1.50", "<= 1.50")
                .endsWith("reached");
    }

    @Test
    void theHeapHasNoCounterpartInC() {
        given(Row.IDLE_QUEUE_PAIR, "heap", Side.JAVA, 1_100)
                .given(Row.IDLE_QUEUE_PAIR, "native", Side.JAVA, 10_000);
        assertThat(compared(Row.IDLE_QUEUE_PAIR, "heap").verdict()).isEqualTo(Verdict.REACHED);
        assertThat(compared(Row.IDLE_QUEUE_PAIR, "native").verdict())
                .isEqualTo(Verdict.NOT_MEASURED);
    }

    /** Each is compared with the same value of C. */
    private ReportTest givenPeers() {
        return given(Row.PEERS_ONE, "c", Side.C, 20, 22)
                .given(Row.PEERS_ONE, "raw-ffm", Side.JAVA, 21, 22)
                .given(Row.PEERS_ONE, "verbena", Side.JAVA, 30, 33);
    }

    @Test
    void othersInJavasPlaceHaveATableOfTheirOwn() {
        givenPeers().given(Row.CONNECT, "", Side.C, 10).given(Row.CONNECT, "", Side.JAVA, 10);
        String table = report().table().toString();
        assertThat(table.split("Others in Java's place")[1])
                .containsSubsequence("in Java's place", "raw FFM", "1.02", "Verbena, confined")
                .contains("1.50 (1.50..1.50)")
                .doesNotContain("Connect");
        assertThat(table.split("Others in Java's place")[0]).doesNotContain("raw FFM");
        assertThat(report().table().exitCode()).isZero();
    }

    @Test
    void whatTheMachineLacksIsSaidAndNoFailure() {
        givenPeers();
        Report report =
                new Report(
                        measurements,
                        Set.of(List.of("peers-one", "bare-jni"), List.of("peers-one", "raw-ffm")),
                        Map.of(List.of("peers-one", "bare-jni"), "jni.h"),
                        Map.of());
        assertThat(report.table().toString()).containsPattern("bare JNI .* lacks jni\\.h\n");
        assertThat(report.table().exitCode()).isZero();
        assertThat(report("peers-one", "bare-jni").table().exitCode()).isEqualTo(2);
    }

    @Test
    void peersPlotIsXml() throws Exception {
        Bars plot = givenPeers().report().peers();
        Element svg = parsed(plot);
        assertThat(svg.getElementsByTagName("g").getLength()).isEqualTo(1);
        assertThat(svg.getTextContent()).contains("One send and its poll", "raw FFM", "31.5");
        assertThat(svg.getElementsByTagName("rect").getLength()).isEqualTo(1 + 3);
        assertThat(plot.toString()).doesNotContain("NaN", "Infinity");
    }

    private static String lineOf(Report report, Row row) {
        return report.table()
                .toString()
                .lines()
                .filter(line -> line.startsWith(row.title()))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void latencyPlotIsXml() throws Exception {
        for (String percent : List.of("0.0", "50.0", "99.0", "99.9")) {
            for (Side side : Side.values()) {
                double value = Double.parseDouble(percent) + 17;
                for (int fork = 1; fork <= 3; fork++) {
                    measurements.add(
                            new Measurement(
                                    "send-latency-percentiles",
                                    percent,
                                    side,
                                    fork,
                                    value * fork,
                                    "us"));
                }
            }
        }
        // Only C's: without a counterpart it would bend one of the two curves.
        measurements.add(new Measurement("send-latency-percentiles", "97.5", Side.C, 1, 1e6, "us"));
        Element svg = parsed(report().latency());
        assertThat(report().latency().panels().getFirst().points()).hasSize(8);
        assertThat(svg.getTextContent())
                .contains("two & a <cable>", "99.9", "Send, as ib_send_lat");
        // A panel for write is not there: nothing was measured.
        assertThat(svg.getElementsByTagName("g").getLength()).isEqualTo(1);
        assertThat(svg.getElementsByTagName("circle").getLength()).isEqualTo(4);
        assertThat(svg.getTextContent()).doesNotContain("NaN", "Infinity");
    }

    @Test
    void loadPlotIsXml() throws Exception {
        for (Side side : Side.values()) {
            given(Row.LOAD_QUEUE_PAIRS, "1", side, 40, 41)
                    .given(Row.LOAD_QUEUE_PAIRS, "64", side, 60);
            given(Row.LOAD_DEPTH, "4096", side, 55).given(Row.LOAD_DEPTH, "8", side, 45);
        }
        Plot plot = report().load();
        Element svg = parsed(plot);
        assertThat(svg.getElementsByTagName("g").getLength()).isEqualTo(2);
        assertThat(plot.toString()).doesNotContain("NaN", "Infinity");
        assertThat(plot.panels().getLast().points())
                .extracting(Plot.Point::parameter)
                .containsExactly(8.0, 8.0, 4096.0, 4096.0);
    }

    private static Element parsed(Object plot) throws Exception {
        return DocumentBuilderFactory.newDefaultInstance()
                .newDocumentBuilder()
                .parse(new InputSource(new StringReader(plot.toString())))
                .getDocumentElement();
    }

    @Test
    void keysAreFoundAgain() {
        for (Row row : Row.values()) {
            assertThat(Row.of(row.key())).contains(row);
        }
        assertThat(Row.of("post_poll")).isEmpty();
    }

    @Test
    void numbersHaveTheDigitsThatSaySomething() {
        assertThat(List.of(0.0, 2.5e-5, 0.25, 9.994, 41.26, 123456.7))
                .map(Values::words)
                .containsExactly("0", "3e-05", "0.25", "9.99", "41.3", "123,457");
    }
}
