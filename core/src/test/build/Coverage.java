import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.Node;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import javax.xml.parsers.DocumentBuilderFactory;

/**
 * Prints what JaCoCo measured: lines covered of each package, and every uncovered line of the
 * packages that hold the logic. The build runs it: {@code java Coverage.java jacoco.xml}.
 */
class Coverage {
    private static final List<String> LISTED =
            List.of(
                    "dev/verbena/internal/queue",
                    "dev/verbena/internal/connect",
                    "dev/verbena/internal/runtime");

    public static void main(String[] arguments) throws Exception {
        Path report = Path.of(arguments[0]);
        if (!Files.exists(report)) {
            System.out.println("Coverage: no tests were run");
            return;
        }
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
        factory.setFeature("http://apache.org/xml/features/nonvalidating/load-external-dtd", false);
        Document document = factory.newDocumentBuilder().parse(report.toFile());
        System.out.println("Coverage of core by unit tests, lines:");
        List<String> uncovered = new ArrayList<>();
        for (Element part : children(document.getDocumentElement(), "package")) {
            print(part.getAttribute("name").replace('/', '.'), part);
            if (LISTED.contains(part.getAttribute("name"))) {
                for (Element source : children(part, "sourcefile")) {
                    for (Element line : children(source, "line")) {
                        if (line.getAttribute("ci").equals("0")) {
                            uncovered.add(
                                    source.getAttribute("name") + ":" + line.getAttribute("nr"));
                        }
                    }
                }
            }
        }
        print("all", document.getDocumentElement());
        System.out.println(
                "Uncovered in internal.queue, internal.connect and internal.runtime: "
                        + (uncovered.isEmpty() ? "none" : String.join(" ", uncovered)));
    }

    private static void print(String name, Element counted) {
        for (Element counter : children(counted, "counter")) {
            if (counter.getAttribute("type").equals("LINE")) {
                int covered = Integer.parseInt(counter.getAttribute("covered"));
                int all = covered + Integer.parseInt(counter.getAttribute("missed"));
                System.out.printf(
                        "  %-30s %5d of %5d, %3d %%%n", name, covered, all, 100 * covered / all);
            }
        }
    }

    private static List<Element> children(Element parent, String name) {
        List<Element> found = new ArrayList<>();
        for (Node node = parent.getFirstChild(); node != null; node = node.getNextSibling()) {
            if (node.getNodeName().equals(name)) {
                found.add((Element) node);
            }
        }
        return found;
    }
}
