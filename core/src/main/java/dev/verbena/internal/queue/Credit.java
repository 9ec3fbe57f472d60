package dev.verbena.internal.queue;

/**
 * The slot of a request whose completion is to be delivered. Called under the completion queue's
 * lock.
 */
interface Credit {
    /** The completion was delivered: the queue gets the slot back. */
    void delivered();

    /** Memory to keep the completion in. It gives the slot back when it is delivered. */
    KeptCompletion keep();
}
