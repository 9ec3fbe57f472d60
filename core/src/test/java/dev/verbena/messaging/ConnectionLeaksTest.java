package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.trust.Program;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.Map;

/** {@link LeaksOnFakeFabric}, in a process of its own. */
@Tag("trust")
@Timeout(7200)
class ConnectionLeaksTest {
    @Test
    void connectionsAndMessagesLeaveNothing() throws Exception {
        assertThat(Program.run(Map.of(), Program.SMALL_HEAP, LeaksOnFakeFabric.class)).isEmpty();
    }
}
