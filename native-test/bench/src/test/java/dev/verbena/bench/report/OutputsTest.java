package dev.verbena.bench.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.InstanceOfAssertFactories.STRING;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

class OutputsTest {
    /**
     * What perftest 4.5 printed on Soft-RoCE, less the lines above; that about frequencies is one
     * which it prints on other machines.
     */
    private static final String LATENCY_HEAD =
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n";

    private static final String LATENCY =
            " GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:18:77:01\n"
                    + "---------------------------------------------------------------------------------------\n"
                    + LATENCY_HEAD
                    + " 64      2000          17.29          385.63       18.03    \t       20.58       \t20.03  \t\t128.77  \t\t378.79 \n"
                    + "---------------------------------------------------------------------------------------\n";

    private static final String BANDWIDTH =
            " Outstand reads  : 128\n"
                    + " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
                    + "Conflicting CPU frequency values detected: 2000.000000 != 2249.998000. CPU Frequency is not max.\n"
                    + " 65536      500              31.86              31.26  \t\t   0.000500\n";

    @Test
    void latencyOfPerftest() {
        assertThat(Outputs.read("send-latency-c-2.txt", LATENCY))
                .extracting(Measurement::toString)
                .containsExactly("send-latency\t64\tc\t2\t18.03\tus");
    }

    @Test
    void severalTablesInOneFile() {
        String second = LATENCY.replace(" 64  ", " 65536  ").replace("18.03", "1986.21");
        assertThat(Outputs.read("write-latency-c-1.txt", LATENCY + second))
                .extracting(Measurement::parameter, Measurement::value)
                .containsExactly(tuple("64", 18.03), tuple("65536", 1986.21));
    }

    private static org.assertj.core.groups.Tuple tuple(Object... values) {
        return org.assertj.core.groups.Tuple.tuple(values);
    }

    @Test
    void messagesOfSeveralPrograms() {
        String output = "RESULT\tmessage\tregistered bytes=65536\t1770.5\tns\n";
        assertThat(Outputs.read("peers-verbena-registered-java-2.txt", output))
                .extracting(Measurement::toString)
                .containsExactly("peers-message-65536\tverbena-registered\tjava\t2\t1770.5\tns");
        assertThat(Outputs.read("peers-c-c-1.txt", output.replace("registered", "c")))
                .extracting(Measurement::toString)
                .containsExactly("peers-message-65536\tc\tc\t1\t1770.5\tns");
    }

    @Test
    void bandwidthOfPerftest() {
        assertThat(Outputs.read("read-bandwidth-c-1.txt", BANDWIDTH))
                .extracting(Measurement::toString)
                .containsExactly("read-bandwidth\t65536\tc\t1\t31.26\tMiB/s");
    }

    @Test
    void messageRateOfPerftest() {
        String output = BANDWIDTH.replace("65536", "64").replace("0.000500", "0.021895");
        assertThat(Outputs.read("message-rate-c-1.txt", output))
                .extracting(Measurement::toString)
                .containsExactly("message-rate\t64\tc\t1\t21.895\tk/s");
    }

    @Test
    void outputOfAProgramThatFailedHoldsNothing() {
        assertThat(
                        Outputs.read(
                                "send-latency-c-1.txt",
                                LATENCY_HEAD + " Completion with error at client\n"))
                .isEmpty();
    }

    @Test
    void latencyOfPerf() {
        String output =
                """
                {"bytes":64,"iterations":300,"t_min_usec":17.100000,"t_max_usec":400.250000,"t_typical_usec":18.500000,
                "t_avg_usec":20.100000,"t_stdev_usec":3.500000,"percentiles_usec":{"50":18.500000,"99.9":301.500000,"100":400.250000},
                "run":{"operation":"send","measure":"lat","signal_every":null,"inline":0,"events":false}}
                """
                        .replace("\n", "");
        assertThat(Outputs.read("send-latency-java-3.txt", "Connected\n" + output + "\n"))
                .extracting(Measurement::toString)
                .containsExactly("send-latency\t64\tjava\t3\t18.5\tus");
    }

    @Test
    void bandwidthOfPerf() {
        String output =
                "{\"bytes\":4096,\"bw_peak_mib_per_sec\":null,\"bw_average_mib_per_sec\":29.25,\"msg_rate_mpps\":0.0075}\n";
        assertThat(Outputs.read("send-bandwidth-java-1.txt", output))
                .extracting(Measurement::toString)
                .containsExactly("send-bandwidth\t4096\tjava\t1\t29.25\tMiB/s");
        assertThat(Outputs.read("message-rate-java-1.txt", output))
                .extracting(Measurement::toString)
                .containsExactly("message-rate\t4096\tjava\t1\t7.5\tk/s");
    }

    @Test
    void aFileThatCannotBeUnderstoodIsLeftOutAndReported(@TempDir Path folder) throws IOException {
        Files.writeString(folder.resolve("send-latency-c-1.txt"), LATENCY);
        Files.writeString(folder.resolve("send-latency-java-1.txt"), "{\"bytes\":64,\"iter");
        Files.writeString(folder.resolve("send-latency-java-1.server"), "{");
        List<String> complaints = new ArrayList<>();
        assertThat(Outputs.in(folder, complaints::add)).hasSize(1);
        assertThat(complaints)
                .singleElement(STRING)
                .contains("send-latency-java-1.txt", "in the middle of a string");
    }

