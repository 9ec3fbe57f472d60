package dev.verbena.bench.report;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bench.report.Measurement.Side;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Element;
import org.xml.sax.InputSource;

import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
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
    void eachParameterHasALine() {
        given(Row.SEND_BANDWIDTH, "4096", Side.C, 100)
                .given(Row.SEND_BANDWIDTH, "4096", Side.JAVA, 90);
        given(Row.SEND_BANDWIDTH, "1048576", Side.C, 100)
                .given(Row.SEND_BANDWIDTH, "1048576", Side.JAVA, 120);
        assertThat(linesOf(report(), Row.SEND_BANDWIDTH))
                .satisfiesExactly(
                        line -> assertThat(line).contains("4 KiB", "100", "90.0").endsWith("0.90"),
                        line -> assertThat(line).contains("1 MiB", "100", "120").endsWith("1.20"));
        assertThat(report().table().exitCode()).isZero();
    }

    @Test
    void javasOwnValuesHaveNoRatio() {
        given(Row.FIRST_MESSAGE, "", Side.JAVA, 1e6)
                .given(Row.IDLE_QUEUE_PAIR, "heap", Side.JAVA, 1_638)
                .given(Row.IDLE_QUEUE_PAIR, "native", Side.C, 10)
                .given(Row.IDLE_QUEUE_PAIR, "native", Side.JAVA, 15);
        assertThat(linesOf(report(), Row.FIRST_MESSAGE)).singleElement().asString().endsWith("-");
        assertThat(linesOf(report(), Row.IDLE_QUEUE_PAIR))
                .satisfiesExactly(
                        line -> assertThat(line).contains("heap", "1,638").endsWith("-"),
                        line -> assertThat(line).contains("native").endsWith("1.50"));
        assertThat(report().table().exitCode()).isZero();
    }

    @Test
    void aSideWithoutValueIsNotMeasured() {
        given(Row.SEND_LATENCY, "64", Side.C, 100).given(Row.SEND_LATENCY, "64", Side.JAVA, 101);
        given(Row.SEND_LATENCY, "256", Side.C, 100);
        given(Row.EVENTS, "", Side.JAVA, 100);
        assertThat(linesOf(report(), Row.SEND_LATENCY))
                .satisfiesExactly(
                        line -> assertThat(line).contains("64 B").endsWith("1.01"),
                        line -> assertThat(line).contains("256 B").endsWith("not measured"));
        assertThat(linesOf(report(), Row.EVENTS))
                .singleElement()
                .asString()
                .endsWith("not measured");
        assertThat(report().table().exitCode()).isEqualTo(2);
    }

    @Test
    void whatWasAskedForAndIsMissingIsReported() {
        given(Row.CONNECT, "", Side.C, 10).given(Row.CONNECT, "", Side.JAVA, 10);
        assertThat(report().table().exitCode()).isZero();
        Report asked = report("register", "1073741824");
        assertThat(asked.table().exitCode()).isEqualTo(2);
        assertThat(linesOf(asked, Row.REGISTER))
                .singleElement()
                .asString()
                .contains("1 GiB")
                .endsWith("not measured");
    }

    @Test
    void theTableSaysHowMuchCVaried() {
        given(Row.CONNECT, "", Side.C, 10, 11, 12).given(Row.CONNECT, "", Side.JAVA, 1, 2, 9);
        given(Row.EVENTS, "", Side.C, 41, 34.5, 71.5).given(Row.EVENTS, "", Side.JAVA, 40, 41, 42);
        assertThat(report().table().toString())
                .contains("C itself varied by a factor of up to 2.1 between the forks of this run")
                .contains("(" + Row.EVENTS.title() + ": 34.5 to 71.5 us)");
    }

    @Test
    void oneForkSaysNothingAboutVariation() {
        given(Row.CONNECT, "", Side.C, 10).given(Row.CONNECT, "", Side.JAVA, 10);
        assertThat(report().table().toString()).doesNotContain("varied");
    }

    /** Each is compared with the same value of C. */
    private ReportTest givenPeers() {
        return given(Row.PEERS_ONE, "c", Side.C, 20, 22)
                .given(Row.PEERS_ONE, "raw-ffm", Side.JAVA, 21, 22)
                .given(Row.PEERS_ONE, "verbena", Side.JAVA, 30, 33);
    }

    @Test
    void peersHaveATableOfTheirOwn() {
        givenPeers().given(Row.CONNECT, "", Side.C, 10).given(Row.CONNECT, "", Side.JAVA, 10);
        String table = report().table().toString();
        String peers = "Other ways to make the same calls";
        assertThat(table.split(peers)[1])
                .containsSubsequence("program", "raw FFM", "1.02", "Verbena, confined")
                .contains("1.50 (1.50..1.50)")
                .doesNotContain("Connect");
        assertThat(table.split(peers)[0]).doesNotContain("raw FFM");
        assertThat(report().table().exitCode()).isZero();
    }

    @Test
    void whatTheMachineLacksIsReportedAndIsNoFailure() {
        givenPeers();
        Report report =
                new Report(
                        measurements,
                        Set.of(List.of("peers-one", "bare-jni"), List.of("peers-one", "raw-ffm")),
                        Map.of(List.of("peers-one", "bare-jni"), "jni.h"),
                        Map.of());
        assertThat(linesOf(report, Row.PEERS_ONE))
                .anySatisfy(line -> assertThat(line).contains("bare JNI").endsWith("lacks jni.h"));
        assertThat(report.table().exitCode()).isZero();
        assertThat(report("peers-one", "bare-jni").table().exitCode()).isEqualTo(2);
    }

    private static List<String> linesOf(Report report, Row row) {
        return report.table()
                .toString()
                .lines()
                .filter(line -> line.startsWith(row.title() + "  "))
                .toList();
    }

    private static final Map<String, String> MACHINE =
            Map.of("processor", "two & a <cable>", "date", "2026-11-27");

    @Test
    void aPageHasAllProgramsThatDoTheSame() throws Exception {
        givenPeers();
        assertThat(Page.REQUESTS.text(measurements, MACHINE))
                .contains("# What a request costs\n", "](requests.svg)", "date: 2026-11-27")
                .containsSubsequence(
                        "| One send and its poll | C | 21.0 us | 20.0 to 22.0 |  |\n",
                        "|  | raw FFM | 21.5 us | 21.0 to 22.0 | 1.02 |\n",
                        "|  | Verbena, confined | 31.5 us | 30.0 to 33.0 | 1.50 |\n")
                .doesNotContain("rejected", "bare JNI |", "Soft-RoCE, without the kernel |");
        Element svg = parsed(Page.REQUESTS.plot(measurements, MACHINE));
        assertThat(svg.getTextContent())
                .contains("One send and its poll", "raw FFM", "31.5", "two & a <cable>")
                .doesNotContain("NaN", "Infinity", "Chain");
        assertThat(svg.getElementsByTagName("rect").getLength()).isEqualTo(1 + 3);
    }

    @Test
    void aPageOfWhichNothingWasMeasuredIsNotThere() {
        givenPeers();
        assertThat(Page.REQUESTS.isMeasured(measurements)).isTrue();
        assertThat(Page.MESSAGES.isMeasured(measurements)).isFalse();
    }

    @Test
    void aRunIsRejectedIfCVariesInTheSimplestRow() {
        given(Row.PEERS_CHAIN, "c", Side.C, 9, 11).given(Row.LOAD_QUEUE_PAIRS, "64", Side.C, 2, 4);
        assertThat(Page.rejection(measurements)).isEmpty();
        given(Row.PEERS_ONE, "c", Side.C, 20, 22); // 10 %
        assertThat(Page.rejection(measurements)).isEmpty();
        given(Row.PEERS_ONE, "c", Side.C, 20, 23);
        assertThat(Page.rejection(measurements))
                .contains(
                        "C itself varied by 15 % between forks (One send and its poll: 20.0 to 23.0 us); at most 10 % are allowed");
        assertThat(Page.SCALE.text(measurements, MACHINE)).contains("**This run is rejected:** C");
    }

    @Test
    void aReferenceThatVariesIsComparedWithNothing() {
        given(Row.PEERS_NETTY_64, "c", Side.C, 10, 11) // epoll, 10 %
                .given(Row.PEERS_NETTY_64, "netty-verbena", Side.JAVA, 1, 2);
        given(Row.PEERS_NETTY_1048576, "c", Side.C, 10, 13)
                .given(Row.PEERS_NETTY_1048576, "netty-verbena", Side.JAVA, 1, 2);
        assertThat(Page.NETTY.text(measurements, MACHINE))
                .containsSubsequence(
                        "| Netty epoll over TCP | 10.5 us | 10.0 to 11.0 |  |",
                        "| Netty over Verbena | 1.50 us | 1.00 to 2.00 | 0.14 |",
                        "| Netty epoll over TCP | 11.5 us | 10.0 to 13.0 | varied by 30 %: no ratios |",
                        "| Netty over Verbena | 1.50 us | 1.00 to 2.00 |  |")
                .doesNotContain("rejected");
    }

    private String verdict(String row, String who, String to, double least, double most) {
        Limit.Verdict verdict = new Limit(row, who, to, least, most).verdict(measurements);
        return (verdict.broken() ? "broken: " : "") + verdict.words();
    }

    @Test
    void aLimitIsBrokenOnlyByWhatIsComparedWithSomethingSteady() {
        givenPeers().given(Row.TWO_POLLERS, "", Side.JAVA, 1.7, 1.9);
        given(Row.PEERS_CHAIN, "c", Side.C, 10, 12)
                .given(Row.PEERS_CHAIN, "verbena", Side.JAVA, 33);
        assertThat(verdict("peers-one", "verbena", "c", 0, 1.5))
                .isEqualTo("peers-one verbena to c: 1.50, at most 1.50");
        assertThat(verdict("peers-one", "verbena", "raw-ffm", 0, 1.2))
                .isEqualTo("broken: peers-one verbena to raw-ffm: 1.47, at most 1.20 IS BROKEN");
        assertThat(verdict("peers-chain", "verbena", "c", 0, 2))
                .isEqualTo("peers-chain verbena to c: 3.00, at most 2.00 (but c varies)");
        assertThat(verdict("two-pollers", "", "-", 1.9, Double.MAX_VALUE))
                .isEqualTo("broken: two-pollers: 1.80, at least 1.90 IS BROKEN");
        assertThat(verdict("peers-one", "nio", "c", 0, 1)).endsWith("nio to c: not measured");
    }

    @Test
    void theLimitsAreOfRowsThatExist() throws Exception {
        assertThat(Limit.in(Path.of(Limit.FILE)))
                .hasSizeGreaterThan(10)
                .allSatisfy(limit -> assertThat(Row.of(limit.row())).isPresent())
                .anySatisfy(limit -> assertThat(limit.least()).isPositive());
    }

    @Test
    void theCurvesAreXml() throws Exception {
        for (Side side : Side.values()) {
            given(Row.LOAD_QUEUE_PAIRS, "64", side, 60, 61)
                    .given(Row.LOAD_QUEUE_PAIRS, "1", side, 40, 41);
        }
        Element svg = parsed(Page.SCALE.plot(measurements, MACHINE));
        assertThat(svg.getElementsByTagName("circle").getLength()).isEqualTo(2);
        assertThat(svg.getTextContent()).doesNotContain("NaN", "Infinity");
        assertThat(Page.SCALE.text(measurements, MACHINE))
                .contains("| A request, queue pairs: 64 | C |");
    }

    /** Pages can be written again from the values of an earlier report. */
    @Test
    void valuesAreReadAgain(@TempDir Path folder) throws Exception {
        givenPeers();
        Files.writeString(
                folder.resolve("raw.tsv"),
                Measurement.HEAD + "\n" + measurements.getFirst() + "\n" + measurements.getLast());
        assertThat(Outputs.in(folder, message -> {}))
                .containsExactly(measurements.getFirst(), measurements.getLast());
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
