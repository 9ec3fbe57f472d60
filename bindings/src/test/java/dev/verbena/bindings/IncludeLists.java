package dev.verbena.bindings;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;

/** What was asked of jextract: the filter files in {@code bindings/jextract}. */
final class IncludeLists {
    private IncludeLists() {}

    /**
     * Maps each name in a filter file to its kind: function, constant, struct, union or typedef.
     */
    static TreeMap<String, String> read(String filter) throws IOException {
        TreeMap<String, String> kinds = new TreeMap<>();
        for (String line : Files.readAllLines(Path.of("jextract", filter + ".includes"))) {
            String[] words = line.strip().split("\\s+");
            if (words.length == 2 && words[0].startsWith("--include-")) {
                kinds.put(words[1], words[0].substring("--include-".length()));
            }
        }
        return kinds;
    }

    /** The names of the given kinds in a filter file. */
    static Set<String> names(String filter, String... kinds) throws IOException {
        Set<String> wanted = Set.of(kinds);
        Set<String> names = new TreeSet<>();
        read(filter)
                .forEach(
                        (name, kind) ->
                                Stream.of(kind)
                                        .filter(wanted::contains)
                                        .forEach(k -> names.add(name)));
        return names;
    }
}
