package dev.verbena.child;

import dev.verbena.Adapter;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A program of its own, for what can be tried once in a process only: lists the devices, twice. */
public final class DeviceNames {
    private DeviceNames() {}

    /**
     * Prints the names, or what was thrown.
     *
     * @param folders of classes; when there are any, their classes are loaded, and all descriptors
     *     that the process may have are taken before
     */
    public static void main(String[] folders) throws IOException {
        List<FileInputStream> open = new ArrayList<>();
        for (String folder : folders) {
            load(Path.of(folder));
        }
        try {
            while (folders.length > 0) {
                open.add(new FileInputStream("/dev/null"));
            }
        } catch (IOException e) {
            System.out.println("took " + !open.isEmpty());
        }
        for (int i = 0; i < 2; i++) {
            try {
                System.out.println("names " + Adapter.names());
            } catch (Throwable t) {
                System.out.println(t);
            }
        }
    }

    /** Reading them takes a descriptor. */
    private static void load(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.filter(f -> f.toString().endsWith(".class")).toList()) {
                String name = folder.relativize(file).toString();
                if (!name.equals("module-info.class")) {
                    Class.forName(
                            name.substring(0, name.length() - ".class".length()).replace('/', '.'),
                            false,
                            DeviceNames.class.getClassLoader());
                }
            }
        } catch (ClassNotFoundException e) {
            throw new AssertionError(e);
        }
    }
}
