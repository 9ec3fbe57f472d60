package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;

import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** With a full heap, every waiter still gets its answer, and an end needs no memory. */
@Timeout(150)
class WithoutMemoryTest {
    @Test
    void everyWaiterIsKeptAndEveryEndIsHeard() throws Exception {
        assertThat(
                        ChildClasses.run(
                                WithoutMemory.class,
                                "-Xmx32m",
                                MessageChannel.class,
                                LibIbverbs.class,
                                Assertions.class))
                .containsExactly(
                        "the thread of a poller goes on: true, alive: true",
                        "out of memory: true, 0 waits, then 1024",
                        "out of memory: false, 8 of 8 steps",
                        "out of memory: false, 20 of 20 blocks",
                        "out of memory: false, 0 messages left",
                        "out of memory: false, 20 of 20 queues fire");
    }
}
