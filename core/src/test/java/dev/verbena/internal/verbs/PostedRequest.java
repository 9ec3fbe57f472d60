package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.bindings.ibv_recv_wr;
import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_sge;

import java.io.ByteArrayOutputStream;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** A posted request: the bytes of it, of its buffer list, and of its buffers if it is inline. */
public record PostedRequest(long queue, byte[] request, byte[] sges, byte[] inline) {
    private static final int SGE_BYTES = 16;
    private static final int SGE_LENGTH = 8; // the offset of the length in it
    private static final int SGE_KEY = 12;

    /** Copies an {@code ibv_send_wr}. */
    static PostedRequest send(long queue, long at) {
        MemorySegment request = Native.at(at, ibv_send_wr.sizeof());
        MemorySegment list =
                list(request, ibv_send_wr.sg_list$offset(), ibv_send_wr.num_sge$offset());
        byte[] inline = {};
        if ((request.get(JAVA_INT, ibv_send_wr.send_flags$offset()) & SendChain.INLINE) != 0) {
            inline = bytesOf(buffers(list));
        }
        return new PostedRequest(
                queue, request.toArray(JAVA_BYTE), list.toArray(JAVA_BYTE), inline);
    }

    /** Copies an {@code ibv_recv_wr}. */
    static PostedRequest receive(long queue, long at) {
        MemorySegment request = Native.at(at, ibv_recv_wr.sizeof());
        MemorySegment list =
                list(request, ibv_recv_wr.sg_list$offset(), ibv_recv_wr.num_sge$offset());
        return new PostedRequest(
                queue, request.toArray(JAVA_BYTE), list.toArray(JAVA_BYTE), new byte[0]);
    }

    private static MemorySegment list(MemorySegment request, long listOffset, long countOffset) {
        int count = request.get(JAVA_INT, countOffset);
        return count == 0
                ? MemorySegment.NULL
                : Native.at(request.get(JAVA_LONG, listOffset), count * ibv_sge.sizeof());
    }

    /** The {@code wr_id} of a send. */
    public long id() {
        return longAt(ibv_send_wr.wr_id$offset());
    }

    /** The {@code wr_id} of a receive. */
    public long receiveId() {
        return longAt(ibv_recv_wr.wr_id$offset());
    }

    public int opcode() {
        return intAt(ibv_send_wr.opcode$offset());
    }

    public int flags() {
        return intAt(ibv_send_wr.send_flags$offset());
    }

    /** Where a read, a write or an atomic operation goes. */
    public long remoteAddress() {
        return longAt(
                ibv_send_wr.wr$offset()
                        + ibv_send_wr.wr.rdma$offset()
                        + ibv_send_wr.wr.rdma.remote_addr$offset());
    }

    boolean signaled() {
        return (flags() & SendChain.SIGNALED) != 0;
    }

    /** The address of the send behind it in its chain, or 0. */
    long next() {
        return longAt(ibv_send_wr.next$offset());
    }

    /** The same of a receive. */
    long nextReceive() {
        return longAt(ibv_recv_wr.next$offset());
    }

    long longAt(long offset) {
        return MemorySegment.ofArray(request).get(JAVA_LONG_UNALIGNED, offset);
    }

    int intAt(long offset) {
        return MemorySegment.ofArray(request).get(JAVA_INT_UNALIGNED, offset);
    }

    int bufferCount() {
        return sges.length / SGE_BYTES;
    }

    /** How many bytes its buffers have. */
    public int length() {
        int bytes = 0;
        for (int i = 0; i < sges.length; i += SGE_BYTES) {
            bytes += MemorySegment.ofArray(sges).get(JAVA_INT_UNALIGNED, i + SGE_LENGTH);
        }
        return bytes;
    }

    /** The key of the region that a buffer claims to be of. */
    int localKey(int buffer) {
        return MemorySegment.ofArray(sges)
                .get(JAVA_INT_UNALIGNED, (long) buffer * SGE_BYTES + SGE_KEY);
    }

    boolean isInline() {
        return (flags() & SendChain.INLINE) != 0;
    }

    /** The memory that its buffer list names. */
    List<MemorySegment> buffers() {
        return buffers(MemorySegment.ofArray(sges));
    }

    /** The bytes of a send: those that it had when it was posted if it is inline. */
    public byte[] message() {
        return isInline() ? inline : bytesOf(buffers());
    }

    private static List<MemorySegment> buffers(MemorySegment list) {
        List<MemorySegment> buffers = new ArrayList<>();
        for (long i = 0; i < list.byteSize(); i += SGE_BYTES) {
            buffers.add(
                    Native.at(
                            list.get(JAVA_LONG_UNALIGNED, i),
                            Integer.toUnsignedLong(list.get(JAVA_INT_UNALIGNED, i + SGE_LENGTH))));
        }
        return buffers;
    }

    private static byte[] bytesOf(List<MemorySegment> buffers) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        buffers.forEach(buffer -> bytes.writeBytes(buffer.toArray(JAVA_BYTE)));
        return bytes.toByteArray();
    }
}
