package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.RemoteMemory;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;

/** What of Ping needs no device. */
class PingTest {
    private final StringWriter err = new StringWriter();

    private int run(String line) {
        return Verbena.run(
                new PrintWriter(new StringWriter()),
                new PrintWriter(err, true),
                ("ping " + line).split(" "));
    }

    @ParameterizedTest
    @CsvSource({
        "'pong', pong",
        "'client', ADDRESS",
        "'client 192.0.2.1 --port 0', --port must be 1 to 65535",
        "'client 192.0.2.1 --size 25', --size must be 26 to",
        "'client 192.0.2.1 --count 0', --count must be 1 to",
        "'client 192.0.2.1 --tclass 256', --tclass must be 0 to 255",
        "'client 192.0.2.1 --sl 16', --sl must be 0 to 15",
        "'server --timeout 0', --timeout must be 1 to",
        "'server --clients 0', --clients must be 1 to",
        "'server --clients 2 --forever', mutually exclusive",
    })
    void explainsWrongUsage(String line, String explanation) {
        assertThat(run(line)).isEqualTo(2);
        assertThat(err.toString()).contains(explanation);
    }

    @ParameterizedTest
    @CsvSource({
        "'client 192.0.2.1 --device no-such --size 4K', 1",
        "'server --device no-such --size 1m', 1",
        "'client 192.0.2.1 --device no-such --size 4T', 2",
        "'server --device no-such --size 4K,8K', 2",
    })
    void takesSizesAsPerfDoes(String line, int code) {
        assertThat(run(line)).as(err.toString()).isEqualTo(code);
        assertThat(err.toString().contains("is no size")).isEqualTo(code == 2);
    }

    @Test
    void countsInEnglish() {
        assertThat(Words.count(1, "round")).isEqualTo("1 round");
        assertThat(Words.count(0, "byte")).isEqualTo("0 bytes");
        assertThat(Words.count(4096, "byte")).isEqualTo("4,096 bytes");
    }

    private static MemorySegment data(int size, int round) {
        MemorySegment memory = MemorySegment.ofArray(new byte[size]);
        PingData.fill(memory, round);
        return memory;
    }

    private static String text(MemorySegment memory) {
        return new String(memory.toArray(ValueLayout.JAVA_BYTE), StandardCharsets.US_ASCII);
    }

    /** As "rping -v" of rdma-core 44 printed it. */
    @Test
    void makesTheDataOfRping() {
        assertThat(text(data(64, 0)))
                .isEqualTo("rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\0");
        assertThat(text(data(64, 99)))
                .isEqualTo("rdma-ping-99: jklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`\0");
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 13, 40, 63})
    void seesOneWrongByte(int index) {
        MemorySegment memory = data(64, 7);
        assertThat(PingData.mismatch(memory, 7)).isEqualTo(-1);
        assertThat(PingData.mismatch(memory, 8)).isNotNegative();
        memory.set(ValueLayout.JAVA_BYTE, index, (byte) 1);
        assertThat(PingData.mismatch(memory, 7)).isEqualTo(index);
    }

    /** A peer may announce that, and ends its own session only. */
    @Test
    void takesNoDataForWhatItIs() {
        assertThat(PingData.mismatch(MemorySegment.NULL, 7)).isEqualTo(-1);
    }

    @Test
    void announcesMemoryInNetworkByteOrder() {
        MemorySegment message = MemorySegment.ofArray(new byte[16]);
        RemoteMemory announced = new RemoteMemory(0x0102030405060708L, 0xF0E0D0C0, 0xFFFF);
        RpingMessage.write(announced, message);
        assertThat(message.toArray(ValueLayout.JAVA_BYTE))
                .containsExactly(1, 2, 3, 4, 5, 6, 7, 8, 0xF0, 0xE0, 0xD0, 0xC0, 0, 0, 0xFF, 0xFF);
        assertThat(RpingMessage.read(message)).isEqualTo(announced);
    }

    @Test
    void sumsTimesUp() {
        RoundTrips times = new RoundTrips();
        for (int i = 2000; i > 0; i--) {
            times.add(i * 1000L);
        }
        assertThat(times)
                .hasToString(
                        "Round trips in us: min 1.0, median 1,000.0, 99% 1,980.0, max 2,000.0");
    }
}
