package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;

/**
 * Composes the frames of a {@link MessageChannel}, and posts them. A short one is composed in
 * {@link PostScratch}, as the post copies it (inline); a longer one in a buffer of the poller,
 * which it keeps until it has ended. Guarded by the lock of the channel.
 */
final class FrameSender {
    /** What a frame names besides the message: its header, and its notes. */
    static final int OWN_BUFFERS = 2;

    /** The data of frames that carry none. */
    static final MemorySegment NOTHING = MemorySegment.NULL;

    private static final int NONE = -1;
    private static final int BUFFER =
            2; // noted in a request's slot: 0, or one more than its buffer

    private final MessageChannel channel;
    private final QueuePair pair;
    private final Credits credits;
    private final FrameBuffers buffers;
    private final int inline; // frames of up to so many bytes are sent inline
    private final PollerMemory memory;
    private final PostScratch ofPoller; // for posts on its thread
    private @Nullable PostScratch scratch; // of the post that is going on
    private final RequestRing<SendCallback> requests;
    private final Notes notes; // what is to be said of keys
    int readsOutstanding;

    /**
     * Creates one for a channel that already has its queue pair.
     *
     * @param list how many buffers a request may have
     */
    FrameSender(MessageChannel channel, FrameBuffers buffers, int inline, int list) {
        this.channel = channel;
        this.pair = channel.pair;
        this.credits = channel.credits;
        this.notes = new Notes(2 * channel.options.exposures, 0);
        this.buffers = buffers;
        this.inline = inline;
        this.requests = channel.requests;
        this.memory = channel.poller.memory();
        this.ofPoller = memory.scratch(list);
    }

    Notes notes() {
        return notes;
    }

    /** The peer is known, and how many exposures it may have. */
    void open(int peerExposures) {
        notes.open(peerExposures);
    }

    /** Writes the next bytes of a large message to where the peer has offered memory. */
    PostResult writePart(int slot, LargeSends.Large message, int bytes, OpFlags flags) {
        PostResult usable = channel.poller.domain().check(message.from);
        if (!usable.isAccepted()) {
            return usable; // its memory was closed, and its announcement cannot be taken back
        }
        try {
            long done = message.written;
            BufferList part = scratch().list.clear().add(message.from, done, bytes);
            return pair.write(slot, part, message.address + done, message.token, flags);
        } finally {
            done();
        }
    }

    private PostScratch scratch() {
        PostScratch own = scratch;
        if (own == null) {
            own = memory.mayUseScratch() ? ofPoller : memory.borrow();
            scratch = own;
        }
        return own;
    }

    /** Ends a post, successful or not: returns what it borrowed, for other channels. */
    void done() {
        PostScratch own = scratch;
        scratch = null;
        if (own != null && own != ofPoller) {
            memory.giveBack(own);
        }
    }

    PostResult postOffer(int slot, long address, int token) {
        try {
            PostScratch scratch = scratch();
            MemorySegment offer = scratch.region.memory();
            long at = scratch.at + PostScratch.MOST_INLINE;
            Frame.writeOffer(offer, at, address, token);
            return post(slot, Frame.OFFER, Frame.OFFER_BYTES, offer, at, null, 0, false);
        } finally {
            done();
        }
    }

    /** Composes a frame, and posts it. */
    PostResult post(
            int slot,
            byte kind,
            int length,
            MemorySegment data,
            long offset,
            @Nullable BufferList from,
            int token,
            boolean takes) {
        try {
            compose(slot, kind, length, data, offset, from);
            return postComposed(slot, kind, length, from != null, token, takes);
        } finally {
            done();
        }
    }

    /**
     * Composes a frame, to be posted next; until {@link #done}. May throw; then, and when it is not
     * posted, its buffer is that of the slot's next frame.
     *
     * @param length what its header says
     * @param data what it carries, if that is copied; otherwise empty
     * @param from what it carries, if that is not copied
     */
    void compose(
            int slot,
            byte kind,
            int length,
            MemorySegment data,
            long offset,
            @Nullable BufferList from) {
        int carried = kind == Frame.LARGE ? 0 : length;
        int noteBytes = noteBytes(kind);
        boolean isInline = Frame.HEADER_BYTES + carried + noteBytes <= inline;
        int buffer = isInline ? NONE : buffer(slot);
        PostScratch scratch = scratch();
        MemoryRegion region = isInline ? scratch.region : buffers.region(buffer);
        long at = isInline ? scratch.at : buffers.offset(buffer);
        MemorySegment memory = region.memory();
        BufferList list = scratch.list;
        Frame.write(memory, at, kind, credits, length, noteBytes / Frame.NOTE_BYTES);
        long end = at + Frame.HEADER_BYTES;
        if (from == null) {
            MemorySegment.copy(data, offset, memory, end, carried);
            end += carried;
            list.clear().add(region, at, end + noteBytes - at);
        } else {
            list.clear().add(region, at, Frame.HEADER_BYTES).add(from, 0, carried);
            if (noteBytes > 0) {
                list.add(region, end, noteBytes);
            }
        }
        if (noteBytes > 0) {
            notes.write(memory, end);
        }
    }

    private int noteBytes(byte kind) {
        return kind == Frame.OFFER ? 0 : notes.inNextFrame() * Frame.NOTE_BYTES;
    }

    private int buffer(int slot) {
        int buffer = requests.note(slot, BUFFER) - 1;
        if (buffer == NONE) {
            buffer = buffers.take();
            requests.note(slot, BUFFER, buffer + 1);
        }
        return buffer;
    }

    /**
     * Posts the frame that was composed: with a read fence if the peer's key that it ends may be
     * that of a read which is outstanding, not of a large message.
     *
     * @param ofCaller whether it carries the caller's memory, which may be refused
     * @param token of the peer, which its arrival invalidates, if it takes one
     */
    PostResult postComposed(
            int slot, byte kind, int length, boolean ofCaller, int token, boolean takes) {
        BufferList list = scratch().list;
        OpFlags flags = list.bytes() <= inline ? OpFlags.INLINE : OpFlags.NONE;
        if (readsOutstanding > 0 && ((takes && kind == Frame.MESSAGE) || notes.givesBack())) {
            flags = flags.and(OpFlags.READ_FENCE);
        }
        PostResult result =
                takes
                        ? pair.sendAndInvalidate(slot, list, token, flags)
                        : pair.send(slot, list, flags);
        if (result.isAccepted()) {
            posted(kind, length, noteBytes(kind) > 0);
        } else if (!ofCaller || endsChannel(result)) {
            channel.reason.refused("a send", result.status());
        }
        return result;
    }

    private void posted(byte kind, int length, boolean hasNotes) {
        switch (kind) {
            case Frame.MESSAGE, Frame.LARGE -> {
                credits.sent(false);
                channel.counts.messageSent(length);
            }
            case Frame.WRITTEN -> credits.carried();
            default -> credits.sent(true);
        }
        notes.sent(hasNotes);
    }

    /** Whether a request was refused for what its caller cannot help. */
    private static boolean endsChannel(PostResult result) {
        return result == PostResult.NOT_CONNECTED
                || result == PostResult.FULL
                || result.errno() != 0;
    }

    /** The request of a slot has ended, whether it was a frame or not. */
    void ended(int slot) {
        int buffer = requests.note(slot, BUFFER);
        if (buffer != 0) {
            requests.note(slot, BUFFER, 0);
            buffers.giveBack(buffer - 1);
        }
    }

    /** After the end: gives back the poller's buffers. A second call does nothing. */
    void free() {
        for (int slot = 0; slot < requests.slots(); slot++) {
            ended(slot);
        }
    }
}
