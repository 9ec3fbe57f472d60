package dev.verbena.internal.util;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/** Handles of fields, for accesses whose order matters. */
public final class Fields {
    private Fields() {}

    /** The handle of a field of the class that looks it up. */
    public static VarHandle handle(MethodHandles.Lookup own, String name, Class<?> type) {
        try {
            return own.findVarHandle(own.lookupClass(), name, type);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }
}
