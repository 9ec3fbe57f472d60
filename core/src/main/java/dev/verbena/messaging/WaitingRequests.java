package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.RemoteMemory;
import dev.verbena.internal.util.SafeQueue;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;

/**
 * The requests of a {@link MessageChannel} that wait for room, in order: those of threads, of which
 * each has one, and those of futures, of which there is a limit. Guarded by the lock of the
 * channel.
 */
final class WaitingRequests {
    private static final int MOST_FUTURES = 1024;
    private static final Thread ANY = Thread.ofVirtual().unstarted(() -> {}); // owns no memory

    /**
     * A request that waits for room.
     *
     * @param data the message, empty if there is none
     * @param local what is written, or where a read goes; or the message, without remote memory
     * @param remote the peer's memory
     * @param future to be completed
     * @param whenPosted whether that is when it was posted, not when it has ended
     */
    record Request(
            RequestKind kind,
            MemorySegment data,
            @Nullable BufferList local,
            @Nullable RemoteMemory remote,
            CompletableFuture<Void> future,
            boolean whenPosted) {
        long bytes() {
            return kind == RequestKind.SEND && local != null ? local.bytes() : data.byteSize();
        }

        /**
         * The thread that makes room copies the data, and cannot read memory that is confined to
         * another thread. For a confined channel, it is always the same thread.
         */
        private Request readableBy(Poller poller) {
            return data.isAccessibleBy(poller.isConfined() ? poller.thread : ANY)
                    ? this
                    : new Request(
                            kind,
                            MemorySegment.ofArray(data.toArray(ValueLayout.JAVA_BYTE)),
                            local,
                            remote,
                            future,
                            whenPosted);
        }
    }

    private final Poller poller;
    private Queue<Request> requests = SafeQueue.empty();
    private int futures; // of those: not of threads
    private long refusedBytes = -1; // of a message that was refused, not kept; -1 for none
    private boolean refusedCopied; // whether it would have been copied
    private Tasks.@Nullable Task whenRoom; // for those that were refused

    WaitingRequests(Poller poller) {
        this.poller = poller;
    }

    boolean isEmpty() {
        return requests.isEmpty();
    }

    /** Adds a request; false when too many futures wait already. */
    boolean add(Request request) {
        Request kept = request.readableBy(poller); // first: it may throw
        int one = request.whenPosted() ? 0 : 1;
        if (futures + one > MOST_FUTURES) {
            return false;
        }
        requests = SafeQueue.own(requests);
        requests.add(kept);
        futures += one;
        return true;
    }

    /** The oldest request; null when there is none. */
    @Nullable Request first() {
        return requests.peek();
    }

    /** The oldest request was posted, or refused. */
    void removeFirst() {
        removed(requests.remove());
    }

    private void removed(Request request) {
        futures -= request.whenPosted() ? 0 : 1;
    }

    /** Takes a request back; false when it was posted meanwhile. Needs no memory. */
    @SuppressWarnings("ReferenceEquality") // a request is known by its future
    boolean withdraw(CompletableFuture<Void> future) {
        boolean withdrawn = false;
        for (int left = requests.size(); left > 0; left--) {
            Request one = requests.remove();
            if (one.future() == future) {
                removed(one);
                withdrawn = true;
            } else {
                requests.add(one);
            }
        }
        return withdrawn;
    }

    // ---- messages that were refused for lack of room

    /** A message was refused: its sender may want to know when there is room. */
    void refused(long bytes, boolean copied) {
        refusedBytes = bytes;
        refusedCopied = copied;
    }

    /** Runs a task when there is room again for a message that was refused. */
    void onRoom(Tasks.Task task) {
        whenRoom = task;
    }

    /** Whether there is a task to run as soon as the refused message would have room. */
    boolean anyRefused() {
        return refusedBytes >= 0 && whenRoom != null && isEmpty();
    }

    long refusedBytes() {
        return refusedBytes;
    }

    boolean refusedCopied() {
        return refusedCopied;
    }

    /** There is room for the message that was refused: runs the task, once for any number. */
    void notifyOfRoom() {
        Tasks.Task task = whenRoom;
        refusedBytes = -1;
        if (task != null) {
            poller.execute(task);
        }
    }
}
