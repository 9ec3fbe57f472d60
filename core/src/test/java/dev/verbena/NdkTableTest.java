package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The page on NDK has every function of NDK, and names what there is. */
class NdkTableTest {
    private static final Path PAGE = Path.of("docs/ndk.md");
    private static final Path SOURCES = Path.of("src/main/java");
    private static final Pattern MEMBER = Pattern.compile("`([A-Z]\\w+)\\.(\\w+)");

    /** All function types of ndkpi.h, without the prefix Ndk. */
    private static final String FUNCTIONS =
            """
            QueryAdapterInfo CreateCq CreatePd CreateSharedEndpoint CreateConnector CreateListener
            BuildLam ReleaseLam
            CreateMr CreateMw CreateSrq CreateQp CreateQpWithSrq GetPrivilegedMemoryRegionToken
            InitializeFastRegisterMr RegisterMr DeregisterMr GetRemoteTokenFromMr
            GetLocalTokenFromMr GetRemoteTokenFromMw
            ResizeCq ArmCq GetCqResults GetCqResultsEx ControlCqInterruptModeration
            CqNotificationCallback
            ModifySrq SrqReceive SrqNotificationCallback
            Flush Send SendAndInvalidate Receive Bind FastRegister Invalidate Read Write
            Connect ConnectWithSharedEndpoint CompleteConnect CompleteConnectEx Accept AcceptEx
            Reject GetConnectionData GetLocalAddress GetPeerAddress Disconnect
            DisconnectEventCallback DisconnectEventCallbackEx
            Listen GetListenerLocalAddress ControlConnectEvents ConnectEventCallback
            GetSharedEndpointLocalAddress
            CloseObject CloseCompletion CreateCompletion RequestCompletion QueryExtensionInterface
            """;

    private record Row(String function, String method, String remark) {}

    private static List<Row> rows() throws IOException {
        try (Stream<String> lines = Files.lines(PAGE)) {
            return lines.filter(line -> line.startsWith("| Ndk"))
                    .map(line -> line.split(" *\\| *", -1))
                    .map(cells -> new Row(cells[1], cells[2], cells[3]))
                    .toList();
        }
    }

    private static List<MatchResult> members(String text) {
        return MEMBER.matcher(text).results().toList();
    }

    /** The types that declare the public members of that name: none if there is no such member. */
    private static Set<Class<?>> declaring(MatchResult member) throws ClassNotFoundException {
        Class<?> type = Class.forName("dev.verbena." + member.group(1));
        String name = member.group(2);
        Set<Class<?>> found = new HashSet<>();
        Stream.of(type.getMethods(), type.getFields())
                .flatMap(Stream::of)
                .filter(one -> one.getName().equals(name))
                .forEach(one -> found.add(one.getDeclaringClass()));
        Stream.of(type.getClasses())
                .filter(one -> one.getSimpleName().equals(name))
                .forEach(one -> found.add(one.getDeclaringClass()));
        return found;
    }

    /** Whether the comment of a method, or of one of its overloads, names the function. */
    private static boolean documents(Class<?> type, String method, String function)
            throws IOException {
        Pattern named = Pattern.compile("\\b%s\\b".formatted(function));
        Pattern declared = Pattern.compile("^[^{;]*\\b%s\\(".formatted(method));
        String source =
                Files.readString(SOURCES.resolve(type.getName().replace('.', '/') + ".java"));
        return Stream.of(source.split("/\\*\\*"))
                .map(comment -> comment.split("\\*/", 2))
                .filter(parts -> parts.length == 2)
                .anyMatch(
                        parts ->
                                named.matcher(parts[0]).find()
                                        && declared.matcher(parts[1]).find());
    }

    @Test
    void everyFunctionHasOneRowWithAMethodOrAReason() throws IOException {
        List<Row> rows = rows();
        assertThat(rows.stream().map(Row::function))
                .containsExactlyInAnyOrderElementsOf(
                        FUNCTIONS
                                .lines()
                                .flatMap(line -> Stream.of(line.split(" ")))
                                .map("Ndk"::concat)
                                .toList());
        assertThat(rows)
                .filteredOn(row -> members(row.method).isEmpty())
                .allMatch(row -> row.method.equals("none") && !row.remark.isEmpty());
    }

    @Test
    void everyMemberThatThePageNamesExists() throws Exception {
        List<MatchResult> members = members(Files.readString(PAGE));
        assertThat(members).hasSizeGreaterThan(50);
        for (MatchResult member : members) {
            assertThat(declaring(member)).as(member.group()).isNotEmpty();
        }
    }

    @Test
    void theJavadocOfTheMethodNamesTheFunction() throws Exception {
        List<String> missing = new ArrayList<>();
        for (Row row : rows()) {
            for (MatchResult member : members(row.method)) {
                boolean named = false;
                for (Class<?> type : declaring(member)) {
                    named |= documents(type, member.group(2), row.function);
                }
                if (!named) {
                    missing.add(row.function + " at " + member.group());
                }
            }
        }
        assertThat(missing).isEmpty();
    }
}
