package dev.verbena.bench.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

class SoakPlotTest {
    @Test
    void eachColumnThatHasAFirstValueIsAPanel(@TempDir Path folder) throws IOException {
        Path csv =
                Files.writeString(
                        folder.resolve("soak.csv"),
                        "minutes,threads,never\n0.5,20,0\n30,22,0\n60,21,7\n");
        Path svg = folder.resolve("soak.svg");
        SoakPlot.main(new String[] {csv.toString(), svg.toString()});
        assertThat(svg)
                .content()
                .contains("3 samples in 60 minutes")
                .contains(">threads: at first 20<")
                .doesNotContain("never")
                .doesNotContain("Java (Verbena)") // a legend of one curve says nothing
                .doesNotContain("NaN");
    }

    @Test
    void oneRowIsNoCurve() {
        assertThatThrownBy(() -> SoakPlot.plot(List.of("minutes,threads", "1,20")))
                .hasMessage("A soak of 1 rows has no curve");
    }
}
