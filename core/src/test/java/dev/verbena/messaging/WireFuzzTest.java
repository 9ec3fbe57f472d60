package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.FuzzInputs;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.util.HexFormat;
import java.util.List;

/**
 * Whatever bytes a peer sends: see {@link WireTarget}. First the corpus, then random changes of it.
 *
 * <p>-Dverbena.fuzz.inputs=10000000 -Dverbena.trust.seed=… for another number and choice. {@code
 * native-test/trust/fuzz} has Jazzer choose the inputs, by what they reach.
 */
@Tag("trust")
@Timeout(7200)
class WireFuzzTest {
    private final long seed = Trust.seed();

    @ParameterizedTest
    @EnumSource
    void noBytesOfAPeerDoHarm(WireTarget target) {
        List<byte[]> corpus = FuzzInputs.corpus(WireTarget.class, target.corpus());
        assertThat(corpus).hasSizeGreaterThan(3);
        int count =
                Integer.getInteger("verbena.fuzz.inputs", Trust.size(target.inputs(), 10_000_000));
        Trust.Row row = Trust.row("Bytes of a peer: " + target).inputs(count).seed(seed);
        FuzzInputs inputs = new FuzzInputs(corpus, seed);
        long losses = 1;
        try {
            corpus.forEach(input -> run(target, input));
            for (int i = corpus.size(); i < count; i++) {
                run(target, inputs.next());
            }
            losses = 0;
        } finally {
            row.losses(losses).write();
        }
        target.close();
    }

    private void run(WireTarget target, byte[] input) {
        try {
            target.run(input);
        } catch (Throwable t) {
            throw new AssertionError(
                    "%s, seed %d, input %s: %s"
                            .formatted(target, seed, HexFormat.of().formatHex(input), t),
                    t);
        }
    }
}
