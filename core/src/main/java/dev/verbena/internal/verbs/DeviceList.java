package dev.verbena.internal.verbs;

/** A snapshot of the RDMA devices of this machine: {@code ibv_get_device_list}. */
public final class DeviceList implements AutoCloseable {
    private final long devices; // struct ibv_device *[size]
    private final int size;
    private final int error;

    private DeviceList(long devices, int size, int error) {
        this.devices = devices;
        this.size = size;
        this.error = error;
    }

    /**
     * Calls {@code ibv_get_device_list}. ENOSYS (a kernel without RDMA) yields an empty list, not
     * an error.
     *
     * @return the list; empty, with {@link #error} set, if the call failed
     */
    public static DeviceList get() {
        try (Scratch scratch = Scratch.borrow()) {
            long count = scratch.allocate(Integer.BYTES);
            long list = scratch.pointer(Calls.GET_DEVICE_LIST.call(scratch, count));
            return list < 0
                    ? new DeviceList(0, 0, list == -Errno.ENOSYS ? 0 : (int) list)
                    : new DeviceList(list, Native.getInt(count, 0), 0);
        }
    }

    /** Why the call failed. */
    public int error() {
        return error;
    }

    /** How many devices there are. */
    public int size() {
        return size;
    }

    /** A device's name, as {@code ibv_devices} prints it. */
    public String name(int index) {
        return Native.getString(device(index), Structs.IbvDevice.NAME);
    }

    /**
     * Opens a device ({@code ibv_open_device}). It stays open when this list is closed.
     *
     * @return the address of its {@code ibv_context}, or a negative errno
     */
    public long open(int index) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(Calls.OPEN_DEVICE.call(scratch, device(index)));
        }
    }

    private long device(int index) {
        return Native.getLong(devices, (long) Long.BYTES * index);
    }

    @Override
    public void close() {
        if (devices == 0) {
            return;
        }
        try (Scratch scratch = Scratch.borrow()) {
            Calls.FREE_DEVICE_LIST.call(scratch, devices);
        }
    }
}
