package dev.verbena.internal.verbs;

import dev.verbena.bindings.NativeTypes;

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
 * Whether rdma-core's libraries can be called here, asked before any generated class is touched.
 */
public final class RdmaCore {
    private static final int DESCRIPTORS = 4;
    private static final String DENIED =
            "Java denies Verbena native access, which both its modules need: run with"
                    + " --enable-native-access=dev.verbena,dev.verbena.bindings, or"
                    + " --enable-native-access=ALL-UNNAMED when Verbena is on the class path";

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
            return bindingsMayCall() ? "" : DENIED;
        } catch (IllegalArgumentException e) {
            return ("%s, a library of rdma-core, cannot be loaded: install it with \"apt"
                            + " install %s\" (Debian, Ubuntu) or \"dnf install %s\" (Fedora)")
                    .formatted(library, debianPackages, fedoraPackages);
        } catch (IllegalCallerException e) {
            return DENIED;
        }
    }

    /**
     * Whether this process may open no more files, or too few to look for devices: a socket, a
     * folder, a file in it, a device. To be asked before anything else. Without a descriptor
     * libibverbs finds a kernel without RDMA (ENOSYS), librdmacm a machine without devices
     * (ENODEV), the loader no library; and classes whose initialisation failed are of no use to
     * this process any more.
     *
     * @return 0, or a negative EMFILE or ENFILE
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
                return 0; // cannot be known
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

    /**
     * Whether the bindings have native access too: a module of their own, which the flag may have
     * left out.
     */
    private static boolean bindingsMayCall() {
        try {
            return NativeTypes.C_POINTER != null; // made by a restricted method, with no library
        } catch (LinkageError e) {
            // Its initialisation failed, now or before. Nothing in there works then, ever.
            if (NativeTypes.class.getModule().isNativeAccessEnabled()) {
                throw e;
            }
            return false;
        }
    }
}
