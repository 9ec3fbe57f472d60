package dev.verbena.internal.queue;

import dev.verbena.OperationType;

/** What completions need to know of the queue pair that they belong to. */
public final class Endpoint {
    private final Object queuePair;
    private final WindowTable windows;
    private final Listener listener;
    private final RequestCounts sendCounts = new RequestCounts();
    private final RequestCounts receiveCounts = new RequestCounts();
    private volatile boolean failed; // two completion queues may both set it, which does no harm

    /** What a queue pair is notified of. */
    public interface Listener {
        /**
         * One of its requests has failed, and with it the connection. Called by the thread that
         * polls, without a lock.
         */
        void connectionFailed();

        /**
         * A request has failed or was flushed. Called with the completion queue's lock held, after
         * its completion was delivered or kept.
         */
        default void requestFailed(OperationType type, long context, int status, int vendorError) {}

        /**
         * A message of the peer has invalidated a token of this side. Called with the completion
         * queue's lock held, after its completion was delivered or kept.
         *
         * @param token which one; it need not be a window's
         */
        default void tokenInvalidated(int token) {}
    }

    /**
     * Makes an endpoint.
     *
     * @param queuePair the queue pair, which this package only passes on
     * @param windows the windows that its peer may invalidate
     */
    public Endpoint(Object queuePair, WindowTable windows, Listener listener) {
        this.queuePair = queuePair;
        this.windows = windows;
        this.listener = listener;
    }

    /** The queue pair. */
    public Object queuePair() {
        return queuePair;
    }

    /** What is counted of its send queue. */
    public RequestCounts sendCounts() {
        return sendCounts;
    }

    /** What is counted of its receives. */
    public RequestCounts receiveCounts() {
        return receiveCounts;
    }

    RequestCounts counts(OperationType type) {
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

    Listener listener() {
        return listener;
    }

    void notifyFailed() {
        listener.connectionFailed();
    }
}
