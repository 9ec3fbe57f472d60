package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.runtime.Teardown;

import org.junit.jupiter.api.Test;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

class NativeObjectTest {
    private final List<String> destroyed = new ArrayList<>();

    private class Thing extends NativeObject {
        private final String name;

        Thing(String name, NativeObject... parents) {
            super(parents);
            this.name = name;
        }

        @Override
        void destroy(Teardown end) {
            destroyed.add(name);
        }

        @Override
        String describe() {
            return name;
        }
    }

    @Test
    void whateverTheOrderOfClosingChildrenAreDestroyedFirst() {
        for (List<Integer> order : permutations(List.of(0, 1, 2, 3))) {
            destroyed.clear();
            Thing adapter = new Thing("adapter");
            Thing domain = new Thing("domain", adapter);
            Thing queue = new Thing("queue", adapter);
            Thing pair = new Thing("pair", domain, queue, queue);
            List<Thing> all = List.of(adapter, domain, queue, pair);
            for (int i : order) {
                all.get(i).close();
                all.get(i).close(); // again does nothing
            }
            assertThat(destroyed)
                    .as("closed in order %s", order)
                    .containsExactlyInAnyOrder("adapter", "domain", "queue", "pair")
                    .endsWith("adapter");
            assertThat(destroyed.indexOf("pair"))
                    .isLessThan(destroyed.indexOf("domain"))
                    .isLessThan(destroyed.indexOf("queue"));
        }
    }

    @Test
    void nothingIsMadeFromAClosedObjectEvenWhileItPends() {
        Thing adapter = new Thing("adapter");
        Thing domain = new Thing("domain", adapter);
        adapter.close();
        assertThat(destroyed).isEmpty();
        assertThatThrownBy(() -> new Thing("late", adapter))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("adapter is closed");
        domain.close();
        assertThat(destroyed).containsExactly("domain", "adapter");
    }

    @Test
    void parentsAreLetGoWhenOneOfThemIsClosed() {
        Thing domain = new Thing("domain");
        Thing queue = new Thing("queue");
        queue.close();
        assertThatThrownBy(() -> new Thing("pair", domain, queue))
                .isInstanceOf(IllegalStateException.class);
        domain.close();
        assertThat(destroyed).containsExactly("queue", "domain");
    }

    @Test
    void parentsAreLetGoWhenAChildCannotBeMade() {
        Thing domain = new Thing("domain");
        Thing region = new Thing("region", domain);
        region.abandon();
        region.close();
        domain.close();
        assertThat(destroyed).containsExactly("domain");
    }

    @Test
    void everyParentIsLetGoAlthoughAnothersDestroyFails() {
        Thing last = new Thing("last");
        Thing failing = failing("failing", () -> {});
        Thing worse = failing("worse", () -> {});
        Thing child = new Thing("child", failing, worse, last);
        failing.close();
        worse.close();
        last.close();
        assertThatThrownBy(child::close)
                .hasMessage("failing")
                .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1))
                .satisfies(e -> assertThat(e.getSuppressed()[0]).hasMessage("worse"));
        assertThat(destroyed).containsExactly("child", "failing", "worse", "last");
    }

    @Test
    void whatCannotBeStoppedIsDestroyedAllTheSameAndBothAreReported() {
        Thing parent = new Thing("parent");
        Thing child =
                failing(
                        "child",
                        () -> {
                            throw new IllegalStateException("stopping");
                        },
                        parent);
        assertThatThrownBy(child::close)
                .hasMessage("stopping")
                .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1))
                .satisfies(e -> assertThat(e.getSuppressed()[0]).hasMessage("child"));
        child.close();
        parent.close();
        assertThat(destroyed).containsExactly("child", "parent");
    }

    @Test
    void aWaitForTheDestroyNamesSomeOfThoseThatAreNotClosed() {
        Thing domain = new Thing("domain");
        Thing closed = new Thing("closed", domain);
        Thing region = new Thing("region", domain);
        Thing window = new Thing("window", region);
        domain.close();
        region.close();
        closed.close();
        assertThatThrownBy(() -> domain.awaitClosed(Duration.ZERO))
                .hasMessageContaining("domain is closed, but 1 of its dependants or users is not")
                .hasMessageContaining(" (region, closed): its memory must stay allocated");
        assertThatThrownBy(() -> region.awaitClosed(Duration.ZERO))
                .hasMessageContaining(" (window): ");
        window.close();
        domain.awaitClosed(Duration.ZERO);
        Thing queue = new Thing("queue");
        List<Thing> pairs = new ArrayList<>();
        for (int i = 0; i < 9; i++) {
            pairs.add(new Thing("pair", queue));
        }
        queue.close();
        assertThatThrownBy(() -> queue.awaitClosed(Duration.ZERO))
                .hasMessageContaining("9 of its dependants or users are not")
                .hasMessageContaining(" (pair; pair; pair; pair and others): ");
        pairs.forEach(Thing::close);
    }

    private Thing failing(String name, Runnable shut, NativeObject... parents) {
        return new Thing(name, parents) {
            @Override
            void shut(Teardown end) {
                shut.run();
            }

            @Override
            void destroy(Teardown end) {
                super.destroy(end);
                throw new IllegalStateException(name);
            }
        };
    }

    private static List<List<Integer>> permutations(List<Integer> items) {
        if (items.isEmpty()) {
            return List.of(List.of());
        }
        List<List<Integer>> all = new ArrayList<>();
        for (Integer first : items) {
            List<Integer> rest = new ArrayList<>(items);
            rest.remove(first);
            for (List<Integer> tail : permutations(rest)) {
                List<Integer> one = new ArrayList<>(List.of(first));
                one.addAll(tail);
                all.add(one);
            }
        }
        return all;
    }
}
