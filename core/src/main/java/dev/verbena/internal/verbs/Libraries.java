package dev.verbena.internal.verbs;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.util.ArrayList;
import java.util.List;

/**
 * The libraries whose functions are called. Each is loaded with its first function.
 *
 * <p>Call {@link #problemWithVerbs} or {@link #problemWithConnections} first: a class cannot be
 * initialized if its functions are missing.
 */
@SuppressWarnings("restricted") // loading the libraries is what this module asks native access for
public final class Libraries {
    private static final String VERBS = "libibverbs.so.1";
    private static final String CONNECTIONS = "librdmacm.so.1";
    private static final int DESCRIPTORS = 4;
    private static final String DENIED =
            "Java denies Verbena native access: run with --enable-native-access=dev.verbena, or"
                    + " --enable-native-access=ALL-UNNAMED when Verbena is on the class path";

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

    private static SymbolLookup load(String library) {
        return SymbolLookup.libraryLookup(library, Arena.global());
    }

    private static NativeFunction find(SymbolLookup library, String name) {
        return new NativeFunction(library.findOrThrow(name));
    }

    /**
     * Tries to load libibverbs. Returns "" if it can be called, otherwise one sentence that says
     * what to do: initializing a class that calls a missing library would throw an {@code
     * ExceptionInInitializerError}.
     */
    public static String problemWithVerbs() {
        return problemWith(
                VERBS, "_ibv_query_gid_table", "libibverbs1 ibverbs-providers", "libibverbs");
    }

    /** As {@link #problemWithVerbs}, for librdmacm, which is needed to connect by IP address. */
    public static String problemWithConnections() {
        return problemWith(CONNECTIONS, "rdma_establish", "librdmacm1", "librdmacm");
    }

    /** As {@link #problemWithVerbs}; {@code newest} of the functions that are needed. */
    static String problemWith(
            String library, String newest, String debianPackages, String fedoraPackages) {
        try {
            return load(library).find(newest).isPresent()
                    ? ""
                    : "%s is too old, it has no %s: rdma-core 44 or newer is needed"
                            .formatted(library, newest);
        } catch (IllegalArgumentException e) {
            return ("%s, a library of rdma-core, cannot be loaded: install it with \"apt"
                            + " install %s\" (Debian, Ubuntu) or \"dnf install %s\" (Fedora)")
                    .formatted(library, debianPackages, fedoraPackages);
        } catch (IllegalCallerException e) {
            return DENIED;
        }
    }

    /**
     * Checks that this process can still open the few files that the search for devices needs: a
     * socket, a directory, a file in it, a device. Returns 0, -EMFILE or -ENFILE. To be called
     * first: without a free descriptor, libibverbs reports a kernel without RDMA (ENOSYS),
     * librdmacm a machine without devices (ENODEV), and the loader finds no library; and a class
     * whose initialization failed stays unusable for the life of the process.
     */
    public static int exhausted() {
        File present = new File("/dev/null");
        List<InputStream> opened = new ArrayList<>();
        try {
            while (opened.size() < DESCRIPTORS) {
                opened.add(new FileInputStream(present));
            }
            return 0;
        } catch (IOException e) {
            if (!present.exists()) {
                return 0; // no /dev/null: cannot be checked
            }
            return String.valueOf(e.getMessage()).contains("in system")
                    ? -Errno.ENFILE
                    : -Errno.EMFILE;
        } finally {
            opened.forEach(Libraries::close);
        }
    }

    private static void close(InputStream opened) {
        try {
            opened.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
