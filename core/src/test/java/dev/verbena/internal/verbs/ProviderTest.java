package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which provider {@code ibv_query_device} names, and the peculiarities of each. */
class ProviderTest {
    @ParameterizedTest
    @CsvSource({
        "0xFFFFFF, 0, rxe",
        "0x626d74, 3, siw",
        "0x02c9, 0x1017, mlx5",
        "0x02c9, 0xa2d6, mlx5",
        "0x02c9, 0x1003, mlx4",
        "0x02c9, 0x6340, mlx4",
        "0x02c9, 0x673c, mlx4",
        "0x8086, 0x1572, irdma",
        "0x14e4, 0x1750, bnxt_re",
        "0x1425, 0x6001, cxgb4",
        "0x19e5, 0xa222, hns",
        "0x1175, 0x24f0, hfi1",
        "0x1dd8, 0x1002, other",
        "0, 0, other",
    })
    void names(String vendor, String part, String name) {
        assertThat(Provider.of(Integer.decode(vendor), Integer.decode(part)).name())
                .isEqualTo(name);
    }

    @ParameterizedTest
    @CsvSource({"0xFFFFFF, true, true", "0x02c9, true, false", "0, true, false"})
    void theBitThatSaysInvalidated(String vendor, boolean library, boolean kernel) {
        Provider provider = Provider.of(Integer.decode(vendor), 0x1017);
        assertThat(provider.invalidated(1 << 3)).isEqualTo(library);
        assertThat(provider.invalidated(1 << 2)).isEqualTo(kernel);
        assertThat(provider.invalidated(1 << 1 | 1)).isFalse();
    }

    @ParameterizedTest
    @CsvSource({
        "0x02c9, 0x1017, true", // mlx5
        "0x02c9, 0x1003, true", // mlx4
        "0x1175, 0, true", // hfi1
        "0xFFFFFF, 0, false",
        "0x626d74, 3, false",
        "0, 0, false",
    })
    void someProvidersReportTheLastReceive(String vendor, String part, boolean announces) {
        assertThat(Provider.of(Integer.decode(vendor), Integer.decode(part)).reportsLastReceive())
                .isEqualTo(announces);
    }

    @ParameterizedTest
    @CsvSource({"0xFFFFFF, true", "0x02c9, false", "0x626d74, false"})
    void someProvidersHideReasons(String vendor, boolean hides) {
        Provider provider = Provider.of(Integer.decode(vendor), 0x1017);
        assertThat(provider.isLocalError(2)).isEqualTo(hides);
        assertThat(provider.isLocalError(9)).isFalse();
        assertThat(provider.isBadTokenToInvalidate(9)).isEqualTo(hides);
        assertThat(provider.isLocalError(4)).isFalse();
    }

    /** A critical downcall that enters the kernel, or waits, holds up every safepoint. */
    @ParameterizedTest
    @CsvSource({
        "0xFFFFFF, SENDS",
        "0x626d74, SENDS",
        "0x1175, ALL",
        "0x14e4, ALL",
        "0x1425, ALL",
        "0x19e5, ALL",
        "0x8086, ALL",
        "0x02c9, NONE",
        "0x1dd8, NONE",
    })
    void whoseCallsMayEnterTheKernel(String vendor, Provider.ThroughKernel expected) {
        assertThat(Provider.of(Integer.decode(vendor), 0x1017).throughKernel()).isEqualTo(expected);
    }
}
