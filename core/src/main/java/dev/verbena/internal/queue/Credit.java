package dev.verbena.internal.queue;

/** Who gets a place in a queue back when a completion has reached the consumer. */
public interface Credit {
    /** One completion of this queue has been told; called under the completion queue's gate. */
    void told();
}
