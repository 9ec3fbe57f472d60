package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.tools.Doctor;

import org.junit.jupiter.api.Test;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** What the doctor says of a machine that is well. */
@NeedsDevices
class DoctorTest {
    @Test
    void saysWhichGidWouldBeUsedAndWhy() {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        boolean well = Doctor.examine(new PrintStream(said, true, StandardCharsets.UTF_8));
        assertThat(well).as(said.toString(StandardCharsets.UTF_8)).isTrue();
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getFirst())) {
            assertThat(said.toString(StandardCharsets.UTF_8))
                    .contains("Device " + adapter.name())
                    .contains(adapter.gid().gid() + ", chosen: RoCE v2 before v1")
                    .contains("connections by IP address: yes")
                    .contains("Lockable memory: ");
        }
    }
}
