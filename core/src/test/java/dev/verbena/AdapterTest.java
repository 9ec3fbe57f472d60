package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.RdmaCore;

import org.junit.jupiter.api.Test;

/** What holds on any machine, with RDMA devices or without, with rdma-core or without. */
class AdapterTest {
    @Test
    void anUnknownDeviceIsASentenceThatHelps() {
        String problem = RdmaCore.problemWithVerbs();
        assertThatThrownBy(() -> Adapter.open("no-such-device"))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining(
                        problem.isEmpty()
                                ? "There is no RDMA device \"no-such-device\" here; the machine has"
                                : problem);
    }

    @Test
    void namesAreListedOrTheMissingLibraryIsNamed() {
        if (RdmaCore.problemWithVerbs().isEmpty()) {
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
