package dev.verbena.bench.report;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

class NvmeReportTest {
    private static final String VALUES =
            """
            iops	randread:4096:1	c	1	1000	1/s
            iops	randread:4096:1	java	1	500	1/s
            iops	randread:4096:1	java	2	700	1/s
            iops	randread:4096:8	c	1	2000	1/s
            iops	randread:4096:8	java	1	1800	1/s
            iops	randread:4096:64	c	1	2000	1/s
            bandwidth	read:65536:8	c	1	20000000	B/s
            bandwidth	read:65536:8	java	1	15000000	B/s
            instructions	read:65536:8	c	1		instructions
            lossy	default	c	1	81234	ms
            """;

    @TempDir private Path folder;

    private String write(String file) throws IOException {
        Path values = Files.writeString(folder.resolve("values"), VALUES);
        Path machine = Files.writeString(folder.resolve("machine"), "devices: two & two\n");
        Path report = folder.resolve("report");
        NvmeReport.main(new String[] {values.toString(), machine.toString(), report.toString()});
        Path written = report.resolve(file);
        return Files.exists(written) ? Files.readString(written) : "";
    }

    @Test
    void theTableHasWhatBothHaveDone() throws IOException {
        assertThat(write("table.txt"))
                .containsPattern("randread:4096:1 +1,000 +600 \\(500..700\\) +0[.]60")
                .containsPattern("randread:4096:8 +2,000 +1,800 +0[.]90")
                .doesNotContain("randread:4096:64")
                .containsPattern("read:65536:8 +20[.]0 +15[.]0 +0[.]75")
                .containsPattern("nvmet .Linux., default +81[.]2")
                .doesNotContain("instructions ");
    }

    @Test
    void whatWasNotMeasuredIsNotPlotted() throws IOException {
        assertThat(write("iops.svg")).contains("two &amp; two").contains(">Reads<");
        assertThat(write("iops.svg")).doesNotContain(">Writes<").contains("nvmet (Linux)");
        assertThat(write("instructions.svg")).isEmpty();
        assertThat(write("raw.tsv")).startsWith(Measurement.HEAD + "\niops\t");
    }
}
