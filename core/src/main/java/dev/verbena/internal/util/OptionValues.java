package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.lang.invoke.VarHandle;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * An immutable class of options, with a field for each, initialized with its default. Only {@link
 * #with} changes a field, and only of a copy that nobody has yet. Options are equal if all values
 * are.
 *
 * @param <V> the class that extends this one
 */
public abstract class OptionValues<V extends OptionValues<V>> implements Cloneable {
    private final Function<? super V, List<?>> all;

    /**
     * Makes options with all defaults.
     *
     * @param all lists their values, in any order
     */
    protected OptionValues(Function<? super V, List<?>> all) {
        this.all = all;
    }

    /**
     * Copies the options, and changes the copy.
     *
     * @param change sets fields of the copy
     * @return the copy
     */
    @SuppressWarnings("unchecked") // a clone is of the same class
    protected final V with(Consumer<? super V> change) {
        try {
            V copy = (V) clone();
            change.accept(copy);
            VarHandle.storeStoreFence(); // as if its fields were final, for a thread without a lock
            return copy;
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }

    @SuppressWarnings("unchecked") // V is the class of this object
    private List<?> values() {
        return all.apply((V) this);
    }

    @Override
    public final boolean equals(@Nullable Object other) {
        return other instanceof OptionValues<?> that
                && getClass() == that.getClass()
                && values().equals(that.values());
    }

    @Override
    public final int hashCode() {
        return values().hashCode();
    }
}
