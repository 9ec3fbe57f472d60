package dev.verbena;

import dev.verbena.internal.queue.CompletionEvents;
import dev.verbena.internal.queue.SharedChannel;

/** A completion queue as one of a {@link CompletionChannel}: what the channel asks of it. */
final class ChannelMember implements SharedChannel.Queue {
    private final CompletionQueue queue;
    private final CompletionEvents events;

    ChannelMember(CompletionQueue queue, CompletionEvents events) {
        this.queue = queue;
        this.events = events;
    }

    CompletionQueue queue() {
        return queue;
    }

    @Override
    public boolean collect(int arrived) {
        if (!queue.tryAcquire()) {
            return false;
        }
        try {
            queue.checkThread();
            return events.collect(arrived) != CompletionEvents.NOTHING;
        } finally {
            queue.release();
        }
    }

    @Override
    public void lookForFailures() {
        if (queue.tryAcquire()) {
            try {
                queue.lookForFailures();
            } finally {
                queue.release();
            }
        }
    }

    @Override
    public void channelFailed(int errno) {
        events.channelFailed(errno);
    }
}
