package dev.verbena.messaging;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;

/**
 * What a {@link MessageChannel} posts: messages, writes, reads and control frames, those that are
 * outstanding, and those that wait for room. Guarded by the lock of the channel, which is open
 * whenever something is posted.
 *
 * <p>Requests complete in the order in which they were posted, so their slots are a ring. The
 * user's requests and the control frames among them have buffers, which are two rings of their own.
 */
final class Outbox {
    private static final int MOST_FUTURES = 1024;
    private static final OpFlags WITH_NEXT = OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER);

    /**
     * A request that waits for room.
     *
     * @param data the message, empty if there is none
     * @param local what is written, or where a read goes
     * @param remote the peer's memory
     * @param future to be completed
     * @param whenPosted whether that is when it was posted, not when it has ended
     */
    record Pending(
            RequestKind kind,
            MemorySegment data,
            @Nullable BufferList local,
            @Nullable RemoteMemory remote,
            CompletableFuture<Void> future,
            boolean whenPosted) {
        /**
         * The polling thread copies the data when there is room, and may read no other's memory.
         */
        Pending readableBy(Poller poller) {
            return data.isAccessibleBy(poller.thread)
                    ? this
                    : new Pending(
                            kind,
                            MemorySegment.ofArray(data.toArray(ValueLayout.JAVA_BYTE)),
                            local,
                            remote,
                            future,
                            whenPosted);
        }
    }

    private final MessageChannel channel;
    private final Poller poller;
    private final QueuePair pair;
    private final Credits credits;
    private final Exposures exposures;
    private final RequestRing<SendCallback> requests;
    private final MemoryRegion region; // a buffer for each message, and each control frame
    private final MemorySegment memory;
    private final int buffers; // for messages
    private final int stride; // from one of them to the next
    private final int inline; // frames of up to so many bytes are sent inline
    private final int timeoutTicks;
    private final BufferList frame = new BufferList(1);
    private final RequestKind[] kinds; // by slot, as the binds are
    private final int[] binds; // how many had been posted before it
    private final Deque<Pending> pending = new ArrayDeque<>();

    private Notes notes;
    private PeerTokens usable = new PeerTokens(0);
    private int nextBuffer;
    private int nextControl;
    private int outstanding; // requests of the user
    private int controlsOutstanding;
    private boolean established;
    private boolean heard; // since the last tick
    private int lastHeard; // the tick
    private boolean answerDue; // to a keep-alive
    private boolean asked; // whether the peer is there, and it has not answered
    private int askedAt; // the tick
    private int futuresPending;
    private int readsOutstanding;

    /**
     * Creates an outbox for a channel that already has its queue pair.
     *
     * @param stride the length of the longest frame, aligned
     * @param inline frames of up to so many bytes are sent inline
     */
    Outbox(MessageChannel channel, Credits credits, Exposures exposures, int stride, int inline) {
        this.channel = channel;
        this.poller = channel.poller;
        this.pair = channel.pair;
        this.requests = channel.requests;
        this.credits = credits;
        this.exposures = exposures;
        this.stride = stride;
        this.inline = inline;
        this.timeoutTicks = PollerClock.ticks(channel.options.values.timeout);
        this.buffers = channel.options.values.outstanding;
        int slots = requestCount(channel.options);
        this.kinds = new RequestKind[slots];
        this.binds = new int[slots];
        this.notes = new Notes(2 * channel.options.values.exposures, 0);
        this.region =
                poller.domain()
                        .allocate(
                                (long) buffers * stride
                                        + (long) Credits.RESERVE * Frame.MOST_EXTRA_BYTES,
                                Access.LOCAL_WRITE);
        this.memory = region.memory();
    }

    /**
     * The largest number of requests with completions: the user's, control frames and invalidates.
     */
    static int requestCount(MessagingOptions options) {
        return options.values.outstanding + Credits.RESERVE + options.values.exposures;
    }

    /** Nothing of it is posted any more. */
    MemoryRegion memory() {
        return region;
    }

    /** The peer is known, and how much it may expose. */
    void open(int peerExposures) {
        usable = new PeerTokens(peerExposures);
        notes = notes.withRoomForAnswers(peerExposures);
    }

    // ---- requests

    private boolean hasRoom(RequestKind kind) {
        if (!established || outstanding == buffers) {
            return false;
        }
        if (kind.message && !notes.fit()) {
            reportIfDue(); // the peer must know of a key before it gets it in a message
        }
        return !kind.message || (credits.maySendMessage() && notes.fit());
    }

    /**
     * Posts a request, if the channel is open, has room, and no other thread waits for room. May be
     * called from any thread; takes the lock.
     *
     * @param data the message, if it has one
     * @param local what is written, or where a read goes
     * @param remote the peer's memory, for all but messages
     * @param remoteOffset where in it
     */
    PostResult submit(
            RequestKind kind,
            MemorySegment data,
            long offset,
            long length,
            @Nullable BufferList local,
            @Nullable RemoteMemory remote,
            long remoteOffset,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        if (length > channel.maxMessage()) {
            throw new IllegalArgumentException(
                    "A message of %,d bytes is longer than the %,d that both sides of %s take (MessagingOptions.withMaxMessage)"
                            .formatted(length, channel.maxMessage(), channel));
        }
        channel.lock.lock();
        try {
            if (!channel.takesRequests()) {
                return PostResult.NOT_CONNECTED;
            }
            if (pending.isEmpty() && hasRoom(kind)) {
                return post(
                        kind,
                        data,
                        offset,
                        length,
                        local,
                        remote,
                        remoteOffset,
                        callback,
                        attachment);
            }
            channel.counts.foundNoRoom();
            return PostResult.FULL;
        } finally {
            channel.lock.unlock();
        }
    }

    /** Has a request wait for room; false when too many futures do already. */
    boolean enqueue(Pending waiting) {
        Pending kept = waiting.readableBy(poller); // first: it may throw
        if (!waiting.whenPosted()) {
            if (futuresPending == MOST_FUTURES) {
                return false;
            }
            futuresPending++;
        }
        channel.counts.waiting();
        pending.add(kept);
        roomChanged();
        return true;
    }

    /** Takes a waiting request back; false when it was posted meanwhile. */
    @SuppressWarnings("ReferenceEquality") // a request is known by its future
    boolean withdraw(CompletableFuture<Void> waiting) {
        return pending.removeIf(one -> one.future() == waiting);
    }

    /** There may be room: for those that wait. */
    void roomChanged() {
        while (!pending.isEmpty() && hasRoom(pending.element().kind()) && channel.takesRequests()) {
            Pending first = pending.element();
            CompletableFuture<Void> future = first.future();
            PostResult result;
            try {
                result =
                        post(
                                first.kind(),
                                first.data(),
                                0,
                                first.data().byteSize(),
                                first.local(),
                                first.remote(),
                                0,
                                first.whenPosted() ? null : RoomWait.COMPLETE_FUTURE,
                                first.whenPosted() ? null : future);
            } catch (IllegalStateException e) { // the arena of its data was closed meanwhile
                poller.execute(() -> future.completeExceptionally(e)); // first: it may throw
                forget(first);
                continue;
            }
            if (!channel.isOpen()) {
                return; // the end completes it
            }
            if (!result.isAccepted()) {
                MessagingException refused = refusal(result, first.remote());
                poller.execute(() -> future.completeExceptionally(refused)); // without the lock
            } else if (first.whenPosted()) {
                future.complete(null); // nothing depends on it but a waiting thread
            }
            forget(first);
        }
    }

    /** The exception for a request that was refused just now. */
    MessagingException refusal(PostResult result, @Nullable RemoteMemory remote) {
        Status status = result.status();
        if (status == Status.CONNECTION_INVALID || !channel.isOpen()) {
            return channel.exception(status);
        }
        String why =
                remote != null && result == PostResult.NOT_EXPOSED
                        ? usable.whyNot(remote.token())
                        : result.reason();
        return new MessagingException(
                status, "%s refused a request: %s. %s".formatted(channel, why, status));
    }

    private void forget(Pending first) {
        pending.remove();
        if (!first.whenPosted()) {
            futuresPending--;
        }
    }

    private PostResult post(
            RequestKind kind,
            MemorySegment data,
            long offset,
            long length,
            @Nullable BufferList local,
            @Nullable RemoteMemory remote,
            long remoteOffset,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        int slot = requests.next();
        long at = (long) nextBuffer * stride;
        if (remote != null && !usable.contains(remote.token())) {
            return PostResult.NOT_EXPOSED;
        }
        if (kind.message) {
            MemorySegment.copy(data, offset, memory, at + Frame.HEADER_BYTES, length);
        }
        PostResult result = PostResult.ACCEPTED;
        if (local != null && remote != null) {
            result = postAccess(kind, slot, local, remote, remoteOffset);
        }
        if (result.isAccepted() && kind.message) {
            result =
                    postFrame(
                            slot,
                            at,
                            Frame.MESSAGE,
                            (int) length,
                            kind.invalidates ? remote : null);
        }
        if (result.isAccepted()) {
            nextBuffer = nextBuffer + 1 == buffers ? 0 : nextBuffer + 1;
            outstanding++;
            readsOutstanding += kind.reads ? 1 : 0;
            posted(slot, kind, callback, attachment);
        }
        return result;
    }

    private void posted(
            int slot,
            RequestKind kind,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        if (kinds[slot] != kind) { // as for callbacks: see RequestRing
            kinds[slot] = kind;
        }
        binds[slot] = exposures.bindsPosted();
        requests.posted(callback, attachment);
    }

    /** Invalidates the token of an exposure. */
    void invalidate(Exposure exposure, MemoryWindow window) {
        int slot = requests.next();
        PostResult result = pair.invalidate(slot, window, OpFlags.NONE);
        if (result.isAccepted()) {
            posted(slot, RequestKind.INVALIDATE, Exposures.INVALIDATED, exposure);
        } else {
            channel.reason.refused("an invalidate", result.status());
        }
    }

    /** Posts a read or write. What is the caller's mistake is refused without effect. */
    private PostResult postAccess(
            RequestKind kind, int slot, BufferList local, RemoteMemory remote, long offset) {
        PostResult result =
                kind.reads
                        ? pair.read(slot, local, remote, offset, OpFlags.NONE)
                        : kind.message
                                ? pair.write(slot, local, remote, offset, WITH_NEXT)
                                : pair.write(slot, local, remote, offset, OpFlags.NONE);
        if (result == PostResult.NOT_CONNECTED || result == PostResult.FULL) {
            channel.reason.refused("a send", result.status());
        }
        return result;
    }

    private PostResult postFrame(
            long context, long at, byte kind, int length, @Nullable RemoteMemory taken) {
        int noteCount = notes.inNextFrame();
        int bytes = Frame.HEADER_BYTES + length + noteCount * Frame.NOTE_BYTES;
        Frame.write(memory, at, kind, credits, length, noteCount);
        notes.write(memory, at + Frame.HEADER_BYTES + length);
        OpFlags flags = bytes <= inline ? OpFlags.INLINE : OpFlags.NONE;
        if (readsOutstanding > 0 && (taken != null || notes.givesBack())) {
            flags = flags.and(OpFlags.READ_FENCE); // a key must not end before the reads by it
        }
        BufferList list = frame.clear().add(region, at, bytes);
        PostResult result =
                taken == null
                        ? pair.send(context, list, flags)
                        : pair.sendAndInvalidate(context, list, taken.token(), flags);
        if (result.isAccepted()) {
            credits.sent(kind != Frame.MESSAGE);
            if (kind == Frame.MESSAGE) {
                channel.counts.messageSent(length);
            }
            notes.sent();
            answerDue = false; // any frame is one
            if (taken != null) {
                usable.givenBack(taken.token()); // never a second time
            }
        } else {
            channel.reason.refused("a send", result.status());
        }
        return result;
    }

    /** A request has succeeded, and its buffer may be used again. */
    void ended(int slot) {
        RequestKind kind = kinds[slot];
        exposures.bindsEnded(binds[slot]);
        if (kind == RequestKind.CONTROL) {
            controlsOutstanding--;
            reportIfDue();
        } else if (kind != RequestKind.INVALIDATE) {
            outstanding--;
            readsOutstanding -= kind.reads ? 1 : 0;
        }
        roomChanged();
    }

    // ---- keys

    /** Has the next frame carry a note; false when there are too many already. */
    boolean note(byte kind, int token) {
        return notes.add(kind, token);
    }

    /** Takes back that a key was exposed; false if the peer was notified already. */
    boolean withdrawExposed(int token) {
        return notes.withdrawExposed(token);
    }

    /**
     * A note of the peer's.
     *
     * @return false when it cannot be true
     */
    boolean noted(int kind, int token) {
        return switch (kind) {
            case Notes.EXPOSED -> usable.exposed(token);
            case Notes.ASKED_BACK -> {
                usable.askedBack(token);
                yield notes.add(Notes.GIVEN_BACK, token);
            }
            case Notes.GIVEN_BACK -> exposures.givenBack(token);
            default -> false;
        };
    }

    // ---- control frames

    /** Sends a control frame if there is room for it. */
    boolean control(byte kind) {
        if (!established
                || !credits.maySendControl()
                || controlsOutstanding == Credits.RESERVE
                || !channel.takesRequests()) {
            return false;
        }
        int slot = requests.next();
        long at = (long) buffers * stride + (long) nextControl * Frame.MOST_EXTRA_BYTES;
        if (!postFrame(slot, at, kind, 0, null).isAccepted()) {
            return false;
        }
        nextControl = (nextControl + 1) % Credits.RESERVE;
        controlsOutstanding++;
        posted(slot, RequestKind.CONTROL, null, null);
        return true;
    }

    /**
     * Sends what the peer waits for, while there is room: reports of credit, notes, or an answer.
     */
    void reportIfDue() {
        while ((answerDue || credits.reportDue() || notes.urgent()) && control(Frame.CREDIT)) {
            continue;
        }
    }

    // ---- whether the peer is there

    /** A frame has come. */
    void heard(boolean keepAlive) {
        heard = true;
        asked = false;
        answerDue |= keepAlive;
    }

    /**
     * The connection stands: what waits is sent, and the peer is asked when it says nothing. A peer
     * that has connected may send earlier than this side knows that it has.
     */
    void established() {
        established = true;
        heard = true;
        exposures.wakeAll();
        roomChanged();
        reportIfDue();
    }

    boolean isEstablished() {
        return established;
    }

    /** Asks the peer whether it is there, if nothing came for so many ticks. */
    void askIfIdle(int now, int ticks) {
        if (heard) {
            heard = false;
            lastHeard = now;
        }
        if (!asked && now - lastHeard >= ticks) {
            asked = true;
            askedAt = now;
            // Without room for it, the peer has earlier control frames to report.
            boolean ignored = control(Frame.KEEP_ALIVE);
        }
    }

    /** Whether the peer was asked and has not answered in time. */
    boolean isSilent(int now) {
        return asked && now - askedAt > timeoutTicks;
    }

    // ---- deadlines, and the end

    /** What has not ended in time, of the oldest request; null if there is none. */
    @Nullable String late(int now) {
        if (!requests.isLate(now)) {
            return null;
        }
        RequestKind kind = kinds[requests.oldest()];
        return switch (kind) {
            case WRITE, READ ->
                    "a %s did not complete".formatted(kind.name().toLowerCase(Locale.ROOT));
            case INVALIDATE -> "the invalidation of an exposure's token did not complete";
            default -> "a message was not acknowledged";
        };
    }

    /** The oldest request that waits for room; null when there is none. */
    @Nullable Pending oldestPending() {
        return pending.peek();
    }

    /** After the end: a request that waited for room got the reason, unless it was withdrawn. */
    @SuppressWarnings("ReferenceEquality") // a request is known by its object
    void cancelled(Pending waited) {
        if (pending.peek() == waited) {
            pending.remove();
        }
    }
}
