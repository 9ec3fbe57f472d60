package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;
import dev.verbena.bindings.ibv_device_attr;
import dev.verbena.bindings.ibv_gid_entry;
import dev.verbena.bindings.ibv_port_attr;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/**
 * An opened device: {@code ibv_context}, its queries, and its data path.
 *
 * <p>{@code ibv_post_send}, {@code ibv_post_recv} and {@code ibv_poll_cq} are inline functions in C
 * and no symbols: they call through the table in {@code ibv_context.ops}, as is done here. The
 * pointers differ with the provider, so they are read once for each opened device; the method
 * handles are unbound and shared, which the JIT likes best.
 */
public final class VerbsContext {
    private static final long GID = ibv_gid_entry.gid$offset();

    // Apart from Calls, which opens the library: these need none.

    /**
     * {@code int post(struct ibv_qp *, struct ibv_…_wr *, struct ibv_…_wr **)}: post_send and
     * post_recv, the pointer first.
     */
    private static final MethodHandle POST =
            dataPath(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    /** {@code int poll_cq(struct ibv_cq *, int, struct ibv_wc *)}, the pointer first. */
    private static final MethodHandle POLL_CQ =
            dataPath(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));

    private final MemorySegment context;
    private final MemorySegment postSend;
    private final MemorySegment postReceive;
    private final MemorySegment pollCq;

    /**
     * Takes over an opened device.
     *
     * @param context the address that {@link DeviceList#open} gave
     */
    public VerbsContext(long context) {
        this.context = Native.at(context, ibv_context.sizeof());
        MemorySegment ops = ibv_context.ops(this.context);
        this.postSend = ibv_context_ops.post_send(ops);
        this.postReceive = ibv_context_ops.post_recv(ops);
        this.pollCq = ibv_context_ops.poll_cq(ops);
    }

    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static MethodHandle dataPath(FunctionDescriptor descriptor) {
        return Linker.nativeLinker().downcallHandle(descriptor);
    }

    MemorySegment segment() {
        return context;
    }

    /**
     * Closes the device.
     *
     * @return 0, or a negative errno
     */
    public int close() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            return Calls.value((int) Calls.CLOSE_DEVICE.invokeExact(state, context), state);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * Asks for the device's attributes.
     *
     * @return them, or the error
     */
    public DeviceAttributes queryDevice() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            MemorySegment a = ibv_device_attr.allocate(arena);
            int error = Calls.value((int) Calls.QUERY_DEVICE.invokeExact(state, context, a), state);
            return new DeviceAttributes(
                    error,
                    ibv_device_attr.fw_ver(a).getString(0),
                    Long.reverseBytes(ibv_device_attr.node_guid(a)),
                    Byte.toUnsignedInt(ibv_device_attr.phys_port_cnt(a)),
                    ibv_device_attr.max_qp_wr(a),
                    ibv_device_attr.max_sge(a),
                    ibv_device_attr.max_cqe(a),
                    ibv_device_attr.max_mr_size(a));
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * Asks for a port's attributes.
     *
     * @param port the port, from 1
     * @return them, or the error
     */
    public PortAttributes queryPort(int port) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            // The exported function fills only what the struct had in its first version; all that
            // is read here was in it.
            MemorySegment a = ibv_port_attr.allocate(arena);
            int error =
                    Calls.value(
                            (int) Calls.QUERY_PORT.invokeExact(state, context, (byte) port, a),
                            state);
            return new PortAttributes(
                    error,
                    ibv_port_attr.state(a),
                    ibv_port_attr.active_mtu(a),
                    ibv_port_attr.gid_tbl_len(a),
                    Integer.toUnsignedLong(ibv_port_attr.max_msg_sz(a)),
                    Short.toUnsignedInt(ibv_port_attr.lid(a)),
                    Byte.toUnsignedInt(ibv_port_attr.link_layer(a)));
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * Asks for the GIDs in use on all ports.
     *
     * @param atMost the sum of the ports' table lengths
     * @param gids where they are added
     * @return 0, or a negative errno
     */
    public long queryGids(int atMost, List<GidTableEntry> gids) {
        if (atMost == 0) {
            return 0;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = Calls.state(arena);
            MemorySegment entries = ibv_gid_entry.allocateArray(atMost, arena);
            long count =
                    (long)
                            Calls.QUERY_GID_TABLE.invokeExact(
                                    state,
                                    context,
                                    entries,
                                    (long) atMost,
                                    0,
                                    ibv_gid_entry.sizeof());
            for (int i = 0; i < count; i++) {
                MemorySegment entry = ibv_gid_entry.asSlice(entries, i);
                gids.add(
                        new GidTableEntry(
                                ibv_gid_entry.port_num(entry),
                                ibv_gid_entry.gid_index(entry),
                                ibv_gid_entry.gid_type(entry),
                                entry.get(Native.BIG_ENDIAN_LONG, GID),
                                entry.get(Native.BIG_ENDIAN_LONG, GID + Long.BYTES)));
            }
            return Math.min(count, 0); // a count, or the negative errno itself
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_post_send}.
     *
     * @param queuePair the address of the {@code ibv_qp}
     * @param request the address of the first {@code ibv_send_wr}
     * @param refused where the address of the first refused request goes: a pointer's room
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postSend(long queuePair, long request, long refused) {
        try {
            return (int) POST.invokeExact(postSend, queuePair, request, refused);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_post_recv}.
     *
     * @param queuePair the address of the {@code ibv_qp}
     * @param request the address of the first {@code ibv_recv_wr}
     * @param refused where the address of the first refused request goes: a pointer's room
     * @return 0, or what the provider answered: an errno, negative with some
     */
    public int postReceive(long queuePair, long request, long refused) {
        try {
            return (int) POST.invokeExact(postReceive, queuePair, request, refused);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code ibv_poll_cq}.
     *
     * @param completionQueue the address of the {@code ibv_cq}
     * @param completions where they go
     * @return how many came, or a negative number when the queue is broken
     */
    public int pollCq(long completionQueue, WorkCompletions completions) {
        try {
            return (int)
                    POLL_CQ.invokeExact(
                            pollCq, completionQueue, completions.capacity(), completions.address());
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code enum ibv_mtu} in bytes.
     *
     * @param mtu the enum's value
     * @return 256 to 4096
     */
    public static int mtuBytes(int mtu) {
        return 128 << mtu;
    }

    /**
     * Bytes as {@code enum ibv_mtu}.
     *
     * @param bytes 256 to 4096
     * @return the enum's value
     */
    public static int mtuOf(int bytes) {
        int mtu = Integer.numberOfTrailingZeros(Integer.highestOneBit(bytes)) - 7;
        return Math.clamp(mtu, Verbs.IBV_MTU_256, Verbs.IBV_MTU_4096);
    }
}
