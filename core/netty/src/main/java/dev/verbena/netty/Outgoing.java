package dev.verbena.netty;

import dev.verbena.BufferList;
import dev.verbena.Status;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.SendCallback;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelOutboundBuffer;
import io.netty.channel.FileRegion;

import org.jspecify.annotations.Nullable;

import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Objects;

/**
 * Sends what a channel has flushed: packs it into messages, and knows how much of it has arrived.
 * Registered memory is sent from where it is, in up to six parts a message; all else is copied
 * once, into registered memory. What is flushed stays in Netty's buffer until the peer has it.
 */
final class Outgoing implements ChannelOutboundBuffer.MessageProcessor {
    private static final int MOST_PARTS = 6;
    private static final int LEAST_PART = 1024; // shorter ones are copied: a part costs as much
    private static final int TINY = 128; // messages that the device gets with the request
    private static final int BLOCK = 128 << 10; // to copy into, if as much is flushed
    private static final int NONE = -1;
    private static final MemorySegment NOTHING = MemorySegment.NULL;
    private static final SendCallback ENDED =
            (channel, flight, status) -> ((Flight) Objects.requireNonNull(flight)).ended(status);

    /** A message, and the buffers that it is sent from. */
    private final class Flight {
        private final ByteBuf[] parts = new ByteBuf[MOST_PARTS];
        private int count;
        private int bytes;
        private boolean plain; // its only part is not registered, and copied again
        private long counted; // flushed bytes: as many, unless a FileRegion reports otherwise

        void add(ByteBuf part) {
            parts[count++] = part;
        }

        void ended(Status status) {
            long sent = counted;
            release(this);
            if (--inFlight == 0 && next == null) {
                dropBlock();
            }
            if (status.isSuccess()) {
                channel.arrived(sent);
            }
        }
    }

    private final RdmaChannel channel;
    private final MessageChannel messages;
    private final RegisteredByteBufAllocator allocator;
    private final int most; // bytes in a message
    private final int mostParts;
    private final int usual; // bytes of a block to copy into
    private final int eager; // bytes of a message that needs no registered memory of its own
    private final int frame; // bytes, with its header, that should not be cut
    private final BufferList list = new BufferList(MOST_PARTS); // of the next message
    private final Deque<Flight> spare = new ArrayDeque<>();
    private @Nullable Flight next; // is packed, or waits for room
    private @Nullable SegmentByteBuf block; // what is copied goes there, message after message
    private int partStart = NONE; // in the block: of the next message's last part
    private boolean refused; // the next message, for lack of room
    private boolean endWanted;
    private boolean endSent;
    private int inFlight; // messages
    private long packed; // bytes in flight and in the next message, all at the front of the buffer
    private long skip; // of these, still to be passed over
    private long left; // bytes to be packed, at least; for the size of copies
    private long fileArrived; // of the file region at the front
    private boolean atFront;
    private int whole; // flushed buffers that are packed to their end
    private boolean removing;
    private long copied;

    Outgoing(
            RdmaChannel channel,
            MessageChannel messages,
            RegisteredByteBufAllocator allocator,
            int eager) {
        this.channel = channel;
        this.messages = messages;
        this.allocator = allocator;
        this.most = messages.maxMessage();
        this.mostParts = Math.min(MOST_PARTS, messages.maxBuffers());
        this.usual = Math.min(BLOCK, most);
        this.eager = Math.min(eager, most);
        this.frame = Math.min(eager, most / 8);
    }

    /** Whether the device may still read buffers. */
    boolean isInFlight() {
        return inFlight > 0;
    }

    /** How many bytes were copied. */
    long copied() {
        return copied;
    }

    // ---- packing

    /** Sends as much as there is room for. */
    void write(ChannelOutboundBuffer in) throws Exception {
        if (removing) {
            return; // a listener flushes: what follows is sent behind the removal
        }
        if (packed == 0) {
            removeEmpty(in);
        }
        if ((refused && !post()) || (next == null && whole == in.size())) {
            return;
        }
        skip = packed;
        left = in.totalPendingWriteBytes() - packed;
        atFront = true;
        in.forEachFlushedMessage(this);
        if (next != null && !refused) {
            var _ = post();
        }
    }

