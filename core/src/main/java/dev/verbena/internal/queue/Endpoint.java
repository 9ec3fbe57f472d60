package dev.verbena.internal.queue;

/** What completions need to know of the queue pair that they belong to. */
public final class Endpoint {
    private final Object queuePair;
    private final WindowTable windows;
    private final Runnable onFailure;
    private final RequestCounts sendCounts = new RequestCounts();
    private final RequestCounts receiveCounts = new RequestCounts();
    private volatile boolean failed; // two completion queues may both set it, which does no harm

    /**
     * Makes an endpoint.
     *
     * @param queuePair the queue pair, which this package only passes on
     * @param windows the windows that its peer may invalidate
     * @param onFailure what to do when one of its requests has failed, and with it the connection;
     *     called by the thread that polls, without a lock
     */
    public Endpoint(Object queuePair, WindowTable windows, Runnable onFailure) {
        this.queuePair = queuePair;
        this.windows = windows;
        this.onFailure = onFailure;
    }

    /**
     * The queue pair.
     *
     * @return the public object
     */
    public Object queuePair() {
        return queuePair;
    }

    /**
     * What is counted of its send queue.
     *
     * @return always the same
     */
    public RequestCounts sendCounts() {
        return sendCounts;
    }

    /**
     * What is counted of its receives.
     *
     * @return always the same
     */
    public RequestCounts receiveCounts() {
        return receiveCounts;
    }

    RequestCounts counts(RequestType type) {
        return type.isReceive() ? receiveCounts : sendCounts;
    }

    WindowTable windows() {
        return windows;
    }

    /** Notes a failure; true the first time. */
    boolean failsFirst() {
        boolean first = !failed;
        failed = true;
        return first;
    }

    void notifyFailed() {
        onFailure.run();
    }
}
