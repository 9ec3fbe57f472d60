package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

import java.time.Duration;

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

    /** Throws an IllegalArgumentException that names the duration if it is not longer than zero. */
    public static void checkPositive(Duration duration, String subject) {
        if (!duration.isPositive()) {
            throw new IllegalArgumentException(
                    "%s must be longer than zero, not %s".formatted(subject, Text.time(duration)));
        }
    }
}
