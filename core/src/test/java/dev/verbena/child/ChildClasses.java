package dev.verbena.child;

import java.io.File;
import java.net.URI;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The class path of JVMs that tests start: their own has no modules on it. */
public final class ChildClasses {
    private ChildClasses() {}

    /** The folder or jar that a class was loaded from. */
    public static Path folder(Class<?> of) {
        String file = "/" + of.getName().replace('.', '/') + ".class";
        String where = of.getResource(file).toString();
        String root = where.substring(0, where.length() - file.length());
        return Path.of(
                URI.create(root.startsWith("jar:") ? root.substring(4, root.length() - 1) : root));
    }

    /** A class path with the folders or jars that these classes were loaded from. */
    public static String path(Class<?>... classes) {
        return Stream.of(classes)
                .map(ChildClasses::folder)
                .map(Path::toString)
                .collect(Collectors.joining(File.pathSeparator));
    }
}