    @Test
    void roundsOfAForkBecomeOneValue() {
        String output =
                """
                LISTENING
                RESULT\tregister-deregister\tbytes=4096\t9.5\tus
                RESULT\tregister\tbytes=4096\t5\tus
                RESULT\tregister-deregister\tbytes=4096\t30\tus
                about to register more
                RESULT\tregister-deregister\tbytes=4096\t10.5\tus
                RESULT\tregister-deregister\tbytes=1073741824\t2000\tus
                RESULT\tconnect-disconnect\t-\t4000\tus
                RESULT\tconnect\t-\t3000\tus
                RESULT\tevents\tbytes=64 mean\t50\tus
                RESULT\tevents\tbytes=64 median\t40\tus
                RESULT\tpost-poll\tchain=16\t20\tns
                RESULT\tpost-poll\tchain=1\t40\tns
                RESULT\tarm-await\t-\t900\tns
                RESULT\tload-depth\t4096\t45\tns
                RESULT\tinstructions\tmessage-rate\t22000\tinstructions
                RESULT\tinstructions-in-processes\tevents\t550\tinstructions
                RESULT\tinstructions-in-kernel\tread-bandwidth\t9000\tinstructions
                """;
        assertThat(Outputs.read("register-c-1.txt", output))
                .extracting(Measurement::row, Measurement::parameter, Measurement::value)
                .containsExactly(
                        tuple("register", "4096", 10.5),
                        tuple("register", "1073741824", 2000.0),
                        tuple("connect", "", 4000.0),
                        tuple("events", "", 40.0),
                        tuple("chain", "", 20.0),
                        tuple("chain-confined", "", 20.0),
                        tuple("batch-confined", "", 20.0),
                        tuple("prepared-confined", "", 20.0),
                        tuple("post-poll", "", 40.0),
                        tuple("post-poll-confined", "", 40.0),
                        tuple("arm-await", "", 900.0),
                        tuple("load-depth", "4096", 45.0),
                        tuple("instructions", "message-rate", 22000.0),
                        tuple("instructions-in-processes", "events", 550.0),
                        tuple("instructions-in-kernel", "read-bandwidth", 9000.0));
    }

