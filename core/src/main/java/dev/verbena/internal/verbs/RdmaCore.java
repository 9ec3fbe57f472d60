package dev.verbena.internal.verbs;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.util.ArrayList;
import java.util.List;

/**
 * Checks whether rdma-core's libraries can be called. To be called before any generated class is
 * initialized.
 */
public final class RdmaCore {
    private static final int DESCRIPTORS = 4;
    private static final String DENIED =
            "Java denies Verbena native access: run with --enable-native-access=dev.verbena, or"
                    + " --enable-native-access=ALL-UNNAMED when Verbena is on the class path";

    private RdmaCore() {}

    /**
     * Tries to load libibverbs. The generated classes load it when they are initialized, where a
     * missing library causes an {@code ExceptionInInitializerError}; this method returns a readable
     * message instead.
     *
     * @return "" if it can be called, otherwise one sentence that says what to do
     */
    public static String problemWithVerbs() {
        return problemWith(Libraries.VERBS, "libibverbs1 ibverbs-providers", "libibverbs");
    }

    /**
     * Tries to load librdmacm, which is needed to connect by IP address.
     *
     * @return "" if it can be called, otherwise one sentence that says what to do
     */
    public static String problemWithConnections() {
        return problemWith(Libraries.CONNECTIONS, "librdmacm1", "librdmacm");
    }

    @SuppressWarnings("restricted") // loading libibverbs is what this module asks native access for
    static String problemWith(String library, String debianPackages, String fedoraPackages) {
        try {
            SymbolLookup.libraryLookup(library, Arena.global());
            return "";
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
     * socket, a directory, a file in it, a device. To be called first: without a free descriptor,
     * libibverbs reports a kernel without RDMA (ENOSYS), librdmacm a machine without devices
     * (ENODEV), and the loader finds no library; and a class whose initialization failed stays
     * unusable for the life of the process.
     *
     * @return 0 if it can, otherwise -EMFILE or -ENFILE
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
            opened.forEach(RdmaCore::close);
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
