package dev.verbena;

import java.util.concurrent.atomic.AtomicInteger;

/** Spreads the completion queues of an adapter over the completion vectors of its device. */
final class CompletionVectors {
    private final String device;
    private final int count;
    // Not 0: the first queues of many processes are not to share one processor.
    private final AtomicInteger next = new AtomicInteger((int) (System.nanoTime() >>> 10));

    CompletionVectors(String device, int count) {
        this.device = device;
        this.count = count;
    }

    int count() {
        return count;
    }

    /** The vector that was asked for, or with {@link CompletionQueueOptions#SPREAD} the next. */
    int choose(int asked) {
        if (asked == CompletionQueueOptions.SPREAD) {
            return Math.floorMod(next.getAndIncrement(), count);
        }
        if (asked >= count) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "%s has the completion vectors 0 to %d, and %d was asked for"
                            .formatted(device, count - 1, asked));
        }
        return asked;
    }
}