    @Test
    void linesOfPeersAreTheirs() {
        String output =
                """
                RESULT\tpost-poll\tchain=1\t21\tns
                RESULT\tpost-poll\tchain=1\t23\tns
                RESULT\tpost-poll\tchain=16\t7\tns
                RESULT\tload-queue-pairs\t1024\t16\tns
                RESULT\tload-messages\t5000\t190\tns
                """;
        assertThat(Outputs.read("peers-raw-ffm-java-2.txt", output))
                .extracting(Measurement::toString)
                .containsExactly(
                        "peers-one\traw-ffm\tjava\t2\t22.0\tns",
                        "peers-chain\traw-ffm\tjava\t2\t7.0\tns",
                        "peers-queue-pairs\traw-ffm\tjava\t2\t16.0\tns",
                        "peers-connections-5000\traw-ffm\tjava\t2\t190.0\tns");
        assertThat(Outputs.read("peers-c-c-2.txt", output))
                .extracting(Measurement::row, Measurement::parameter, Measurement::side)
                .contains(tuple("peers-chain", "c", Measurement.Side.C))
                .hasSize(4);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Outputs.read("peers-disni-java-1.txt", output))
                .withMessageContaining("disni");
    }

    @Test
    void linesOfNettyNameTheirTransport() {
        String output =
                """
                RESULT\tnetty\tio_uring bytes=64\t4500\tns
                RESULT\tnetty-allocation\tio_uring bytes=64\t0\tB
                RESULT\tnetty-grpc\tio_uring\t20000\tns
                """;
        assertThat(Outputs.read("peers-netty-io-uring-java-1.txt", output))
                .extracting(Measurement::toString)
                .containsExactly(
                        "peers-netty-64\tnetty-io-uring\tjava\t1\t4500.0\tns",
                        "peers-netty-allocation\tnetty-io-uring\tjava\t1\t0.0\tB",
                        "peers-netty-grpc\tnetty-io-uring\tjava\t1\t20000.0\tns");
    }

    @Test
    void memoryThreadsAndColdStarts() {
        String output =
                """
                RESULT\tstartup\tadapter\t60\tms
                RESULT\tstartup\t10000\t33\tms
                RESULT\tstartup\tstart-to-first\t130\tms
                RESULT\tidle-queue-pair\theap\t2400\tB
                RESULT\tidle-queue-pair\tnative\t9000\tB
                RESULT\tidle-channel\theap\t4000\tB
                RESULT\tidle-channel\tnative\t100\tB
                RESULT\ttwo-threads\t-\t1.95\ttimes
                """;
        assertThat(Outputs.read("cold-start-java-1.txt", output))
                .extracting(Measurement::row, Measurement::parameter, Measurement::value)
                .containsExactly(
                        tuple("cold-start", "10,000 more", 33.0),
                        tuple("cold-start", "first completion", 130.0),
                        tuple("idle-queue-pair", "heap", 2400.0),
                        tuple("idle-queue-pair", "native", 9000.0),
                        tuple("idle-channel", "heap", 4000.0),
                        tuple("idle-channel", "native", 100.0),
                        tuple("two-threads", "", 1.95));
    }

    @Test
    void firstRoundTripsAreThereAndBackOnAverage() {
        assertThat(Outputs.read("first-round-trips-c-1.txt", LATENCY))
                .extracting(Measurement::toString)
                .containsExactly("first-round-trips\t\tc\t1\t41.16\tus");
        String output = "{\"bytes\":64,\"t_typical_usec\":18.5,\"t_avg_usec\":45.5}\n";
        assertThat(Outputs.read("first-round-trips-java-1.txt", output))
                .extracting(Measurement::toString)
                .containsExactly("first-round-trips\t\tjava\t1\t91.0\tus");
    }

    @Test
    void resultsOfJmh() {
        String json =
                """
                [ { "jmhVersion" : "1.37", "benchmark" : "dev.verbena.bench.PostAndPoll.chain", "forks" : 1,
                    "primaryMetric" : { "score" : 41.5, "scoreError" : "NaN", "scoreUnit" : "ns/op",
                                        "rawData" : [ [ 41.0, 42.0 ] ] },
                    "secondaryMetrics" : {
                        "gc.alloc.rate" : { "score" : 1.0E-4 },
                        "gc.alloc.rate.norm" : { "score" : 0.0144, "scoreUnit" : "B/op",
                                                 "rawData" : [ [ 6.5E-4, 5.0E-4, 0.0421 ] ] },
                        "gc.count" : { "score" : 0.0 } } },
                  { "benchmark" : "dev.verbena.bench.PostAndPoll.one",
                    "primaryMetric" : { "score" : 90 },
                    "secondaryMetrics" : { "\\u00b7gc.alloc.rate.norm" : { "rawData" : [ [ 16.0 ] ] } } },
                  { "benchmark" : "dev.verbena.bench.PostAndPoll.one",
                    "params" : { "threads" : "CONFINED" },
                    "primaryMetric" : { "score" : 80 },
                    "secondaryMetrics" : { "\\u00b7gc.alloc.rate.norm" : { "rawData" : [ [ 0 ] ] } } },
                  { "benchmark" : "dev.verbena.bench.PostAndPoll.batch",
                    "params" : { "threads" : "CONFINED" },
                    "primaryMetric" : { "score" : 13 },
                    "secondaryMetrics" : {} },
                  { "benchmark" : "dev.verbena.bench.PostAndPoll.prepared",
                    "params" : { "threads" : "SHARED" },
                    "primaryMetric" : { "score" : 9 },
                    "secondaryMetrics" : {} },
                  { "benchmark" : "dev.verbena.bench.ArmAndAwait.wake",
                    "primaryMetric" : { "score" : 1200 },
                    "secondaryMetrics" : { "gc.alloc.rate.norm" : { "rawData" : [ [ 0.05 ] ] } } },
                  { "benchmark" : "dev.verbena.bench.Messages.byHand",
                    "primaryMetric" : { "score" : 88 },
                    "secondaryMetrics" : { "gc.alloc.rate.norm" : { "rawData" : [ [ 8.0 ] ] } } },
                  { "benchmark" : "dev.verbena.bench.Messages.throughAChannel",
                    "primaryMetric" : { "score" : 200 },
                    "secondaryMetrics" : { "gc.alloc.rate.norm" : { "rawData" : [ [ 0.001 ] ] } } } ]
                """;
        assertThat(Outputs.read("post-poll-java-1.json", json))
                .extracting(Measurement::toString)
                .containsExactly(
                        "chain\t\tjava\t1\t41.5\tns",
                        "allocation\tchain\tjava\t1\t6.5E-4\tB",
                        "post-poll\t\tjava\t1\t90.0\tns",
                        "allocation\tone\tjava\t1\t16.0\tB",
                        "post-poll-confined\t\tjava\t1\t80.0\tns",
                        "allocation\tone-confined\tjava\t1\t0.0\tB",
                        "batch-confined\t\tjava\t1\t13.0\tns",
                        "arm-await\t\tjava\t1\t1200.0\tns",
                        "message\t\tc\t1\t88.0\tns",
                        "message\t\tjava\t1\t200.0\tns",
                        "allocation\tmessage\tjava\t1\t0.001\tB");
    }

    @Test
    void brokenJsonIsRefused() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Outputs.read("post-poll-java-1.json", "[ { \"benchmark\" : \"on"))
                .withMessageContaining("ends in the middle of a string");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Outputs.read("post-poll-java-1.json", "[ 1 2 ]"))
                .withMessageContaining("wants a ,");
    }
}
