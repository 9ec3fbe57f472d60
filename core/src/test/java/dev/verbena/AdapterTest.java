package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.verbena.internal.verbs.Libraries;

import org.junit.jupiter.api.Test;

/** What holds on any machine, with RDMA devices or without, with rdma-core or without. */
class AdapterTest {
    @Test
    void anUnknownDeviceIsASentenceThatHelps() {
        String problem = Libraries.problemWithVerbs();
        assertThatThrownBy(() -> Adapter.open("no-such-device"))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining(
                        problem.isEmpty()
                                ? "There is no RDMA device \"no-such-device\" here; "
                                : problem);
    }

    @Test
    void whyNoneIsASentenceWhereThereIsNone() {
        if (Libraries.problemWithVerbs().isEmpty()) {
            assertThat(Adapter.whyNone().isEmpty()).isEqualTo(!Adapter.names().isEmpty());
        } else {
            assertThatThrownBy(Adapter::whyNone).isInstanceOf(VerbenaException.class);
        }
    }

    @Test
    void lockableMemoryIsWhatTheLimitSays() throws Exception {
        Process shell = new ProcessBuilder("sh", "-c", "ulimit -l").start();
        String limit = new String(shell.getInputStream().readAllBytes(), UTF_8).strip();
        assertThat(MemoryRegion.lockableBytes())
                .isEqualTo(
                        limit.equals("unlimited")
                                ? Long.MAX_VALUE
                                : Long.parseLong(limit) * 1024); // of a shell that inherits it
    }

    @Test
    void namesAreListedOrTheMissingLibraryIsNamed() {
        if (Libraries.problemWithVerbs().isEmpty()) {
            assertThat(Adapter.names()).doesNotContain("no-such-device");
        } else {
            assertThatThrownBy(Adapter::names)
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("apt install");
        }
    }

    @Test
    void limitsOfAQueuePairArePositive() {
        assertThatThrownBy(() -> QueuePairLimits.depths(0, 1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> QueuePairLimits.depths(1, 1).withBuffers(1, 0))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> QueuePairLimits.depths(1, 1).withInlineBytes(-1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> QueuePairLimits.depths(1, 1).withReads(0, -1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> QueuePairLimits.depths(1, 1).withMaxDeferred(-1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> new BufferList(0)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> new Completions(0)).isInstanceOf(IllegalArgumentException.class);
    }
}
