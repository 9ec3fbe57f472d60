package dev.verbena.internal.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;

/**
 * The libraries whose functions are called. Each is loaded with its first function.
 *
 * <p>Check {@link RdmaCore} first: initializing a class fails whose functions are not there.
 */
final class Libraries {
    static final String VERBS = "libibverbs.so.1";
    static final String CONNECTIONS = "librdmacm.so.1";

    private static final class Verbs {
        static final SymbolLookup LOOKUP = load(VERBS);

        private Verbs() {}
    }

    private static final class Connections {
        static final SymbolLookup LOOKUP = load(CONNECTIONS);

        private Connections() {}
    }

    private Libraries() {}

    /** A function of libibverbs. */
    static NativeFunction verbs(String name) {
        return find(Verbs.LOOKUP, name);
    }

    /** A function of librdmacm. */
    static NativeFunction connections(String name) {
        return find(Connections.LOOKUP, name);
    }

    /** A function of the C library. */
    static NativeFunction c(String name) {
        return find(Linker.nativeLinker().defaultLookup(), name);
    }

    @SuppressWarnings("restricted") // loading the library is what native access is asked for
    private static SymbolLookup load(String library) {
        return SymbolLookup.libraryLookup(library, Arena.global());
    }

    private static NativeFunction find(SymbolLookup library, String name) {
        return new NativeFunction(library.findOrThrow(name));
    }
}
