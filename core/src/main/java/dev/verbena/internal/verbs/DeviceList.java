package dev.verbena.internal.verbs;

import dev.verbena.internal.verbs.Structs.IbvDevice;

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
     * Calls {@code ibv_get_device_list}. If it fails, the list is empty and {@link #error} is set.
     * ENOSYS (a kernel without RDMA) yields an empty list, not an error.
     */
    public static DeviceList get() {
        try (Scratch scratch = Scratch.borrow()) {
            long count = scratch.allocate(Integer.BYTES);
            long list = VerbsFunctions.GET_DEVICE_LIST.pointer(count);
            return list < 0
                    ? new DeviceList(0, 0, list == -Errno.ENOSYS ? 0 : (int) list)
                    : new DeviceList(list, Native.getInt(count, 0), 0);
        }
    }

    /** Why the call failed. */
    public int error() {
        return error;
    }

    public int size() {
        return size;
    }

    /** A device's name, as {@code ibv_devices} prints it. */
    public String name(int index) {
        return Native.getString(device(index), IbvDevice.NAME);
    }

    /**
     * {@code ibv_open_device}: the {@code ibv_context}, which stays open when this list is closed,
     * or a negative errno.
     */
    public long open(int index) {
        return VerbsFunctions.OPEN_DEVICE.pointer(device(index));
    }

    private long device(int index) {
        return Native.getLong(devices, (long) Long.BYTES * index);
    }

    @Override
    public void close() {
        if (devices != 0) {
            VerbsFunctions.FREE_DEVICE_LIST.value(devices); // returns nothing
        }
    }
}
