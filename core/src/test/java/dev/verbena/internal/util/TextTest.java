package dev.verbena.internal.util;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.time.Duration;

class TextTest {
    @ParameterizedTest(name = "{0}: {1}")
    @CsvSource({
        "PT37.304635352S, 37.3 s",
        "PT1.25S, 1.25 s",
        "PT99.96S, 100 s",
        "PT1H0.5S, 3601 s",
        "PT1S, 1 s",
        "PT100S, 100 s",
        "PT0S, 0 s",
        "PT-5S, -5 s",
        "PT-0.001S, -1 ms",
        "PT0.999999999S, 999.999999 ms",
        "PT0.05S, 50 ms",
        "PT0.001S, 1 ms",
        "PT0.000008191S, 8.191 us",
        "PT0.000001S, 1 us",
        "PT0.000000999S, 999 ns",
        "PT0.000000001S, 1 ns",
        "PT2562047788015215H, 9223372036854774000 s",
    })
    void writesADurationWithItsUnit(Duration time, String text) {
        assertThat(Text.time(time)).isEqualTo(text);
    }

    @Test
    void writesACountWithItsNoun() {
        assertThat(Text.count(0, "attempt")).isEqualTo("0 attempts");
        assertThat(Text.count(1, "attempt")).isEqualTo("1 attempt");
        assertThat(Text.count(2000, "attempt")).isEqualTo("2,000 attempts");
    }
}