    @Override
    public boolean processMessage(Object message) throws Exception {
        boolean first = atFront;
        atFront = false;
        if (message instanceof FileRegion file) {
            skip -= file.transferred() - (first ? fileArrived : 0);
            return file.transferred() == file.count() || packedWhole(packFile(file));
        }
        ByteBuf buffer = (ByteBuf) message;
        int readable = buffer.readableBytes();
        if (skip >= readable) {
            skip -= readable;
            return true;
        }
        int from = (int) skip;
        skip = 0;
        return packedWhole(pack(buffer, buffer.readerIndex() + from, readable - from));
    }

    private boolean packedWhole(boolean done) {
        whole += done ? 1 : 0;
        return done;
    }

    /** Packs a part of a buffer; false when there is no room for all of it. */
    private boolean pack(ByteBuf buffer, int index, int length) throws IOException {
        if (isBetterSentFirst(length) && !post()) {
            return false;
        }
        if (buffer instanceof CompositeByteBuf composite && length >= LEAST_PART) {
            return packComponents(composite, index, length);
        }
        if (length >= LEAST_PART && buffer.nioBufferCount() > 1) {
            return packPieces(buffer, index, length);
        }
        int at = index;
        int end = index + length;
        while (at < end) {
            if (isFull() && !post()) {
                return false;
            }
            Flight flight = nextFlight();
            int bytes = Math.min(end - at, most - flight.bytes);
            boolean takesParts = !flight.plain && flight.count < mostParts;
            if (bytes >= LEAST_PART && takesParts && addRegistered(flight, buffer, at, bytes)) {
                at += took(flight, bytes);
                continue;
            }
            if (bytes >= LEAST_PART && !takesParts && allocator.isRegistered(buffer, at, bytes)) {
                if (!post()) {
                    return false;
                }
                continue;
            }
            SegmentByteBuf to = copyWithRoom(flight, bytes);
            if (to != null) {
                int done = Math.min(bytes, to.writableBytes());
                var _ = to.writeBytes(buffer, at, done);
                copied += done;
                at += took(flight, done);
            } else if (!post()) {
                return false;
            }
        }
        return true;
    }

    /**
     * A message that ends where a buffer does need not be joined to the next one by the peer, and a
     * short buffer is most often the header of what follows: both go in one message.
     */
    private boolean isBetterSentFirst(int bytes) {
        Flight flight = next;
        if (flight == null || bytes > most) {
            return false;
        }
        int room = most - flight.bytes;
        return bytes > room || (bytes < LEAST_PART && !hasRoomForHeader(flight, room));
    }

    /** Whether a short buffer and what it may belong to find room. */
    private boolean hasRoomForHeader(Flight flight, int room) {
        int parts = partStart == NONE ? 2 : 1;
        return room >= frame && (flight.count == 1 || flight.count + parts <= mostParts);
    }

    private boolean packComponents(CompositeByteBuf composite, int index, int length)
            throws IOException {
        int at = index;
        int end = index + length;
        while (at < end) {
            int which = composite.toComponentIndex(at);
            int begins = composite.toByteIndex(which);
            ByteBuf component = composite.internalComponent(which);
            int offset = at - begins;
            int bytes = Math.min(end - at, component.capacity() - offset);
            if (!pack(component, offset, bytes)) {
                return false;
            }
            at += bytes;
        }
        return true;
    }

    /** A slice of a composite buffer, which does not tell where in the composite it begins. */
    private boolean packPieces(ByteBuf buffer, int index, int length) throws IOException {
        for (ByteBuffer memory : buffer.nioBuffers(index, length)) {
            ByteBuf piece = PartByteBuf.of(memory, buffer);
            try {
                if (!pack(piece, 0, piece.capacity())) {
                    return false;
                }
            } finally {
                piece.release();
            }
        }
        return true;
    }

    private Flight nextFlight() {
        Flight flight = next;
        if (flight == null) {
            flight = spare.poll();
            if (flight == null) {
                flight = new Flight();
            }
            next = flight;
            var _ = list.clear();
        }
        return flight;
    }

