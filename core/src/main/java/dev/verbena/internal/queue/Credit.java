package dev.verbena.internal.queue;

/** A queue that gets a slot back when a completion of it was delivered to the consumer. */
public interface Credit {
    /** A completion was delivered; called under the completion queue's lock. */
    void delivered();
}
