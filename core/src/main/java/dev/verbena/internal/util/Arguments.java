package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

/** Arguments of a program's calls. */
public final class Arguments {
    private Arguments() {}

    /** Returns the argument; throws a NullPointerException that names it if it is null. */
    public static <T> T notNull(@Nullable T argument, String name) {
        if (argument == null) {
            throw new NullPointerException(name + " must not be null");
        }
        return argument;
    }
}
