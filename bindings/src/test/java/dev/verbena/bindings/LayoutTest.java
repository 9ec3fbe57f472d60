package dev.verbena.bindings;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.File;
import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Compares every size, offset and constant of the bindings with the C headers: the C compiler
 * checks one {@code _Static_assert} for each. The headers are those installed here and those that
 * {@code -Dverbena.include} names.
 *
 * <p>rdma-core appends members to some structs from version to version. Whether that matters
 * depends on who allocates the struct:
 *
 * <ul>
 *   <li>The library allocates it ({@link #ALLOCATED_BY_THE_LIBRARY}): the bindings read a prefix,
 *       so the members that they know must not move, and the size may grow.
 *   <li>We allocate it and the call bounds what is written ({@link #WRITTEN_UP_TO_OUR_SIZE}): the
 *       same.
 *   <li>The library allocates it, and prepends members ({@link #GROWS_IN_FRONT}): members are found
 *       from the last one backwards, so their distances to it must not change.
 *   <li>We allocate it and the library knows its size from its own headers, or it is an element of
 *       an array, or embedded in another struct: the sizes must be equal, or the library would
 *       write behind our memory.
 * </ul>
 */
class LayoutTest {
    /** Structs that only functions of the library make; it hands out pointers to them. */
    private static final Set<String> ALLOCATED_BY_THE_LIBRARY =
            Set.of(
                    "ibv_comp_channel",
                    "ibv_context",
                    "ibv_cq",
                    "ibv_device",
                    "ibv_mr",
                    "ibv_mw",
                    "ibv_pd",
                    "ibv_qp",
                    "ibv_srq",
                    "rdma_cm_event",
                    "rdma_cm_id",
                    "rdma_event_channel");

    /**
     * Structs that we allocate and the library fills no further than we say: {@code
     * _ibv_query_gid_table} takes the size of an entry, and the exported {@code ibv_query_port} is
     * the one for callers of the first version, which fills only what the struct had then. {@code
     * query_device_ex} takes the size of the struct.
     */
    private static final Set<String> WRITTEN_UP_TO_OUR_SIZE =
            Set.of("ibv_device_attr_ex", "ibv_gid_entry", "ibv_port_attr");

    /**
     * {@code verbs_context}, which ends with the {@code ibv_context} that the library hands out.
     */
    private static final String GROWS_IN_FRONT = "verbs_context";

    private static final String LAST_MEMBER = "context";

    /** Where C's headers are looked for first; empty for those installed here. */
    record Headers(String include) {
        String complaints(List<Claim> claims) throws Exception {
            return CCompiler.complaints(source(claims), include);
        }

        @Override
        public String toString() {
            return include.isEmpty() ? "installed" : include;
        }
    }

    /**
     * One number the bindings claim: a C expression and the value it must have at least, or
     * exactly.
     */
    record Claim(String expression, String relation, long value) {
        static Claim exact(String expression, long value) {
            return new Claim(expression, "==", value);
        }

        static Claim size(String expression, long value, boolean mayGrow) {
            return new Claim(expression, mayGrow ? ">=" : "==", value);
        }

        String toC() {
            return "_Static_assert((long long)(%s) %s %dLL, \"%s\");"
                    .formatted(expression, relation, value, expression);
        }
    }

    static Stream<Headers> headers() {
        String more = System.getProperty("verbena.include", "");
        return Stream.concat(Stream.of(""), Stream.of(more.split(File.pathSeparator)))
                .distinct()
                .map(Headers::new);
    }

    static Set<String> structsThatMayGrow() {
        Set<String> both = new TreeSet<>(ALLOCATED_BY_THE_LIBRARY);
        both.addAll(WRITTEN_UP_TO_OUR_SIZE);
        return both;
    }

    @BeforeAll
    static void compilerAndHeaders() throws Exception {
        CCompiler.required();
    }

    @ParameterizedTest
    @MethodSource("headers")
    void everyStructHasTheLayoutOfTheHeaders(Headers headers) throws Exception {
        List<Claim> claims = layoutClaims();
        assertThat(claims).as("sizes and offsets found in the bindings").hasSizeGreaterThan(1000);
        assertThat(headers.complaints(claims)).isEmpty();
    }

    @ParameterizedTest
    @MethodSource("headers")
    void everyConstantHasTheValueOfTheHeaders(Headers headers) throws Exception {
        List<Claim> claims = new ArrayList<>();
        for (Field field : Verbs.class.getDeclaredFields()) {
            if (Modifier.isPublic(field.getModifiers()) && field.getType().isPrimitive()) {
                claims.add(Claim.exact(field.getName(), field.getLong(null)));
            }
        }
        assertThat(claims)
                .extracting(Claim::expression)
                .containsExactlyInAnyOrderElementsOf(IncludeLists.names("types", "constant"));
        assertThat(headers.complaints(claims)).isEmpty();
    }

    /** The proof that the two tests above can fail: each claim, falsified, is refused by name. */
    @Test
    void aFalsifiedOffsetIsRefusedByName() throws Exception {
        for (String member :
                List.of("offsetof(struct ibv_send_wr, wr.rdma.rkey)", "sizeof(struct ibv_wc)")) {
            List<Claim> claims = new ArrayList<>(layoutClaims());
            int at = claims.stream().map(Claim::expression).toList().lastIndexOf(member);
            assertThat(at).as(member).isNotNegative();
            claims.set(at, Claim.exact(member, claims.get(at).value() + 4));
            assertThat(new Headers("").complaints(claims)).contains(member);
        }
    }

    // ---- headers of a future version, made of those installed here

    @ParameterizedTest
    @MethodSource("structsThatMayGrow")
    void aStructThatMayGrowIsAcceptedWithAMemberMore(String struct) throws Exception {
        assertThat(complaintsWithAnotherMember(struct, false)).isEmpty();
    }

    @ParameterizedTest
    @MethodSource("structsThatMayGrow")
    void aStructThatMayGrowIsRefusedWithAMemberInFront(String struct) throws Exception {
        assertThat(complaintsWithAnotherMember(struct, true))
                .contains("offsetof(struct " + struct + ",");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ibv_async_event",
                "ibv_device_attr",
                "ibv_qp_attr",
                "ibv_qp_init_attr",
                "ibv_recv_wr",
                "ibv_send_wr",
                "ibv_sge",
                "ibv_srq_init_attr",
                "ibv_wc",
                "rdma_conn_param"
            })
    void aStructThatWeAllocateIsRefusedWithAMemberMore(String struct) throws Exception {
        assertThat(complaintsWithAnotherMember(struct, false))
                .contains("sizeof(struct " + struct + ")");
    }

    @Test
    void aStructThatGrowsInFrontIsAcceptedWithAMemberInFront() throws Exception {
        assertThat(complaintsWithAnotherMember(GROWS_IN_FRONT, true)).isEmpty();
    }

    @Test
    void aStructThatGrowsInFrontIsRefusedWithAMemberBeforeItsSize() throws Exception {
        assertThat(complaintsWithChange("(?m)^\\s*size_t\\s+sz;()", false))
                .contains("offsetof(struct verbs_context, advise_mr)");
    }

    private static String complaintsWithAnotherMember(String struct, boolean inFront)
            throws Exception {
        return complaintsWithChange("(?ms)^struct " + struct + " \\{(.*?)^\\};", inFront);
    }

    /** Compares with headers that have a member more: before the pattern's group, or behind it. */
    private static String complaintsWithChange(String pattern, boolean inFront) throws Exception {
        Path include = Files.createTempDirectory("verbena-include");
        try {
            int changed = 0;
            for (String header : List.of("infiniband/verbs.h", "rdma/rdma_cma.h")) {
                String text = Files.readString(Path.of("/usr/include", header));
                Matcher definition = Pattern.compile(pattern).matcher(text);
                if (definition.find()) {
                    int at = inFront ? definition.start(1) : definition.end(1);
                    text = text.substring(0, at) + "\n\tlong more[8];\n" + text.substring(at);
                    changed++;
                }
                Path copy = include.resolve(header);
                Files.createDirectories(copy.getParent());
                Files.writeString(copy, text);
            }
            assertThat(changed).as("matches of " + pattern).isEqualTo(1);
            return new Headers(include.toString()).complaints(layoutClaims());
        } finally {
            try (Stream<Path> files = Files.walk(include)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
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
            if (type.equals(GROWS_IN_FRONT)) {
                distances(cName, layout, claims::add);
                continue;
            }
            boolean mayGrow = structsThatMayGrow().contains(type);
            claims.add(Claim.size("sizeof(" + cName + ")", layout.byteSize(), mayGrow));
            // jextract's own members of the opaque pthread stand-ins have no counterpart in C.
            if (!kinds.get(type).equals("typedef")) {
                members(cName, "", 0, layout, claims::add);
                offsetMethods(cName, "", type(type), claims::add);
            }
        }
        return claims;
    }

    private static void distances(String cName, GroupLayout layout, Consumer<Claim> claims) {
        long last = layout.byteOffset(MemoryLayout.PathElement.groupElement(LAST_MEMBER));
        for (MemoryLayout member : layout.memberLayouts()) {
            String name = member.name().orElse(LAST_MEMBER); // padding has no name
            if (!name.equals(LAST_MEMBER)) {
                long offset = layout.byteOffset(MemoryLayout.PathElement.groupElement(name));
                claims.accept(
                        Claim.exact(
                                "offsetof(%s, %s) - offsetof(%s, %s)"
                                        .formatted(cName, LAST_MEMBER, cName, name),
                                last - offset));
            }
        }
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
                claims.accept(Claim.exact("offsetof(%s, %s)".formatted(cName, path), offset));
                claims.accept(
                        Claim.exact(
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
                claims.accept(Claim.exact(expression, (long) method.invoke(null)));
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
