package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.child.ChildClasses;

import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(150)
class WindowWithoutMemoryTest {
    /** Once it is posted, the region before it must be kept. */
    @Test
    void aBindThatHasNoMemoryForTheRegionBeforeIsNotPosted() throws Exception {
        assertThat(
                        ChildClasses.run(
                                WindowWithoutMemory.class,
                                "-Xmx32m",
                                MemoryWindow.class,
                                LibIbverbs.class,
                                Assertions.class))
                .containsExactly(
                        "out of memory: true, bound: false", "out of memory: false, bound: true");
    }
}
