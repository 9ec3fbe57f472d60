package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_cq_moderation_caps;
import dev.verbena.bindings.ibv_device;
import dev.verbena.bindings.ibv_device_attr;
import dev.verbena.bindings.ibv_device_attr_ex;
import dev.verbena.bindings.ibv_gid_entry;
import dev.verbena.bindings.ibv_odp_caps;
import dev.verbena.bindings.ibv_port_attr;
import dev.verbena.bindings.verbs_context;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/** What can be asked of an opened device: its attributes, its ports and their GIDs. */
final class DeviceQueries {
    private static final long GID = ibv_gid_entry.gid$offset();

    // struct ibv_port_attr has grown since the version that the bindings are made from, and the
    // library clears what it does not know: active_speed_ex is 0 before it came.
    private static final long PORT_ATTRIBUTES = 128;
    private static final long ACTIVE_SPEED_EX = 52;

    // Not in Calls: an inline function of verbs.h, which calls through the device's table.
    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static final class Ports {
        static final MethodHandle QUERY_PORT =
                Linker.nativeLinker()
                        .downcallHandle(
                                FunctionDescriptor.of(
                                        JAVA_INT, ADDRESS, JAVA_BYTE, ADDRESS, JAVA_LONG),
                                Linker.Option.captureCallState("errno"));

        private Ports() {}
    }

    /** In a class of its own, as few programs ask: linking takes some milliseconds. */
    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static final class Extended {
        static final MethodHandle QUERY_DEVICE_EX =
                Linker.nativeLinker()
                        .downcallHandle(
                                verbs_context.query_device_ex.descriptor(),
                                Linker.Option.captureCallState("errno"));

        private Extended() {}
    }

    private final MemorySegment context;
    private final ExtendedContext extended;
    private final MemorySegment queryPort; // NULL where only the exported function is there

    /** For an {@code ibv_context}. */
    DeviceQueries(MemorySegment context, ExtendedContext extended) {
        this.context = context;
        this.extended = extended;
        this.queryPort = extended.function(verbs_context.query_port$offset());
    }

    /** {@code ibv_query_device}. */
    DeviceAttributes device() {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment a = ibv_device_attr.allocate(scratch);
            int error =
                    scratch.value(
                            (int)
                                    Calls.Devices.QUERY_DEVICE.invokeExact(
                                            scratch.state, context, a));
            return new DeviceAttributes(error, a, transport());
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /** {@code ibv_query_device_ex}. */
    ExtendedAttributes extended() {
        MemorySegment function = extended.function(verbs_context.query_device_ex$offset());
        if (function.address() == 0) {
            return ExtendedAttributes.NONE;
        }
        try (Scratch scratch = Scratch.borrow();
                Arena arena = Arena.ofConfined()) { // too large for Scratch
            MemorySegment attributes = ibv_device_attr_ex.allocate(arena);
            int error =
                    scratch.value(
                            (int)
                                    Extended.QUERY_DEVICE_EX.invokeExact(
                                            function,
                                            scratch.state,
                                            context,
                                            MemorySegment.NULL,
                                            attributes,
                                            ibv_device_attr_ex.sizeof()));
            if (error != 0) {
                return ExtendedAttributes.NONE; // an old provider has none
            }
            MemorySegment odp = ibv_device_attr_ex.odp_caps(attributes);
            MemorySegment moderation = ibv_device_attr_ex.cq_mod_caps(attributes);
            return new ExtendedAttributes(
                    new PagingAttributes(
                            ibv_odp_caps.general_caps(odp),
                            ibv_odp_caps.per_transport_caps.rc_odp_caps(
                                    ibv_odp_caps.per_transport_caps(odp))),
                    Short.toUnsignedInt(ibv_cq_moderation_caps.max_cq_count(moderation)),
                    Short.toUnsignedInt(ibv_cq_moderation_caps.max_cq_period(moderation)));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    private int transport() {
        MemorySegment device =
                Native.at(ibv_context.device(context).address(), ibv_device.sizeof());
        return ibv_device.transport_type(device);
    }

    /**
     * Calls {@code verbs_context.query_port} if there is one, as verbs.h does, and otherwise the
     * exported {@code ibv_query_port}, which fills only the first version of the struct.
     */
    PortAttributes port(int port) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment a = scratch.allocate(PORT_ATTRIBUTES, Long.BYTES);
            int answer =
                    queryPort.address() != 0
                            ? (int)
                                    Ports.QUERY_PORT.invokeExact(
                                            queryPort,
                                            scratch.state,
                                            context,
                                            (byte) port,
                                            a,
                                            PORT_ATTRIBUTES)
                            : (int)
                                    Calls.ExportedPorts.QUERY_PORT.invokeExact(
                                            scratch.state, context, (byte) port, a);
            int error = scratch.value(answer);
            int extendedSpeed = a.get(JAVA_INT, ACTIVE_SPEED_EX);
            return new PortAttributes(
                    error,
                    ibv_port_attr.state(a),
                    ibv_port_attr.active_mtu(a),
                    ibv_port_attr.gid_tbl_len(a),
                    Integer.toUnsignedLong(ibv_port_attr.max_msg_sz(a)),
                    Short.toUnsignedInt(ibv_port_attr.lid(a)),
                    Byte.toUnsignedInt(ibv_port_attr.link_layer(a)),
                    extendedSpeed != 0
                            ? extendedSpeed
                            : Byte.toUnsignedInt(ibv_port_attr.active_speed(a)),
                    Byte.toUnsignedInt(ibv_port_attr.active_width(a)));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /** {@code ibv_query_gid_table}: 0, or a negative errno. */
    long gids(int atMost, List<GidTableEntry> gids) {
        if (atMost == 0) {
            return 0;
        }
        try (Scratch scratch = Scratch.borrow();
                Arena arena = Arena.ofConfined()) { // too large for Scratch: thousands of bytes
            MemorySegment entries = ibv_gid_entry.allocateArray(atMost, arena);
            long count =
                    (long)
                            Calls.Devices.QUERY_GID_TABLE.invokeExact(
                                    scratch.state,
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
                                entry.get(Native.BIG_ENDIAN_LONG, GID + Long.BYTES),
                                ibv_gid_entry.ndev_ifindex(entry)));
            }
            return Math.min(count, 0); // a count, or the negative errno itself
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }
}
