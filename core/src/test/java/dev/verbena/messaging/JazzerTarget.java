package dev.verbena.messaging;

import dev.verbena.FuzzInputs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What Jazzer calls: see {@code native-test/trust/fuzz}. */
public final class JazzerTarget {
    private static final WireTarget TARGET =
            WireTarget.valueOf(System.getProperty("verbena.fuzz.target", "FRAMES"));

    private JazzerTarget() {}

    public static void fuzzerTestOneInput(byte[] input) {
        TARGET.run(input);
    }

    /** Writes the corpus of a target into a folder, one file for each input. */
    public static void main(String[] args) throws IOException {
        List<byte[]> corpus =
                FuzzInputs.corpus(WireTarget.class, WireTarget.valueOf(args[0]).corpus());
        for (int i = 0; i < corpus.size(); i++) {
            Files.write(Path.of(args[1], "corpus-" + i), corpus.get(i));
        }
    }
}