    /** Whether the next message can take nothing more. */
    private boolean isFull() {
        Flight flight = next;
        return flight != null
                && (flight.bytes == most
                        || ((flight.plain || flight.count == mostParts)
                                && (partStart == NONE || !open().isWritable())));
    }

    private boolean addRegistered(Flight flight, ByteBuf buffer, int index, int length) {
        if (!buffer.hasMemoryAddress()
                || (partStart != NONE && !allocator.isRegistered(buffer, index, length))) {
            return false;
        }
        ByteBuf owner = PartByteBuf.owner(buffer, buffer.memoryAddress() + index, length);
        if (owner == null) {
            return false;
        }
        endPart();
        if (!allocator.add(list, buffer, index, length)) {
            return false;
        }
        flight.add(owner.retain()); // Netty's buffer releases it early when the channel is closed
        return true;
    }

    private int took(Flight flight, int bytes) {
        took(flight, bytes, bytes);
        return bytes;
    }

    private void took(Flight flight, int bytes, long counted) {
        flight.bytes += bytes;
        flight.counted += counted;
        packed += counted;
        left -= counted;
    }

    /** A part to copy into, all of it if it can be; null if the next message has to go first. */
    private @Nullable SegmentByteBuf copyWithRoom(Flight flight, int length) {
        if (partStart != NONE && open().isWritable(length)) {
            return block;
        }
        if (flight.plain) {
            return null;
        }
        endPart();
        if (flight.count == mostParts) {
            return null;
        }
        SegmentByteBuf to = block;
        if (to == null || !to.isWritable(length)) {
            long wanted = Math.max(length, Math.min(usual, left));
            to = newBlock(flight, (int) Math.min(most - flight.bytes, wanted));
            if (to == null) {
                return null;
            }
        }
        flight.add(to.retain());
        partStart = to.writerIndex();
        return to;
    }

    private @Nullable SegmentByteBuf newBlock(Flight flight, int bytes) {
        int size = Math.min(bytes, RegisteredByteBufAllocator.LARGEST);
        SegmentByteBuf made = allocator.takeRegistered(size);
        while (made == null && size > eager) { // there may be blocks of others
            size = Math.max(size / 2, eager);
            made = allocator.takeRegistered(size);
        }
        if (made == null && flight.bytes == 0) { // registered memory is used up
            made = allocator.takeUnregistered(Math.min(bytes, eager));
            flight.plain = true;
        }
        if (made != null) {
            dropBlock();
            block = made;
        }
        return made;
    }

    /** The block, which the next message's last part is in. */
    private SegmentByteBuf open() {
        return Objects.requireNonNull(block);
    }

    private void endPart() {
        int start = partStart;
        if (start != NONE) {
            partStart = NONE;
            if (!allocator.add(list, open(), start, open().writerIndex() - start)) {
                throw new IllegalStateException("A buffer of the allocator is not registered");
            }
        }
    }

    private void dropBlock() {
        partStart = NONE;
        SegmentByteBuf last = block;
        block = null;
        if (last != null) {
            last.release();
        }
    }

    // ---- files

    private boolean packFile(FileRegion file) throws IOException {
        while (file.transferred() < file.count()) {
            if (isFull() && !post()) {
                return false;
            }
            Flight flight = nextFlight();
            long rest = file.count() - file.transferred();
            ByteBuf to = copyWithRoom(flight, (int) Math.min(rest, most - flight.bytes));
            if (to == null) {
                if (!post()) {
                    return false;
                }
                continue;
            }
            int before = to.writerIndex();
            long at = file.transferred();
            long read = file.transferTo(new Into(to, before + most - flight.bytes), at);
            int bytes = to.writerIndex() - before;
            if (read <= 0 && bytes == 0) { // some report what they have written later
                throw new EOFException(
                        "%s ends after %,d of its %,d bytes"
                                .formatted(file, file.transferred(), file.count()));
            }
            copied += bytes;
            took(flight, bytes, file.transferred() - at);
        }
        return true;
    }

