package dev.verbena;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** All orders of a few things. */
final class Permutations {
    private Permutations() {}

    /** Calls for each order of so many of these things; returns how many there were. */
    static <T> int forEach(List<T> things, int count, Consumer<List<T>> order) {
        return forEach(new ArrayList<>(things), count, new ArrayList<>(), order);
    }

    private static <T> int forEach(
            List<T> left, int count, List<T> chosen, Consumer<List<T>> order) {
        if (count == 0) {
            order.accept(List.copyOf(chosen));
            return 1;
        }
        int orders = 0;
        for (int i = 0; i < left.size(); i++) {
            T next = left.remove(i);
            chosen.add(next);
            orders += forEach(left, count - 1, chosen, order);
            chosen.removeLast();
            left.add(i, next);
        }
        return orders;
    }
}
