package dev.verbena.internal.util;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.child.ChildClasses;
import dev.verbena.child.LongQueue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.Queue;

@Timeout(150)
class SafeQueueTest {
    private int refused; // adds, for lack of stack
    private int wrong; // queues after that

    @Test
    void anAddWithoutMemoryChangesNothing() throws Exception {
        assertThat(ChildClasses.run(LongQueue.class, "-Xmx32m", SafeQueue.class))
                .containsExactly("out of memory", "lost: 0", "in order: true");
    }

    @Test
    void anAddWithoutStackChangesNothing() throws Exception {
        for (int i = 0; i < 300; i++) {
            Thread deep = new Thread(null, this::addUntilTheStackIsFull, "deep", 1 << 18);
            deep.start();
            deep.join();
        }
        assertThat(refused).isPositive();
        assertThat(wrong).isZero();
    }

    private void addUntilTheStackIsFull() {
        try {
            addAtEachDepth();
        } catch (StackOverflowError e) {
            // no add has found it full
        }
    }

    /** The deepest calls are those of an add that grows. */
    @SuppressWarnings("InfiniteRecursion") // until the stack is full
    private void addAtEachDepth() {
        Queue<Integer> queue = new SafeQueue<>();
        int added = 0;
        try {
            while (added < 20) {
                queue.add(added);
                added++;
            }
        } catch (StackOverflowError e) {
            refused++;
            wrong += queue.size() == added ? 0 : 1;
            return;
        }
        addAtEachDepth();
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
