package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** NDK's numbers, which programs ported from it may have in files and messages. */
class ConstantsTest {
    @Test
    void operationFlags() throws IllegalAccessException {
        Map<String, Integer> flags = new TreeMap<>();
        for (Field field : OpFlags.class.getFields()) {
            flags.put(field.getName(), ((OpFlags) field.get(null)).value());
        }
        assertThat(flags)
                .containsExactlyInAnyOrderEntriesOf(
                        Map.ofEntries(
                                Map.entry("NONE", 0),
                                Map.entry("SILENT_SUCCESS", 0x001),
                                Map.entry("READ_FENCE", 0x002),
                                Map.entry("SEND_AND_SOLICIT_EVENT", 0x004),
                                Map.entry("ALLOW_REMOTE_READ", 0x008),
                                Map.entry("ALLOW_LOCAL_WRITE", 0x010),
                                Map.entry("ALLOW_REMOTE_WRITE", 0x030),
                                Map.entry("INLINE", 0x040),
                                Map.entry("RDMA_READ_SINK", 0x080),
                                Map.entry("RDMA_READ_LOCAL_INVALIDATE", 0x100),
                                Map.entry("DEFER", 0x200)));
    }

    @Test
    void flagsAreJoinedAndNamed() {
        OpFlags both = OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER);
        assertThat(both.value()).isEqualTo(0x201);
        assertThat(both).hasToString("SILENT_SUCCESS|DEFER").isSameAs(OpFlags.ofValue(0x201));
        assertThat(both.contains(OpFlags.DEFER)).isTrue();
        assertThat(both.contains(OpFlags.NONE)).isTrue();
        assertThat(OpFlags.DEFER.contains(both)).isFalse();
        assertThat(OpFlags.NONE).hasToString("NONE");
        assertThat(OpFlags.NONE.and(both)).isSameAs(both);
        assertThat(OpFlags.ofValue(0x3FF))
                .hasToString(
                        "SILENT_SUCCESS|READ_FENCE|SEND_AND_SOLICIT_EVENT|ALLOW_REMOTE_READ|ALLOW_REMOTE_WRITE|INLINE|RDMA_READ_SINK|RDMA_READ_LOCAL_INVALIDATE|DEFER");
        assertThat(OpFlags.ofValue(0x010)).hasToString("ALLOW_LOCAL_WRITE");
        assertThat(OpFlags.ofValue(0x020)).hasToString("0x20"); // half of ALLOW_REMOTE_WRITE
        assertThatThrownBy(() -> OpFlags.ofValue(0x401))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("0x400");
    }

    @Test
    void operationTypes() {
        assertThat(
                        Arrays.stream(OperationType.values())
                                .filter(type -> type.value() <= 0xFFFF)
                                .collect(Collectors.toMap(Enum::name, OperationType::value)))
                .containsExactlyInAnyOrderEntriesOf(
                        Map.of(
                                "RECEIVE",
                                1,
                                "SEND",
                                2,
                                "FAST_REGISTER",
                                4,
                                "BIND",
                                8,
                                "INVALIDATE",
                                16,
                                "READ",
                                32,
                                "WRITE",
                                64,
                                "RECEIVE_AND_INVALIDATE",
                                0x8001));
        assertThat(Arrays.stream(OperationType.values()).filter(OperationType::isReceive))
                .containsExactlyInAnyOrder(
                        OperationType.RECEIVE,
                        OperationType.RECEIVE_AND_INVALIDATE,
                        OperationType.RECEIVE_OF_WRITE);
    }

    @Test
    void accessRightsAndNotifications() {
        assertThat(Access.LOCAL_WRITE.value()).isEqualTo(1);
        assertThat(Access.REMOTE_READ.value()).isEqualTo(2);
        assertThat(Access.REMOTE_WRITE.value()).isEqualTo(5);
        assertThat(Access.RDMA_READ_SINK.value()).isEqualTo(8);
        assertThat(NotifyType.ERRORS.value()).isZero();
        assertThat(NotifyType.ANY.value()).isEqualTo(1);
        assertThat(NotifyType.SOLICITED.value()).isEqualTo(2);
    }
}
