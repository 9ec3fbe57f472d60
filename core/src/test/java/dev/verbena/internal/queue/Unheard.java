package dev.verbena.internal.queue;

/** A listener of a poller that nobody waits for. */
final class Unheard implements CompletionPoller.Listener {
    @Override
    public void synthesized() {}

    @Override
    public void wakeOwner() {}
}
