package dev.verbena.bindings;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Every size, offset and constant of the bindings against the C headers installed here, by having
 * the C compiler judge one {@code _Static_assert} for each.
 */
class LayoutTest {
    /** One number the bindings claim: a C expression and the value it must have. */
    record Claim(String expression, long value) {
        String toC() {
            return "_Static_assert((long long)(%s) == %dLL, \"%s\");"
                    .formatted(expression, value, expression);
        }
    }

    @BeforeAll
    static void compilerAndHeaders() throws Exception {
        CCompiler.required();
    }

    @Test
    void everyStructHasTheLayoutOfTheHeaders() throws Exception {
        List<Claim> claims = layoutClaims();
        assertThat(claims).as("sizes and offsets found in the bindings").hasSizeGreaterThan(1000);
        assertThat(CCompiler.complaints(source(claims))).isEmpty();
    }

    @Test
    void everyConstantHasTheValueOfTheHeaders() throws Exception {
        List<Claim> claims = new ArrayList<>();
        for (Field field : Verbs.class.getDeclaredFields()) {
            if (Modifier.isPublic(field.getModifiers()) && field.getType().isPrimitive()) {
                claims.add(new Claim(field.getName(), field.getLong(null)));
            }
        }
        assertThat(claims)
                .extracting(Claim::expression)
                .containsExactlyInAnyOrderElementsOf(IncludeLists.names("types", "constant"));
        assertThat(CCompiler.complaints(source(claims))).isEmpty();
    }

    /** The proof that the two tests above can fail: each claim, falsified, is refused by name. */
    @Test
    void aFalsifiedOffsetIsRefusedByName() throws Exception {
        for (String member :
                List.of("offsetof(struct ibv_send_wr, wr.rdma.rkey)", "sizeof(struct ibv_wc)")) {
            List<Claim> claims = new ArrayList<>(layoutClaims());
            int at = claims.stream().map(Claim::expression).toList().lastIndexOf(member);
            assertThat(at).as(member).isNotNegative();
            claims.set(at, new Claim(member, claims.get(at).value() + 4));
            assertThat(CCompiler.complaints(source(claims))).contains(member);
        }
    }

    @Test
    void everyTypeThatWasAskedForCameOut() throws Exception {
        // jextract accepts a misspelt name in a filter without a word, so what came out is counted.
        for (String type : IncludeLists.names("types", "struct", "union", "typedef")) {
            assertThat(layout(type).byteSize()).as(type).isPositive();
        }
    }

    private static String source(List<Claim> claims) {
        return claims.stream()
                .map(Claim::toC)
                .collect(Collectors.joining("\n", CCompiler.HEADERS, "\n"));
    }

    private static List<Claim> layoutClaims() throws Exception {
        List<Claim> claims = new ArrayList<>();
        Set<String> types = IncludeLists.names("types", "struct", "union", "typedef");
        Map<String, String> kinds = IncludeLists.read("types");
        for (String type : types) {
            String cName = kinds.get(type).equals("typedef") ? type : kinds.get(type) + " " + type;
            GroupLayout layout = layout(type);
            claims.add(new Claim("sizeof(" + cName + ")", layout.byteSize()));
            // jextract's own members of the opaque pthread stand-ins have no counterpart in C.
            if (!kinds.get(type).equals("typedef")) {
                members(cName, "", 0, layout, claims::add);
                offsetMethods(cName, "", type(type), claims::add);
            }
        }
        return claims;
    }

    private static void members(
            String cName, String prefix, long base, GroupLayout group, Consumer<Claim> claims) {
        for (int i = 0; i < group.memberLayouts().size(); i++) {
            MemoryLayout member = group.memberLayouts().get(i);
            if (member instanceof PaddingLayout) {
                continue;
            }
            long offset = base + group.byteOffset(MemoryLayout.PathElement.groupElement(i));
            String name = member.name().orElseThrow();
            boolean anonymous = name.startsWith("$anon$"); // C lifts its members one level up
            String path = anonymous ? prefix : prefix + name;
            if (!anonymous) {
                claims.accept(new Claim("offsetof(%s, %s)".formatted(cName, path), offset));
                claims.accept(
                        new Claim(
                                "sizeof(((%s *)0)->%s)".formatted(cName, path), member.byteSize()));
            }
            if (member instanceof GroupLayout inner) {
                boolean opaque = inner.name().filter(n -> n.startsWith("pthread_")).isPresent();
                if (!opaque && !name.matches("mutex|cond")) {
                    members(cName, anonymous ? prefix : path + ".", offset, inner, claims);
                }
            }
        }
    }

    /**
     * What the generated {@code NAME$offset()} methods answer, which is what the library reads.
     * Those of a nested class count from the nested struct.
     */
    private static void offsetMethods(
            String cName, String prefix, Class<?> c, Consumer<Claim> claims) throws Exception {
        for (Method method : c.getDeclaredMethods()) {
            if (method.getName().endsWith("$offset")) {
                String member = method.getName().replace("$offset", "");
                String expression = "offsetof(%s, %s%s)".formatted(cName, prefix, member);
                if (!prefix.isEmpty()) {
                    String parent = prefix.substring(0, prefix.length() - 1);
                    expression += " - offsetof(%s, %s)".formatted(cName, parent);
                }
                claims.accept(new Claim(expression, (long) method.invoke(null)));
            }
        }
        for (Class<?> inner : c.getDeclaredClasses()) {
            // Function pointers have a class too, without a layout.
            if (Arrays.stream(inner.getDeclaredMethods())
                    .anyMatch(m -> m.getName().equals("layout"))) {
                offsetMethods(cName, prefix + inner.getSimpleName() + ".", inner, claims);
            }
        }
    }

    private static GroupLayout layout(String type) throws Exception {
        return (GroupLayout) type(type).getDeclaredMethod("layout").invoke(null);
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName(LayoutTest.class.getPackageName() + "." + name);
    }
}
