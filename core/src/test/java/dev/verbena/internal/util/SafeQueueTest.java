package dev.verbena.internal.util;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.child.ChildClasses;
import dev.verbena.child.LongQueue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.Queue;

@Timeout(150)
class SafeQueueTest {
    @Test
    void anAddWithoutMemoryChangesNothing() throws Exception {
        assertThat(ChildClasses.run(LongQueue.class, "-Xmx32m", SafeQueue.class))
                .containsExactly("out of memory", "lost: 0", "in order: true");
    }

    @Test
    void theSharedEmptyQueueIsNeverWritten() {
        Queue<String> one = SafeQueue.own(SafeQueue.empty());
        one.add("one");
        assertThat(SafeQueue.own(one)).isSameAs(one).containsExactly("one");
        assertThat(SafeQueue.<String>own(SafeQueue.empty())).isEmpty();
        assertThat(SafeQueue.empty()).isEmpty();
    }
}
