package dev.verbena.internal.queue;

/** What completions need to know of the queue pair they belong to. */
public final class Endpoint {
    private final Object owner;
    private final WindowTable windows;
    private final Runnable onDeath;
    private volatile boolean dead; // two completion queues may tell it twice, which does no harm

    /**
     * Makes one.
     *
     * @param owner the queue pair, which this package only passes on
     * @param windows the windows its peer may invalidate
     * @param onDeath what to do when one of its requests has failed, and with it the connection;
     *     called by the thread that polls, under no gate
     */
    public Endpoint(Object owner, WindowTable windows, Runnable onDeath) {
        this.owner = owner;
        this.windows = windows;
        this.onDeath = onDeath;
    }

    /**
     * Whose completions they are.
     *
     * @return as given
     */
    public Object owner() {
        return owner;
    }

    WindowTable windows() {
        return windows;
    }

    /** Whether this is the first time that it died. */
    boolean dies() {
        boolean first = !dead;
        dead = true;
        return first;
    }

    void mourn() {
        onDeath.run();
    }
}
