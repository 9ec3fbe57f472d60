package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** The tasks of a polling thread. */
class TasksTest {
    private final List<String> log = new ArrayList<>();
    private final Tasks tasks = new Tasks(thrown -> log.add("thrown " + thrown.getMessage()));

    private void fail(String name) {
        log.add(name);
        throw new IllegalStateException(name);
    }

    @Test
    void theyRunInOrderAndThoseThatTheyAddLater() {
        assertThat(tasks.run()).isFalse();
        Tasks.Task last = new Tasks.Task(() -> log.add("last"), false);
        tasks.add(
                new Tasks.Task(
                        () -> {
                            log.add("first");
                            tasks.add(last);
                        },
                        false));
        tasks.add(new Tasks.Task(() -> log.add("second"), false));
        assertThat(tasks.isEmpty()).isFalse();
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("first", "second");
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("first", "second", "last");
        assertThat(tasks.isEmpty()).isTrue();
    }

    @Test
    void oneThatAddsItselfHoldsUpNothing() {
        Tasks.Task[] again = new Tasks.Task[1];
        again[0] =
                new Tasks.Task(
                        () -> {
                            log.add("again");
                            if (log.size() < 10) {
                                tasks.add(again[0]);
                            }
                        },
                        false);
        tasks.add(again[0]);
        tasks.add(new Tasks.Task(() -> log.add("other"), false));
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("again", "other");
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("again", "other", "again");
    }

    @Test
    void aTaskThatWaitsIsAddedOnce() {
        Tasks.Task task = new Tasks.Task(() -> log.add("ran"), true);
        tasks.add(task);
        tasks.add(task);
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("ran");
        tasks.add(task);
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("ran", "ran");
    }

    @Test
    void oneThatThrowsIsReportedAndMayRunAgainAtTheNextTick() {
        tasks.add(new Tasks.Task(() -> fail("once"), false));
        tasks.add(new Tasks.Task(() -> fail("again"), true));
        tasks.add(new Tasks.Task(() -> log.add("other"), false));
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("once", "thrown once", "again", "thrown again", "other");
        assertThat(tasks.run()).as("not before the tick").isFalse();
        log.clear();
        tasks.runAgain();
        assertThat(tasks.run()).isTrue();
        assertThat(log).containsExactly("again", "thrown again");
    }
}
