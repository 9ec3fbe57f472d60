package dev.verbena.bindings;

import static org.assertj.core.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The system's C compiler, asked only whether it accepts a text. */
final class CCompiler {
    private static final String COMMAND = System.getenv().getOrDefault("CC", "cc");

    static final String HEADERS =
            """
            #include <errno.h>
            #include <stddef.h>
            #include <time.h>
            #include <netinet/in.h>
            #include <sys/socket.h>
            #include <infiniband/verbs.h>
            #include <rdma/rdma_cma.h>
            """;

    private CCompiler() {}

    /**
     * Skips the calling test, loudly, where there is no compiler or no header to compile against;
     * fails it there when {@code -Dverbena.headers=required}.
     */
    static void required() throws Exception {
        String problem;
        try {
            problem = complaints(HEADERS, "");
        } catch (IOException e) {
            problem = e.getMessage();
        }
        if (!problem.isEmpty()) {
            String sentence =
                    "The layout tests compare the bindings with the C headers and need a C"
                            + " compiler, libibverbs-dev and librdmacm-dev (Fedora: gcc,"
                            + " rdma-core-devel): "
                            + problem.lines().findFirst().orElse("");
            if (System.getProperty("verbena.headers", "optional").equals("required")) {
                fail(sentence);
            }
            System.err.println("SKIPPED: " + sentence);
            abort(sentence);
        }
    }

    /**
     * Compiles without writing anything.
     *
     * @param include a folder where headers are looked for first, or empty
     * @return what the compiler said; empty when it accepted
     */
    static String complaints(String source, String include) throws Exception {
        Path file = Files.createTempFile("verbena-layout", ".c");
        Path log = Files.createTempFile("verbena-layout", ".log");
        try {
            Files.writeString(file, source);
            List<String> command = new ArrayList<>(List.of(COMMAND, "-std=c11", "-fsyntax-only"));
            if (!include.isEmpty()) {
                command.addAll(List.of("-I", include));
            }
            command.addAll(List.of("-x", "c", file.toString()));
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.environment().put("LC_ALL", "C");
            Process cc = builder.redirectErrorStream(true).redirectOutput(log.toFile()).start();
            if (!cc.waitFor(60, TimeUnit.SECONDS)) {
                cc.destroyForcibly();
                return COMMAND + " did not end within 60 s";
            }
            String said = Files.readString(log, StandardCharsets.UTF_8);
            return cc.exitValue() == 0 ? "" : said.isEmpty() ? COMMAND + " failed" : said;
        } finally {
            Files.delete(file);
            Files.delete(log);
        }
    }
}
