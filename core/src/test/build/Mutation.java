import org.w3c.dom.Document;
import org.w3c.dom.Element;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import javax.xml.parsers.DocumentBuilderFactory;

/**
 * Prints what PIT found: of each class, how many of the changes to it made a test fail, and every
 * change that no test minded and that {@code survivors.txt} does not explain. Ends with 1 when
 * there is such a change. The profile "mutation" runs it: {@code java Mutation.java mutations.xml
 * src/main/java survivors.txt}.
 *
 * <p>A line of survivors.txt is a change and why no test can see it, or need not: {@code
 * Class.method | what PIT changed | the line of source | why}. A line whose change is no longer
 * found is reported.
 */
class Mutation {
    private static final String SEPARATOR = " | ";

    private final Path sources;
    private final Map<Path, List<String>> read = new HashMap<>();
    private final Map<String, int[]> killedOf = new TreeMap<>(); // by class: killed, all
    private final Map<String, String> whys = new HashMap<>(); // by change
    private final Set<String> met = new HashSet<>();
    private final List<String> unexplained = new ArrayList<>();
    private int explained;

    private Mutation(Path sources) {
        this.sources = sources;
    }

    public static void main(String[] arguments) throws Exception {
        Path report = Path.of(arguments[0]);
        if (!Files.exists(report)) {
            System.out.println("Mutation: nothing was changed");
            return;
        }
        Mutation mutation = new Mutation(Path.of(arguments[1]));
        mutation.readExplanations(Path.of(arguments[2]));
        Document document =
                DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(report.toFile());
        var all = document.getDocumentElement().getElementsByTagName("mutation");
        for (int i = 0; i < all.getLength(); i++) {
            mutation.count((Element) all.item(i));
        }
        mutation.print();
        System.exit(mutation.unexplained.isEmpty() ? 0 : 1);
    }

    private void readExplanations(Path file) throws IOException {
        for (String line : Files.readAllLines(file)) {
            if (!line.isBlank() && !line.startsWith("#")) {
                int why = line.lastIndexOf(SEPARATOR); // the line of source may have some, too
                whys.put(line.substring(0, why), line.substring(why + SEPARATOR.length()));
            }
        }
    }

    private void count(Element change) throws IOException {
        String type = text(change, "mutatedClass");
        String outer = type.replaceAll("\\$.*", "");
        int[] counts = killedOf.computeIfAbsent(outer, t -> new int[2]);
        counts[1]++;
        if (change.getAttribute("detected").equals("true")) {
            counts[0]++;
            return;
        }
        int line = Integer.parseInt(text(change, "lineNumber"));
        Path file = sources.resolve(outer.replace('.', '/') + ".java");
        String key =
                "%s.%s | %s | %s"
                        .formatted(
                                type.substring(type.lastIndexOf('.') + 1),
                                text(change, "mutatedMethod"),
                                text(change, "description"),
                                sourceLine(file, line));
        if (whys.containsKey(key)) {
            met.add(key);
            explained++;
        } else {
            unexplained.add(
                    "%s:%d %s%n    %s"
                            .formatted(
                                    file.getFileName(),
                                    line,
                                    change.getAttribute("status").toLowerCase(),
                                    key));
        }
    }

    private String sourceLine(Path file, int line) throws IOException {
        if (!read.containsKey(file)) {
            read.put(file, Files.readAllLines(file));
        }
        return read.get(file).get(line - 1).strip();
    }

    private static String text(Element change, String name) {
        return change.getElementsByTagName(name).item(0).getTextContent();
    }

    private void print() {
        unexplained.forEach(System.out::println);
        System.out.println("Changes to the code that made a test fail:");
        int killed = 0;
        int all = 0;
        for (var each : killedOf.entrySet()) {
            print(each.getKey(), each.getValue()[0], each.getValue()[1]);
            killed += each.getValue()[0];
            all += each.getValue()[1];
        }
        print("all", killed, all);
        System.out.printf(
                "Of those that did not, %d are explained, %d not%n", explained, unexplained.size());
        whys.keySet().stream()
                .filter(
                        key ->
                                !met.contains(key)
                                        && killedOf.keySet().stream().anyMatch(t -> isOf(key, t)))
                .forEach(key -> System.out.println("Explained, but not found any more: " + key));
    }

    private static boolean isOf(String key, String type) {
        return key.matches(type.substring(type.lastIndexOf('.') + 1) + "[.$].*");
    }

    private static void print(String name, int killed, int all) {
        System.out.printf("  %-45s %5d of %5d, %3d %%%n", name, killed, all, 100 * killed / all);
    }
}
