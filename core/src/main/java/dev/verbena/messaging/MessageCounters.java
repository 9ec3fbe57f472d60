package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The counters of a channel since it was created: a snapshot from {@link MessageChannel#counters}.
 *
 * @param sent how many messages were handed to the device or, above the eager limit, announced to
 *     the peer; messages that still wait for room are not included
 * @param bytesSent how many bytes these messages have, without this layer's headers
 * @param received how many messages arrived
 * @param bytesReceived how many bytes these messages have, without this layer's headers
 * @param outstanding how many requests were posted and have not completed: messages that are not
 *     known to have reached the peer's device, writes and reads, and this layer's own frames and
 *     binds
 * @param noRoom how often a message found no room, because the peer has to release messages first
 *     or because the limit of outstanding messages was reached. Each try counts, whether it was
 *     refused or waited
 * @param waits how many messages waited for room: threads in {@link MessageChannel#send} (except
 *     those that poll themselves), and futures of {@link MessageChannel#sendAsync(MemorySegment)}
 */
@CheckReturnValue
public record MessageCounters(
        long sent,
        long bytesSent,
        long received,
        long bytesReceived,
        int outstanding,
        long noRoom,
        long waits) {}
