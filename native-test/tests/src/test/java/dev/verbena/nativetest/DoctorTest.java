package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Port;

import org.junit.jupiter.api.Test;

import java.util.regex.Pattern;

/** What {@code doctor} and {@code devices} print on a machine where RDMA can be used. */
@NeedsDevices
class DoctorTest {
    private static String outputOf(String command, String... arguments) throws Exception {
        ToolRun run = ToolRun.of(command, arguments);
        assertThat(run.exitCode()).as(run::toString).isZero();
        return run.out();
    }

    @Test
    void saysWhichGidWouldBeUsedAndWhy() throws Exception {
        String said = outputOf("doctor");
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getFirst())) {
            assertThat(said)
                    .contains("Device " + adapter.name())
                    .contains(adapter.gid().gid() + ", chosen: RoCE v2 before v1")
                    .contains("connections by IP address: yes")
                    .contains("Lockable memory: ");
        }
    }

    @Test
    void doctorSaysTheSameInJson() throws Exception {
        String said = outputOf("doctor", "--json");
        assertThat(said)
                .matches(Pattern.compile("\\{\"usable\":true,\"problems\":\\[],.*}\n"))
                .containsPattern("\"lockable_bytes\":(null|\\d+),\"devices\":\\[\\{")
                .containsPattern(FIRST_PORT)
                .contains(jsonOfFirst())
                .contains("\"problem\":null,\"connections\":true,\"registration\":true}");
    }

    @Test
    void devicesListsPortsAndTheGidThatWouldBeUsed() throws Exception {
        String said = outputOf("devices");
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getFirst())) {
            Port port = adapter.ports().getFirst();
            assertThat(said)
                    .contains("Device " + adapter.name())
                    .containsPattern(
                            "port %d: link up, %s, network interfaces? [^,]+, MTU %d of at most %d, "
                                    .formatted(
                                            port.number(),
                                            port.linkLayer(),
                                            port.mtuBytes(),
                                            port.maxMtuBytes()))
                    .containsPattern("Gbit/s \\(\\w+ x\\d+\\)")
                    .contains(adapter.gid().gid() + ", chosen: RoCE v2 before v1");
        }
    }

    @Test
    void devicesSaysTheSameInJson() throws Exception {
        assertThat(outputOf("devices", "--json"))
                .matches(Pattern.compile("\\{\"devices\":\\[\\{.*}]}\n"))
                .containsPattern(FIRST_PORT)
                .contains(jsonOfFirst())
                .contains("\"problem\":null}");
    }

    private static final Pattern FIRST_PORT =
            Pattern.compile(
                    "\"ports\":\\[\\{\"number\":1,\"link_up\":true,\"link_layer\":\"\\w+\","
                            + "\"network_interfaces\":\\[\"[^]]+\"],\"mtu_bytes\"");

    /** What both print of the first device, from its first port's MTU to the choice of its GID. */
    private static String jsonOfFirst() {
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getFirst())) {
            Port port = adapter.ports().getFirst();
            StringBuilder gids = new StringBuilder();
            for (Port.GidEntry gid : port.gids()) {
                gids.append(gids.isEmpty() ? "" : ",").append('{').append(json(gid)).append('}');
            }
            return ("\"mtu_bytes\":%d,\"max_mtu_bytes\":%d,\"max_message_bytes\":%d,\"lid\":%d,"
                            + "\"bits_per_second\":%d,\"speed\":\"%s\",\"width\":%d,\"gids\":[%s]}],"
                            + "\"chosen_gid\":{\"port\":%d,%s,\"reason\":\"%s\"}")
                    .formatted(
                            port.mtuBytes(),
                            port.maxMtuBytes(),
                            port.maxMessageBytes(),
                            port.lid(),
                            port.bitsPerSecond(),
                            port.speed(),
                            port.width(),
                            gids,
                            adapter.gid().port(),
                            json(adapter.gid().gid()),
                            adapter.gid().reason());
        }
    }

    private static String json(Port.GidEntry gid) {
        return "\"index\":%d,\"gid\":\"%s\",\"type\":\"%s\""
                .formatted(gid.index(), gid.gid(), gid.type().name().toLowerCase());
    }
}
