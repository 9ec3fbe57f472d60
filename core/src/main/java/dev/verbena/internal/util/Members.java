package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * Objects that come and go one by one, and are visited all together, by any thread. A change costs
 * the same for any number of objects; the first visit after it copies the list of them.
 */
public final class Members<T> {
    private final Set<T> present = new LinkedHashSet<>();
    private @Nullable List<T> copy; // null after a change

    public synchronized void add(T member) {
        if (present.add(member)) {
            copy = null;
        }
    }

    /** Removes an object. Needs no memory. */
    public synchronized void remove(T member) {
        if (present.remove(member)) {
            copy = null;
        }
    }

    public synchronized int size() {
        return present.size();
    }

    /** Those that are there now, in the order in which they came. Its forEach allocates nothing. */
    public synchronized List<T> all() {
        List<T> all = copy;
        if (all == null) {
            all = Collections.unmodifiableList(new ArrayList<>(present));
            copy = all;
        }
        return all;
    }
}
