package dev.verbena.internal.util;

import org.jspecify.annotations.Nullable;

/** Closes the parts of something that ends, whatever they throw. */
public final class Closing {
    private Closing() {}

    /** Closes a part of something, if it is there. What fails is logged, and the rest goes on. */
    public static void quietly(Object of, @Nullable AutoCloseable part) {
        try {
            if (part != null) {
                part.close();
            }
        } catch (Throwable t) {
            try {
                Log.warn(of + " could not close all of its parts", t);
            } catch (Throwable again) {
                // It has no memory for the text.
            }
        }
    }
}
