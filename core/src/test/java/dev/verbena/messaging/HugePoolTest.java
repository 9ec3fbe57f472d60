package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;
import dev.verbena.child.HugePool;

import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The heap is exhausted while a pool of receives is made: what it has made so far is freed. */
@Timeout(150)
class HugePoolTest {
    @Test
    void leavesNeitherItsRegionNorItsSharedQueue() throws Exception {
        assertThat(
                        ChildClasses.run(
                                HugePool.class,
                                "-Xmx64m",
                                MessageChannel.class,
                                LibIbverbs.class,
                                Assertions.class))
                .containsExactly("out of memory, 0 objects left");
    }
}
