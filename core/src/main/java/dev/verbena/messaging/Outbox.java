package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;

/**
 * What a {@link MessageChannel} posts: messages, writes, reads and control frames, those that are
 * outstanding, and those that wait for room. Guarded by the lock of the channel, which is open
 * whenever something is posted.
 *
 * <p>Requests complete in the order in which they were posted, so their slots are a ring.
 */
final class Outbox {
    // What is noted for each request in its slot; FrameSender has one more.
    private static final int KIND = 0;
    private static final int BINDS = 1; // how many had been posted before it
    private static final int NOTES = 3;

    private static final RequestKind[] KINDS = RequestKind.values();
    private static final int PART_BYTES = 1 << 20; // of a large message, in one request
    private static final MemorySegment NOTHING = FrameSender.NOTHING;
    private static final OpFlags WITH_NEXT = OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER);

    private final MessageChannel channel;
    private final QueuePair pair;
    private final Credits credits;
    private final Exposures exposures;
    private final RequestRing<SendCallback> requests;
    private final FrameSender frames;
    final Notes notes; // in its frames
    private final int most; // requests of the user
    final int mostBuffers; // of a message
    private final int partBytes;
    final LargeSends large;
    private boolean sendsLarge; // has announced a large message: otherwise none is looked for
    final WaitingRequests waiting; // for room
    final KeepAlive keepAlive;

    private PeerTokens usable = new PeerTokens(0);
    int eagerLimit; // longer messages are large
    private int outstanding; // requests of the user, and parts of large messages
    private int controlsOutstanding;
    private @Nullable VerbenaException whyNoMemory; // for a copy, when a post found none
    private boolean saidClose;
    boolean established;

    /**
     * Creates an outbox for a channel that already has its queue pair.
     *
     * @param frames posts its frames
     * @param mostBuffers of a message
     */
    Outbox(MessageChannel channel, FrameSender frames, int mostBuffers, int eagerLimit) {
        this.channel = channel;
        this.pair = channel.pair;
        this.requests = channel.requests;
        this.credits = channel.credits;
        this.exposures = channel.exposures;
        this.frames = frames;
        this.notes = frames.notes();
        this.mostBuffers = mostBuffers;
        this.eagerLimit = eagerLimit; // until the peer is known
        this.waiting = new WaitingRequests(channel.poller);
        this.keepAlive =
                new KeepAlive(
                        PollerClock.ticks(channel.options.keepAlive),
                        PollerClock.ticks(channel.options.timeout),
                        channel.poller.connections().size());
        this.most = channel.options.outstanding;
        this.partBytes =
                (int) Math.min(PART_BYTES, channel.poller.adapter().info().maxTransferBytes());
        this.large = new LargeSends(channel, most, mostBuffers);
    }

    /**
     * The largest number of requests with completions: the user's, control frames and invalidates.
     */
    static int requestCount(MessagingOptions options) {
        return options.outstanding + Credits.RESERVE + options.exposures;
    }

    /** The ring for a channel's requests. */
    static RequestRing<SendCallback> ring(MessagingOptions options) {
        return new RequestRing<>(requestCount(options), PollerClock.ticks(options.timeout), NOTES);
    }

    /** The peer is known: which messages it receives at once, and how much it may expose. */
    void open(int eagerMost, int peerExposures) {
        eagerLimit = eagerMost;
        usable = new PeerTokens(peerExposures);
        frames.open(peerExposures);
    }

    // ---- requests

    private boolean hasRoom(RequestKind kind, long length, boolean copied) {
        if (!established || outstanding + (sendsLarge ? large.waiting() : 0) >= most) {
            return false;
        }
        if (!kind.message) {
            return true;
        }
        if (!notes.fit()) {
            reportIfDue(); // the peer must know of a key before it gets it in a message
        }
        if (!credits.maySendMessage() || !notes.fit()) {
            return false;
        }
        if (length <= eagerLimit) {
            return !sendsLarge || !large.isWaiting(); // or it would arrive before
        }
        return !copied
                || large.copied() + LargeMemory.blockBytes((int) length)
                        <= channel.options.largeMemory();
    }

    /**
     * Posts a request, if the channel is open, has room, and no other thread waits for room. May be
     * called from any thread; takes the lock.
     *
     * @param data the message, if it has one that is copied
     * @param local what is written, or where a read goes; or the message, without remote memory
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
        BufferList from = kind == RequestKind.SEND ? local : null;
        long bytes = from == null ? length : from.bytes();
        if (bytes > (kind.invalidates ? eagerLimit : channel.maxMessage())) {
            throw tooLong(kind, bytes);
        }
        if (from != null && from.size() > mostBuffers) {
            return PostResult.TOO_MANY_BUFFERS;
        }
        try (var _ = channel.lock.hold()) {
            if (!channel.takesRequests()) {
                return PostResult.NOT_CONNECTED;
            }
            if (waiting.isEmpty() && hasRoom(kind, bytes, local == null)) {
                return post(
                        kind,
                        data,
                        offset,
                        bytes,
                        local,
                        remote,
                        remoteOffset,
                        callback,
                        attachment);
            }
            channel.counts.foundNoRoom();
            waiting.refused(bytes, local == null);
            return PostResult.FULL;
        }
    }

    private IllegalArgumentException tooLong(RequestKind kind, long bytes) {
        return new IllegalArgumentException(
                kind.invalidates
                        ? "A message of %,d bytes cannot take memory back: %s sends at most %,d bytes at once (MessagingOptions.withEagerLimit, of both sides)"
                                .formatted(bytes, channel, eagerLimit)
                        : "A message of %,d bytes is longer than the %,d that both sides of %s take (MessagingOptions.withMaxMessage)"
                                .formatted(bytes, channel.maxMessage(), channel));
    }

    /** Has a request wait for room; false when too many futures do already. */
    boolean enqueue(WaitingRequests.Request request) {
        if (!waiting.add(request)) {
            return false;
        }
        channel.counts.waiting();
        try {
            roomChanged();
        } catch (Throwable t) { // out of memory, most likely
            if (waiting.withdraw(request.future())) {
                throw t;
            } // otherwise it was posted
        }
        return true;
    }

    /** Takes a waiting request back; false when it was posted meanwhile. */
    boolean withdraw(CompletableFuture<Void> future) {
        boolean withdrawn = waiting.withdraw(future);
        if (withdrawn) { // those behind it may need none
            try {
                roomChanged();
            } catch (Throwable t) {
                channel.endFor(t);
            }
        }
        return withdrawn;
    }

    /** There may be room: for those that wait. */
    void roomChanged() {
        writeOffered();
        postPending();
        if (waiting.anyRefused()
                && hasRoom(RequestKind.SEND, waiting.refusedBytes(), waiting.refusedCopied())) {
            waiting.notifyOfRoom();
        }
    }

    private void postPending() {
        WaitingRequests.Request first = waiting.first();
        while (first != null && channel.takesRequests()) {
            if (first.future().isDone()) { // by another thread: it is about to be withdrawn
                waiting.removeFirst();
                first = waiting.first();
                continue;
            }
            if (!hasRoom(first.kind(), first.bytes(), first.local() == null)) {
                return;
            }
            CompletableFuture<Void> future = first.future();
            PostResult result;
            try {
                result =
                        post(
                                first.kind(),
                                first.data(),
                                0,
                                first.bytes(),
                                first.local(),
                                first.remote(),
                                0,
                                first.whenPosted() ? null : RoomWait.COMPLETE_FUTURE,
                                first.whenPosted() ? null : future);
            } catch (IllegalStateException e) { // the arena of its data was closed meanwhile
                channel.poller.execute(
                        () -> future.completeExceptionally(e)); // first: it may throw
                waiting.removeFirst();
                first = waiting.first();
                continue;
            }
            if (!result.isAccepted() && !channel.isOpen()) {
                return; // the end completes it
            }
            if (!result.isAccepted()) {
                MessagingException refused = refusal(result, first.remote());
                if (first.whenPosted()) {
                    future.completeExceptionally(refused);
                } else {
                    channel.poller.execute(
                            () -> future.completeExceptionally(refused)); // without the lock
                }
            } else if (first.whenPosted()) {
                future.complete(null); // nothing depends on it but a waiting thread
            }
            waiting.removeFirst();
            first = waiting.first();
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
                status,
                "%s refused a request: %s. %s".formatted(channel, why, status),
                result == PostResult.NO_MEMORY ? whyNoMemory : null);
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
        if (remote != null && !usable.contains(remote.token())) {
            return PostResult.NOT_EXPOSED;
        }
        int slot = requests.next();
        BufferList from = remote == null ? local : null;
        PostResult result =
                from == null ? PostResult.ACCEPTED : channel.poller.domain().check(from);
        if (!result.isAccepted()) {
            return result;
        }
        try {
            if (kind == RequestKind.SEND && length > eagerLimit) {
                return announce(slot, data, offset, (int) length, local, callback, attachment);
            }
            if (kind.message) { // first: a write must not go out without its message
                frames.compose(slot, Frame.MESSAGE, (int) length, data, offset, from);
            }
            if (local != null && remote != null) {
                result = postAccess(kind, slot, local, remote, remoteOffset);
            }
            if (result.isAccepted() && kind.message) {
                RemoteMemory taken = kind.invalidates ? remote : null;
                boolean takes = taken != null;
                int token = taken == null ? 0 : taken.token();
                boolean ofCaller = from != null;
                result =
                        frames.postComposed(
                                slot, Frame.MESSAGE, (int) length, ofCaller, token, takes);
                if (takes && result.isAccepted()) {
                    usable.givenBack(token); // never a second time
                }
            }
        } catch (VerbenaException e) { // from taking a buffer; posting never throws it
            whyNoMemory = e;
            boolean device = e.errno() != 0 && e.status() != Status.INSUFFICIENT_RESOURCES;
            return device ? PostResult.ofErrno(e.errno()) : PostResult.NO_MEMORY;
        } finally {
            frames.done();
        }
        if (result.isAccepted()) {
            outstanding++;
            frames.readsOutstanding += kind.reads ? 1 : 0;
            posted(slot, kind, callback, attachment);
        }
        return result;
    }

    private RequestKind kind(int slot) {
        return KINDS[requests.note(slot, KIND)];
    }

    private void posted(
            int slot,
            RequestKind kind,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        requests.note(slot, KIND, kind.ordinal());
        requests.note(slot, BINDS, exposures.bindsPosted());
        requests.posted(callback, attachment);
    }

    void invalidate(Exposure exposure, MemoryWindow window) {
        int slot = requests.next();
        PostResult result = pair.invalidate(slot, window, OpFlags.NONE);
        if (result.isAccepted()) {
            posted(slot, RequestKind.INVALIDATE, Exposures.INVALIDATED, exposure);
        } else if (result == PostResult.WINDOW_NOT_BOUND) {
            // A peer of another connection has: Soft-RoCE does not look at whose a key is.
            channel.poller.execute(() -> exposures.invalidatedByOther(exposure));
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
                        : pair.write(
                                slot,
                                local,
                                remote,
                                offset,
                                kind.message ? WITH_NEXT : OpFlags.NONE);
        if (result == PostResult.NOT_CONNECTED || result == PostResult.FULL) {
            channel.reason.refused("a send", result.status());
        }
        return result;
    }

    // ---- large messages

    private PostResult announce(
            int slot,
            MemorySegment data,
            long offset,
            int length,
            @Nullable BufferList local,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        LargeMemory.Block copy = large.fill(data, offset, length, local);
        PostResult result = null; // if it throws
        try {
            result = frames.post(slot, Frame.LARGE, length, NOTHING, 0, null, 0, false);
        } finally {
            if (copy != null && result != PostResult.ACCEPTED) {
                channel.poller.memory().large().giveBack(copy);
            }
        }
        if (result.isAccepted()) {
            sendsLarge = true;
            large.announced(length, copy, callback, attachment);
            outstanding++;
            posted(slot, RequestKind.ANNOUNCEMENT, null, null);
        }
        return result;
    }

    /** Writes what the peer has offered memory for, as far as there is room. */
    private void writeOffered() {
        LargeSends.Large one = sendsLarge ? large.toWrite() : null;
        while (one != null && channel.sendsFrames()) {
            int bytes = Math.min(partBytes, one.length - one.written);
            boolean last = bytes == one.length - one.written;
            if (outstanding == most) {
                return; // those that are outstanding end, whatever the peer does
            }
            int slot = requests.next();
            PostResult result = frames.writePart(slot, one, bytes, last ? WITH_NEXT : OpFlags.NONE);
            if (!result.isAccepted()) {
                channel.reason.refused("a write of a large message", result.status());
                return;
            }
            one.written += bytes;
            if (!last) {
                outstanding++;
                posted(slot, RequestKind.PART, null, null);
            } else if (frames.post(slot, Frame.WRITTEN, 0, NOTHING, 0, null, one.token, true)
                    .isAccepted()) {
                outstanding++;
                posted(slot, RequestKind.LAST_PART, one.callback, one.attachment);
                large.written();
                one = large.toWrite();
            } else {
                return;
            }
        }
    }

    /** A request has succeeded, and its buffer may be used again. */
    void ended(int slot) {
        RequestKind kind = kind(slot);
        exposures.bindsEnded(requests.note(slot, BINDS));
        frames.ended(slot);
        switch (kind) {
            case CONTROL -> {
                controlsOutstanding--;
                reportIfDue();
            }
            case ANNOUNCEMENT -> {
                outstanding--;
                large.acknowledged();
            }
            case LAST_PART -> {
                outstanding--;
                large.ended();
            }
            case INVALIDATE -> {}
            default -> {
                outstanding--;
                frames.readsOutstanding -= kind.reads ? 1 : 0;
            }
        }
        roomChanged();
    }

    // ---- keys

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

    /** Whether a control frame may be sent now. */
    private boolean maySendControl() {
        return established
                && credits.maySendControl()
                && controlsOutstanding < Credits.CONTROLS
                && channel.sendsFrames();
    }

    /** Sends a control frame if there is room for it. */
    boolean control(byte kind) {
        return maySendControl() && post(kind);
    }

    private boolean post(byte kind) {
        int slot = requests.next();
        return controlPosted(slot, frames.post(slot, kind, 0, NOTHING, 0, null, 0, false));
    }

    /** Says that this side closes, and sends nothing from now on; once. */
    void close() {
        boolean keepsBack = sendsLarge && large.isWaiting(); // what was announced, and never comes
        if (established && channel.isOpen() && !saidClose && !keepsBack) {
            saidClose = post(Frame.CLOSE);
        }
    }

    private boolean controlPosted(int slot, PostResult result) {
        if (!result.isAccepted()) {
            return false;
        }
        controlsOutstanding++;
        posted(slot, RequestKind.CONTROL, null, null);
        return true;
    }

    /**
     * Offers the peer memory for a large message that it has announced.
     *
     * @return false when that has to wait
     */
    boolean offer(Message message, MemoryRegion to, int length) {
        Exposure exposure = maySendControl() ? exposures.offer(message, to, length) : null;
        if (exposure == null) {
            return false;
        }
        int slot = requests.next();
        long address = to.memory().address();
        return controlPosted(slot, frames.postOffer(slot, address, exposure.token));
    }

    /** Sends what the peer waits for: reports of credit, notes, or an answer; as room permits. */
    void reportIfDue() {
        while ((credits.reportDue() || notes.urgent()) && control(Frame.CREDIT)) {
            continue;
        }
    }

    // ---- whether the peer is there

    /** A frame has come. */
    void heard(boolean keepAlive) {
        this.keepAlive.heard();
        if (keepAlive) {
            notes.dueAnswer();
        }
    }

    /**
     * The connection is established: what waits is sent, and the peer is asked when it says
     * nothing. A peer that has connected may send earlier than this side knows that it has.
     */
    void established() {
        established = true;
        keepAlive.heard();
        channel.ownMemory.serve();
        roomChanged();
        reportIfDue();
    }

    // ---- deadlines

    /**
     * At a tick: looks at deadlines, and asks the peer whether it is there if nothing came for
     * long.
     *
     * @return what is late, or null
     */
    @Nullable String late(int now) {
        if (!established) {
            return null;
        }
        String late =
                requests.isLate(now) ? kind(requests.oldest()).lateness() : exposures.late(now);
        if (late != null) {
            return late + " within " + Text.time(channel.options.timeout);
        }
        if (keepAlive.isSilent(now)) {
            return "the peer has not answered within %s whether it is there: its process hangs, or its poller is not polled"
                    .formatted(Text.time(channel.options.timeout));
        }
        askIfIdle(now);
        return null;
    }

    /** Asks the peer whether it is there, if nothing came for so long. */
    void askIfIdle(int now) {
        if (keepAlive.asks(now)) {
            // Without room for it, the peer has earlier control frames to report.
            boolean ignored = control(Frame.KEEP_ALIVE);
        }
    }
}