    /** Where a file's bytes go: as many as the block and the message have room for. */
    private record Into(ByteBuf to, int end) implements WritableByteChannel {
        @Override
        public int write(ByteBuffer from) {
            int room = Math.min(to.writableBytes(), end - to.writerIndex());
            int bytes = Math.min(from.remaining(), room);
            to.writeBytes(from.slice(from.position(), bytes));
            from.position(from.position() + bytes);
            return bytes;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {}
    }

    // ---- posting

    /** Sends the next message; false if there is no room. */
    private boolean post() throws IOException {
        Flight flight = Objects.requireNonNull(next);
        Status status;
        if (partStart != NONE && flight.count == 1 && (flight.plain || flight.bytes <= TINY)) {
            status = messages.trySend(open().memory(), partStart, flight.bytes, ENDED, flight);
        } else {
            endPart();
            status = messages.trySend(list, ENDED, flight);
        }
        refused = status == Status.NO_MORE_ENTRIES;
        if (status.isSuccess()) {
            next = null;
            partStart = NONE;
            inFlight++;
            if (flight.plain || (block != null && !block.isWritable())) {
                dropBlock();
            }
            return true;
        }
        if (hasFailed(status)) {
            throw new IOException("The device refused to send: " + status);
        }
        return false;
    }

    /** A full channel has room later, and one that has ended says why itself. */
    private static boolean hasFailed(Status status) {
        return !status.isSuccess()
                && status != Status.NO_MORE_ENTRIES
                && status != Status.CONNECTION_INVALID;
    }

    /** Sends the end of the stream, behind what is packed. */
    void end() {
        endWanted = true;
        if (!endSent && next == null) {
            Status status = messages.trySend(NOTHING, 0, 0, null, null);
            endSent = status != Status.NO_MORE_ENTRIES;
            if (hasFailed(status)) { // no memory for it: the peer must not wait for it
                messages.abort("the end of its stream could not be sent: " + status);
            }
        }
    }

    /** There may be room again. */
    void roomChanged() {
        if (endWanted) {
            end();
        }
    }

    private void release(Flight flight) {
        for (int i = 0; i < flight.count; i++) {
            flight.parts[i].release();
            flight.parts[i] = Unpooled.EMPTY_BUFFER; // spare ones keep no buffer alive
        }
        flight.count = 0;
        flight.bytes = 0;
        flight.counted = 0;
        flight.plain = false;
        spare.push(flight);
    }

    /** What was packed and not sent is not sent any more. */
    void drop() {
        Flight flight = next;
        next = null;
        refused = false;
        dropBlock();
        if (flight != null) {
            release(flight);
        }
    }

    // ---- what has arrived

    /** Removes bytes that the peer has from the front, and completes their promises. */
    void remove(ChannelOutboundBuffer in, long arrived) {
        removing = true;
        try {
            long rest = arrived;
            Object message = in.current();
            while (message != null && (rest > 0 || isEmpty(message))) {
                long now = Math.min(rest, unsent(message));
                boolean done = now == unsent(message);
                rest -= now;
                packed -= now;
                if (done) {
                    whole -= isEmpty(message) ? 0 : 1;
                    fileArrived = 0;
                } else if (message instanceof ByteBuf buffer) {
                    var _ = buffer.skipBytes((int) now);
                } else {
                    fileArrived += now;
                }
                if (now > 0) {
                    in.progress(now);
                }
                if (done) {
                    var _ = in.remove();
                }
                message = in.current();
            }
        } finally {
            removing = false;
        }
    }

    /** How many bytes at the front have not arrived. */
    private long unsent(Object message) {
        return message instanceof FileRegion file
                ? file.count() - fileArrived
                : ((ByteBuf) message).readableBytes();
    }

    private static boolean isEmpty(Object message) {
        return message instanceof FileRegion file
                ? file.count() == 0
                : !((ByteBuf) message).isReadable();
    }

    private static void removeEmpty(ChannelOutboundBuffer in) {
        Object message = in.current();
        while (message != null && isEmpty(message)) {
            in.remove();
            message = in.current();
        }
    }
}
