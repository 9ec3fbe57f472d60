package dev.verbena.internal.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;

/**
 * Whether rdma-core's libraries can be called here, asked before any generated class is touched.
 */
public final class RdmaCore {
    private RdmaCore() {}

    /**
     * Looks for libibverbs. The generated classes open their library when they are initialised, and
     * a missing one would end there in an {@code ExceptionInInitializerError}; so it is tried here
     * first.
     *
     * @return "" when it can be called, otherwise one sentence on what to do
     */
    public static String problemWithVerbs() {
        return problemWith("libibverbs.so.1", "libibverbs1 ibverbs-providers", "libibverbs");
    }

    /**
     * Looks for librdmacm, which connecting by IP address takes.
     *
     * @return "" when it can be called, otherwise one sentence on what to do
     */
    public static String problemWithConnections() {
        return problemWith("librdmacm.so.1", "librdmacm1", "librdmacm");
    }

    @SuppressWarnings("restricted") // loading libibverbs is what this module asks native access for
    static String problemWith(String library, String debianPackages, String fedoraPackages) {
        try (Arena arena = Arena.ofConfined()) {
            SymbolLookup.libraryLookup(library, arena);
            return "";
        } catch (IllegalArgumentException e) {
            return ("%s, a library of rdma-core, cannot be loaded: install it with \"apt"
                            + " install %s\" (Debian, Ubuntu) or \"dnf install %s\" (Fedora)")
                    .formatted(library, debianPackages, fedoraPackages);
        } catch (IllegalCallerException e) {
            return "Java denies this module native access: run with"
                    + " --enable-native-access=dev.verbena,dev.verbena.bindings, or"
                    + " --enable-native-access=ALL-UNNAMED when Verbena is on the class path";
        }
    }
}
