package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.function.Consumer;

/**
 * The values of an immutable class of options: a field for each option, initialized with its
 * default. Only {@link #with} changes values, and only of a copy that no options have yet. Options
 * are equal if these are.
 *
 * @param <V> the class that extends this one
 */
public abstract class OptionValues<V extends OptionValues<V>> implements Cloneable {
    /** A changed copy. */
    @SuppressWarnings("unchecked") // a clone is of the same class
    public final V with(Consumer<V> change) {
        try {
            V copy = (V) clone();
            change.accept(copy);
            return copy;
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }

    /** All values, in any order. */
    protected abstract List<?> all();

    @Override
    public final boolean equals(@Nullable Object other) {
        return other instanceof OptionValues<?> that
                && getClass() == that.getClass()
                && all().equals(that.all());
    }

    @Override
    public final int hashCode() {
        return all().hashCode();
    }
}
