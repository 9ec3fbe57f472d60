package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.trust.Program;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.List;
import java.util.Map;

/** Leaks of connections, each in a process of its own. */
@Tag("trust")
@Timeout(7200)
class ConnectionLeaksTest {
    @Test
    void connectionsAndMessagesLeaveNothing() throws Exception {
        assertThat(Program.run(Map.of(), Program.SMALL_HEAP, LeaksOnFakeFabric.class)).isEmpty();
    }

    @Test
    void anApplicationThatIsUndeployedLeavesNoClasses() throws Exception {
        List<String> withoutSoftReferences = List.of("-XX:SoftRefLRUPolicyMSPerMB=0");
        assertThat(Program.run(Map.of(), withoutSoftReferences, UndeployedOnFakeFabric.class))
                .isEmpty();
    }
}
