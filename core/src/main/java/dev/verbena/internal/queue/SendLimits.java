package dev.verbena.internal.queue;

import dev.verbena.AdapterInfo;
import dev.verbena.QueuePairLimits;

/**
 * The limits of the requests of one send queue: those that its queue pair was created with, and
 * those of its device. {@link Operation#check} compares requests with them.
 *
 * @param domain the queue pair's protection domain
 * @param maxBuffers how many buffers a request may name
 * @param maxReadBuffers how many a read may name
 * @param maxInlineBytes how many bytes a request may carry inline
 * @param maxMessageBytes how many bytes a message may have
 * @param maxWindowBytes how long a window may be
 */
public record SendLimits(
        Domain domain,
        int maxBuffers,
        int maxReadBuffers,
        int maxInlineBytes,
        long maxMessageBytes,
        long maxWindowBytes,
        boolean remoteInvalidate,
        boolean immediateData,
        boolean atomics) {
    static SendLimits of(
            Domain domain, QueuePairLimits limits, AdapterInfo info, long maxMessageBytes) {
        return new SendLimits(
                domain,
                limits.maxInitiatorBuffers(),
                Math.min(limits.maxInitiatorBuffers(), info.maxReadBuffers()),
                limits.maxInlineBytes(),
                maxMessageBytes,
                info.maxWindowBytes(),
                info.sendsWithInvalidate(),
                info.immediateData(),
                info.atomics());
    }

    /**
     * How many silent requests may follow each other until one asks for a signal: half of the
     * depth, which keeps a signal in reach, and 64 at most, as more would gain nothing.
     */
    public static int interval(int depth) {
        return Math.clamp(depth / 2, 1, 64);
    }
}
