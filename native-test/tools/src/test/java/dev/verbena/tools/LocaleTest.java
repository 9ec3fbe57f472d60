package dev.verbena.tools;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.Gid;
import dev.verbena.Port;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * Data, names of files and tables do not depend on the user's locale: here one with other digits.
 */
class LocaleTest {
    private final Locale before = Locale.getDefault();

    @BeforeEach
    void setLocale() {
        Locale.setDefault(Locale.forLanguageTag("ar-EG"));
    }

    @AfterEach
    void restoreLocale() {
        Locale.setDefault(before);
    }

    @Test
    void pingSendsWhatRpingSends() {
        byte[] data = new byte[16];
        PingData.fill(MemorySegment.ofArray(data), 42);
        assertThat(new String(data, StandardCharsets.ISO_8859_1)).startsWith("rdma-ping-42: ");
    }

    @Test
    void roundTripsHaveDecimalPoints() {
        RoundTrips times = new RoundTrips();
        times.add(1_234_500);
        assertThat(times.toString()).contains("min 1,234.5,");
    }

    @Test
    void interfacesOfPortsAreFound(@TempDir Path sys) throws Exception {
        FakeDevice device = new FakeDevice();
        device.gids =
                List.of(
                        new Port.GidEntry(
                                1, 0, new Gid(0, 0xFFFF_0A00_0001L), Port.GidType.ROCE_V2, 0));
        Path table = Files.createDirectories(sys.resolve("ports/1/gid_attrs/ndevs"));
        Files.writeString(table.resolve("0"), "eth0\n");
        try (Adapter adapter = FakeAdapters.open(device)) {
            assertThat(DeviceFacts.interfaces(sys, adapter.ports().getFirst()))
                    .containsExactly("eth0");
        }
        device.dispose();
    }
}
