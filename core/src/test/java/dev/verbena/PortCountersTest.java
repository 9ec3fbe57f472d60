package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** What of the kernel's folders becomes a counter. */
class PortCountersTest {
    @TempDir private Path devices;
    private Path port;

    @BeforeEach
    void makeFolders() throws IOException {
        port = devices.resolve("roce0/ports/1");
        Files.createDirectories(port.resolve("counters"));
        Files.createDirectories(port.resolve("hw_counters"));
    }

    private void counter(String file, String content) throws IOException {
        Files.writeString(port.resolve(file), content);
    }

    private PortCounters read() {
        return PortCounters.read(devices, "roce0", 1);
    }

    @Test
    void bothFoldersAreRead() throws IOException {
        counter("hw_counters/sent_pkts", "17\n");
        counter("counters/port_rcv_errors", "3\n");
        PortCounters counters = read();
        assertThat(counters.values()).containsOnlyKeys("port_rcv_errors", "sent_pkts");
        assertThat(counters.value("sent_pkts")).hasValue(17);
        assertThat(counters.value("port_rcv_errors")).hasValue(3);
        assertThat(counters.value("no_such")).isEmpty();
        assertThat(counters.elapsed()).isZero();
        assertThat(counters.device()).isEqualTo("roce0");
        assertThat(counters.port()).isEqualTo(1);
        assertThat(counters).hasToString("roce0 port 1: {port_rcv_errors=3, sent_pkts=17}");
        assertThatThrownBy(() -> counters.values().put("more", 1L))
                .isInstanceOf(UnsupportedOperationException.class);
    }

    @Test
    void whatIsNoNumberOrCannotBeReadIsLeftOut() throws IOException {
        counter("counters/VL15_dropped", "N/A (no PMA)\n");
        counter("hw_counters/lifespan", "10\n");
        Files.createDirectory(port.resolve("hw_counters/folder"));
        counter("hw_counters/large", "18446744073709551615\n");
        assertThat(read().values()).containsOnlyKeys("large");
        assertThat(read().value("large")).hasValue(-1); // without a sign
    }

    @Test
    void aDeviceWithoutCountersHasNone() {
        assertThat(PortCounters.read(devices, "roce0", 2).values()).isEmpty();
        assertThat(PortCounters.read(devices, "roce7", 1).values()).isEmpty();
    }

    @Test
    void theDifferenceIsOfThoseThatBothHave() throws IOException {
        counter("hw_counters/sent_pkts", "17");
        counter("hw_counters/wraps", "18446744073709551615");
        counter("hw_counters/goes", "1");
        PortCounters earlier = read();
        counter("hw_counters/sent_pkts", "40");
        counter("hw_counters/wraps", "4");
        counter("hw_counters/comes", "1");
        Files.delete(port.resolve("hw_counters/goes"));
        PortCounters difference = read().since(earlier);
        assertThat(difference.values()).containsOnlyKeys("sent_pkts", "wraps");
        assertThat(difference.value("sent_pkts")).hasValue(23);
        assertThat(difference.value("wraps")).hasValue(5);
        assertThat(difference.elapsed()).isBetween(Duration.ofNanos(1), Duration.ofMinutes(1));
    }

    @Test
    void ofAnotherPortThereIsNoDifference() {
        PortCounters other = PortCounters.read(devices, "roce0", 2);
        assertThatThrownBy(() -> read().since(other))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("roce0 port 1")
                .hasMessageContaining("roce0 port 2");
        PortCounters elsewhere = PortCounters.read(devices, "roce1", 1);
        assertThatThrownBy(() -> read().since(elsewhere))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void snapshotsAreEqualByWhatTheyCounted() throws IOException {
        counter("hw_counters/sent_pkts", "17");
        PortCounters one = read();
        assertThat(read()).isEqualTo(one).hasSameHashCodeAs(one);
        assertThat(one).isNotEqualTo(PortCounters.read(devices, "roce0", 2)).isNotEqualTo("");
        assertThat(one).isNotEqualTo(PortCounters.read(devices, "roce1", 1));
        counter("hw_counters/sent_pkts", "18");
        assertThat(read()).isNotEqualTo(one);
    }

    @Test
    void anAdapterKnowsItsPorts() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open("no-such-device", device)) {
            assertThat(adapter.counters(1).values()).isEmpty();
            for (int wrong : new int[] {0, 2}) {
                assertThatThrownBy(() -> adapter.counters(wrong))
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContaining("ports 1 to 1, not " + wrong);
            }
        }
        device.dispose();
    }
}
