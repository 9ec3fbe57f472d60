package dev.verbena.examples.nvme;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SeekableByteChannel;

/**
 * A target's disk as a channel of bytes. A write that does not fill its first and last block reads
 * these first. For one thread at a time; several channels over one disk may be used at once, as
 * long as they write no block in common.
 */
final class RemoteDisk implements SeekableByteChannel {
    private final NvmeHost host;
    private final int namespace;
    private final long blocks;
    private final int shift; // of a block
    private long position;
    private boolean open = true;

    RemoteDisk(NvmeHost host, int namespace, long blocks, int shift) {
        this.host = host;
        this.namespace = namespace;
        this.blocks = blocks;
        this.shift = shift;
    }

    /** What one command moves: whole blocks, and which of their bytes are wanted. */
    private record Part(long firstBlock, int blocks, int skipped, int length) {}

    private Part part(int wanted) {
        long first = position >> shift;
        int skipped = (int) (position - (first << shift));
        int length =
                (int) Math.min(Math.min(wanted, host.transferBytes() - skipped), size() - position);
        int count = (skipped + length + (1 << shift) - 1) >> shift;
        return new Part(first, count, skipped, length);
    }

    private void move(HostQueue.Call call, int opcode, long first, int count) throws IOException {
        host.move(call, opcode, namespace, first, count, count << shift);
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        ensureOpen();
        if (!to.hasRemaining()) {
            return 0;
        } else if (position >= size()) {
            return -1;
        }
        Part part = part(to.remaining());
        host.io()
                .use(
                        call -> {
                            move(call, Opcode.READ, part.firstBlock, part.blocks);
                            return to.put(
                                    call.data().asSlice(part.skipped, part.length).asByteBuffer());
                        });
        position += part.length;
        return part.length;
    }

    @Override
    public int write(ByteBuffer from) throws IOException {
        ensureOpen();
        if (!from.hasRemaining()) {
            return 0;
        } else if (position >= size()) {
            throw new IOException("the disk ends at %,d".formatted(size()));
        }
        Part part = part(from.remaining());
        MemorySegment piece = MemorySegment.ofBuffer(from.slice(from.position(), part.length));
        host.io()
                .use(
                        call -> {
                            if (part.length != part.blocks << shift) {
                                move(call, Opcode.READ, part.firstBlock, part.blocks);
                            }
                            MemorySegment.copy(piece, 0, call.data(), part.skipped, part.length);
                            move(call, Opcode.WRITE, part.firstBlock, part.blocks);
                            return null;
                        });
        from.position(from.position() + part.length);
        position += part.length;
        return part.length;
    }

    /** When this returns, everything that was written before is on the target's disk. */
    void flush() throws IOException {
        ensureOpen();
        host.flush(namespace);
    }

    private void ensureOpen() throws ClosedChannelException {
        if (!open) {
            throw new ClosedChannelException();
        }
    }

    @Override
    public long position() {
        return position;
    }

    @Override
    public SeekableByteChannel position(long to) {
        if (to < 0) {
            throw new IllegalArgumentException("There is no position " + to);
        }
        position = to;
        return this;
    }

    @Override
    public long size() {
        return blocks << shift;
    }

    /** Not supported: a disk's size is fixed. */
    @Override
    public SeekableByteChannel truncate(long size) {
        throw new UnsupportedOperationException("A disk has the size that it has");
    }

    @Override
    public boolean isOpen() {
        return open;
    }

    @Override
    public void close() {
        open = false;
    }
}
