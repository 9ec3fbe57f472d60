package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.Verbs;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.StructLayout;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The constants of {@link Structs} are those of the generated layouts. */
class StructsTest {
    static Class<?>[] structs() {
        return Structs.class.getDeclaredClasses();
    }

    @ParameterizedTest
    @MethodSource("structs")
    void everyConstantIsThatOfTheGeneratedLayout(Class<?> struct) throws Exception {
        GroupLayout layout = generated(struct);
        List<Field> constants =
                List.of(struct.getDeclaredFields()).stream()
                        .filter(field -> field.getType() == long.class)
                        .toList();
        assertThat(constants).isNotEmpty();
        for (Field constant : constants) {
            String name = constant.getName();
            List<Long> expected = new ArrayList<>();
            if (name.equals("SIZE")) {
                expected.add(layout.byteSize());
            } else {
                find(layout, 0, name.toLowerCase(Locale.ROOT), expected);
            }
            assertThat(expected).as(name).containsExactly(constant.getLong(null));
        }
    }

    /** {@code IbvSendWr} is {@code ibv_send_wr}. */
    private static GroupLayout generated(Class<?> struct) throws Exception {
        String name = struct.getSimpleName().replaceAll("(?<=.)([A-Z])", "_$1");
        String generated = Verbs.class.getPackageName() + "." + name.toLowerCase(Locale.ROOT);
        return (GroupLayout) Class.forName(generated).getMethod("layout").invoke(null);
    }

    /** Offsets of what a path of members is, whose names are joined by underscores. */
    private static void find(GroupLayout group, long start, String path, List<Long> offsets) {
        long offset = start;
        for (MemoryLayout member : group.memberLayouts()) {
            String name = member.name().filter(n -> !n.startsWith("$anon")).orElse("");
            if (name.equals(path)) {
                offsets.add(offset);
            } else if (member instanceof GroupLayout inner && name.isEmpty()) {
                find(inner, offset, path, offsets);
            } else if (member instanceof GroupLayout inner && path.startsWith(name + "_")) {
                find(inner, offset, path.substring(name.length() + 1), offsets);
            }
            if (group instanceof StructLayout) {
                offset += member.byteSize();
            }
        }
    }
}
