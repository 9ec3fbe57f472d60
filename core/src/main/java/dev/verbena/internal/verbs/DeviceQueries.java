package dev.verbena.internal.verbs;

import java.lang.foreign.Arena;
import java.util.List;

/** What can be asked of an opened device: its attributes, its ports and their GIDs. */
final class DeviceQueries {
    // struct ibv_port_attr has grown since the version that the bindings are made from, and the
    // library clears what it does not know: active_speed_ex is 0 before it came.
    private static final long PORT_ATTRIBUTES = 128;
    private static final long ACTIVE_SPEED_EX = 52;

    private final long context;
    private final ExtendedContext extended;
    private final NativeFunction queryPort; // is null where only the exported function is there

    /** For an {@code ibv_context}. */
    DeviceQueries(long context, ExtendedContext extended) {
        this.context = context;
        this.extended = extended;
        this.queryPort = extended.function(Structs.VerbsContext.QUERY_PORT);
    }

    /** {@code ibv_query_device}. */
    DeviceAttributes device() {
        try (Scratch scratch = Scratch.borrow()) {
            long attributes = scratch.allocate(Structs.IbvDeviceAttr.SIZE);
            int error = scratch.value(Calls.QUERY_DEVICE.call(scratch, context, attributes));
            return new DeviceAttributes(error, attributes, transport());
        }
    }

    /** {@code ibv_query_device_ex}. */
    ExtendedAttributes extended() {
        NativeFunction query = extended.function(Structs.VerbsContext.QUERY_DEVICE_EX);
        if (query.isNull()) {
            return ExtendedAttributes.NONE;
        }
        try (Scratch scratch = Scratch.borrow()) {
            long a = scratch.allocate(Structs.IbvDeviceAttrEx.SIZE);
            int error =
                    scratch.value(query.call(scratch, context, 0, a, Structs.IbvDeviceAttrEx.SIZE));
            if (error != 0) {
                return ExtendedAttributes.NONE; // an old provider has none
            }
            return new ExtendedAttributes(
                    new PagingAttributes(
                            Native.getLong(a, Structs.IbvDeviceAttrEx.ODP_CAPS_GENERAL_CAPS),
                            Native.getInt(
                                    a,
                                    Structs.IbvDeviceAttrEx
                                            .ODP_CAPS_PER_TRANSPORT_CAPS_RC_ODP_CAPS)),
                    Native.getShort(a, Structs.IbvDeviceAttrEx.CQ_MOD_CAPS_MAX_CQ_COUNT),
                    Native.getShort(a, Structs.IbvDeviceAttrEx.CQ_MOD_CAPS_MAX_CQ_PERIOD));
        }
    }

    private int transport() {
        long device = Native.getLong(context, Structs.IbvContext.DEVICE);
        return Native.getInt(device, Structs.IbvDevice.TRANSPORT_TYPE);
    }

    /**
     * Calls {@code verbs_context.query_port} if there is one, as verbs.h does, and otherwise the
     * exported {@code ibv_query_port}, which fills only the first version of the struct.
     */
    PortAttributes port(int port) {
        try (Scratch scratch = Scratch.borrow()) {
            long a = scratch.allocate(PORT_ATTRIBUTES);
            int error =
                    scratch.value(
                            queryPort.isNull()
                                    ? Calls.QUERY_PORT.call(scratch, context, port, a)
                                    : queryPort.call(scratch, context, port, a, PORT_ATTRIBUTES));
            int extendedSpeed = Native.getInt(a, ACTIVE_SPEED_EX);
            return new PortAttributes(
                    error,
                    Native.getInt(a, Structs.IbvPortAttr.STATE),
                    Native.getInt(a, Structs.IbvPortAttr.MAX_MTU),
                    Native.getInt(a, Structs.IbvPortAttr.ACTIVE_MTU),
                    Native.getInt(a, Structs.IbvPortAttr.GID_TBL_LEN),
                    Integer.toUnsignedLong(Native.getInt(a, Structs.IbvPortAttr.MAX_MSG_SZ)),
                    Native.getShort(a, Structs.IbvPortAttr.LID),
                    Native.getByte(a, Structs.IbvPortAttr.LINK_LAYER),
                    extendedSpeed != 0
                            ? extendedSpeed
                            : Native.getByte(a, Structs.IbvPortAttr.ACTIVE_SPEED),
                    Native.getByte(a, Structs.IbvPortAttr.ACTIVE_WIDTH));
        }
    }

    /** {@code ibv_query_gid_table}: 0, or a negative errno. */
    long gids(int atMost, List<GidTableEntry> gids) {
        if (atMost == 0) {
            return 0;
        }
        try (Scratch scratch = Scratch.borrow();
                Arena arena = Arena.ofConfined()) { // too large for Scratch: thousands of bytes
            long entries = arena.allocate(Structs.IbvGidEntry.SIZE * atMost, Long.BYTES).address();
            long count =
                    Calls.QUERY_GID_TABLE.call(
                            scratch, context, entries, atMost, 0, Structs.IbvGidEntry.SIZE);
            for (int i = 0; i < count; i++) {
                long entry = entries + Structs.IbvGidEntry.SIZE * i;
                gids.add(
                        new GidTableEntry(
                                Native.getInt(entry, Structs.IbvGidEntry.PORT_NUM),
                                Native.getInt(entry, Structs.IbvGidEntry.GID_INDEX),
                                Native.getInt(entry, Structs.IbvGidEntry.GID_TYPE),
                                Native.getBigEndian(entry, Structs.IbvGidEntry.GID),
                                Native.getBigEndian(entry, Structs.IbvGidEntry.GID + Long.BYTES),
                                Native.getInt(entry, Structs.IbvGidEntry.NDEV_IFINDEX)));
            }
            return Math.min(count, 0); // a count, or the negative errno itself
        }
    }
}
