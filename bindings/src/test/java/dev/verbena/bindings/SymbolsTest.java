package dev.verbena.bindings;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Every function the bindings can call exists in the libraries installed here. */
class SymbolsTest {
    @ParameterizedTest
    @CsvSource({"libibverbs.so.1, LibIbverbs, fn-ibverbs", "librdmacm.so.1, LibRdmacm, fn-rdmacm"})
    void everyBoundFunctionIsExported(String library, String className, String filter)
            throws Exception {
        // By name and without initialising: the generated class opens its library when it is
        // initialised.
        Class<?> c =
                Class.forName(
                        getClass().getPackageName() + "." + className,
                        false,
                        getClass().getClassLoader());
        Set<String> bound =
                Arrays.stream(c.getDeclaredMethods())
                        .map(Method::getName)
                        .filter(n -> n.endsWith("$descriptor"))
                        .map(n -> n.substring(0, n.length() - "$descriptor".length()))
                        .collect(Collectors.toCollection(TreeSet::new));
        assertThat(bound).isEqualTo(IncludeLists.names(filter, "function"));

        try (Arena arena = Arena.ofConfined()) {
            SymbolLookup symbols = open(library, arena);
            assertThat(bound).allSatisfy(f -> assertThat(symbols.find(f)).as(f).isPresent());
        }
    }

    @SuppressWarnings("restricted")
    private static SymbolLookup open(String library, Arena arena) {
        try {
            return SymbolLookup.libraryLookup(library, arena);
        } catch (IllegalArgumentException e) {
            String sentence =
                    library
                            + " is not installed, so its functions cannot be looked up"
                            + " (Debian, Ubuntu: ibverbs-providers, librdmacm1; Fedora: rdma-core)";
            if (System.getProperty("verbena.headers", "optional").equals("required")) {
                fail(sentence);
            }
            System.err.println("SKIPPED: " + sentence);
            return abort(sentence);
        }
    }
}
