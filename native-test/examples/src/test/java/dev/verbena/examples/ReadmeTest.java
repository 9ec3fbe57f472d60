package dev.verbena.examples;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The code in the documents is that of the examples: they compile, and the device tests run them.
 */
class ReadmeTest {
    private static final Path ROOT = Path.of("..", "..");
    private static final Path EXAMPLES = Path.of("src/main/java/dev/verbena/examples");
    private static final Pattern BLOCK = Pattern.compile("(?ms)^```java\n(.*?)^```$");
    private static final Pattern MARK = Pattern.compile("\\s*// @(start|end)\\b.*");

    @Test
    void theReadmeHasTheProgramToStartWith() throws IOException {
        assertThat(javaBlocksOf("README.md"))
                .containsExactly(region("HelloMessages", "ask"), program("HelloMessages"));
    }

    @Test
    void thePageOnChannelsHasTheProgramToStartWithAndPartsOfOthers() throws IOException {
        assertThat(javaBlocksOf("core/docs/messaging.md"))
                .containsExactly(
                        program("HelloMessages"),
                        region("KeyValueServer", "answer"),
                        region("KeyValueClient", "get"),
                        region("FileClient", "fetch"),
                        region("FileServer", "answer"));
    }

    @Test
    void thePageOnTheLibraryHasTheProgramHello() throws IOException {
        assertThat(javaBlocksOf("core/README.md")).containsExactly(program("Hello"));
    }

    @Test
    void theReadmeHasLinesOfAtMost120Characters() throws IOException {
        assertThat(Files.readAllLines(ROOT.resolve("README.md")))
                .isNotEmpty()
                .allSatisfy(line -> assertThat(line).hasSizeLessThanOrEqualTo(120));
    }

    @Test
    void everySnippetOfTheJavadocIsARegionOfAnExample() throws IOException {
        Pattern snippet =
                Pattern.compile(
                        "\\{@snippet\\s+file=\"dev/verbena/examples/(\\w+)\\.java\"\\s+region=\"(\\w+)\"");
        List<MatchResult> found = new ArrayList<>();
        try (var sources = Files.walk(ROOT.resolve("core/src/main/java/dev/verbena"), 2)) {
            for (Path source : sources.filter(p -> p.toString().endsWith(".java")).toList()) {
                Matcher matcher = snippet.matcher(Files.readString(source));
                matcher.results().forEach(found::add);
            }
        }
        assertThat(found).isNotEmpty();
        for (MatchResult result : found) {
            assertThat(region(result.group(1), result.group(2))).as(result.group()).isNotEmpty();
        }
    }

    private static List<List<String>> javaBlocksOf(String page) throws IOException {
        return BLOCK.matcher(Files.readString(ROOT.resolve(page)))
                .results()
                .map(r -> r.group(1).lines().toList())
                .toList();
    }

    /** A whole program: imports and members, without the class around them. */
    private static List<String> program(String example) throws IOException {
        List<String> program = new ArrayList<>(region(example, "imports"));
        program.add("");
        program.addAll(region(example, "program"));
        return program;
    }

    /** The lines of a region, as Javadoc shows them: without marks and common indentation. */
    private static List<String> region(String example, String name) throws IOException {
        List<String> lines = Files.readAllLines(EXAMPLES.resolve(example + ".java"));
        String start = "// @start region=\"" + name + "\"";
        int line = lines.stream().map(String::strip).toList().indexOf(start);
        assertThat(line).as("%s in %s", start, example).isNotNegative();
        List<String> region = new ArrayList<>();
        for (int depth = 1; depth > 0; ) {
            String next = lines.get(++line);
            Matcher mark = MARK.matcher(next);
            if (!mark.matches()) {
                region.add(next);
            } else {
                depth += mark.group(1).equals("start") ? 1 : -1;
            }
        }
        String text = String.join("\n", region);
        return Arrays.asList(text.stripIndent().split("\n"));
    }
}
