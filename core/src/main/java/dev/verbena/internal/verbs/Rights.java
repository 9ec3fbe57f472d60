package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

/** {@code enum ibv_access_flags}: the operations that a memory region or window allows. */
public final class Rights {
    public static final int LOCAL_WRITE = Verbs.IBV_ACCESS_LOCAL_WRITE;
    public static final int REMOTE_WRITE = Verbs.IBV_ACCESS_REMOTE_WRITE;
    public static final int REMOTE_READ = Verbs.IBV_ACCESS_REMOTE_READ;
    public static final int REMOTE_ATOMIC = Verbs.IBV_ACCESS_REMOTE_ATOMIC;

    /** {@code IBV_ACCESS_MW_BIND}: windows may be bound to the region. */
    public static final int BIND_WINDOWS = Verbs.IBV_ACCESS_MW_BIND;

    /** {@code IBV_ACCESS_ON_DEMAND}: the pages are not pinned. */
    public static final int ON_DEMAND = Verbs.IBV_ACCESS_ON_DEMAND;

    /** {@code IBV_ACCESS_RELAXED_ORDERING}: the device's writes may overtake each other. */
    public static final int RELAXED_ORDERING = Verbs.IBV_ACCESS_RELAXED_ORDERING;

    /** Those that a library, kernel or device that does not know them may ignore. */
    public static final int OPTIONAL = Verbs.IBV_ACCESS_OPTIONAL_RANGE;

    private Rights() {}
}
