package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.verbena.bindings.ibv_device;

import java.lang.foreign.MemorySegment;

/** A snapshot of the RDMA devices of this machine: {@code ibv_get_device_list}. */
public final class DeviceList implements AutoCloseable {
    private final MemorySegment devices; // struct ibv_device *[size]
    private final int size;
    private final int error;

    private DeviceList(MemorySegment devices, int size, int error) {
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
    @SuppressWarnings("restricted") // the size of the array comes from the library
    public static DeviceList get() {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment count = scratch.allocate(JAVA_INT);
            MemorySegment list =
                    (MemorySegment) Calls.Devices.GET_DEVICE_LIST.invokeExact(scratch.state, count);
            long answer = scratch.pointer(list);
            if (answer < 0) {
                return new DeviceList(
                        MemorySegment.NULL, 0, answer == -Errno.ENOSYS ? 0 : (int) answer);
            }
            int size = count.get(JAVA_INT, 0);
            return new DeviceList(list.reinterpret(size * ADDRESS.byteSize()), size, 0);
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /**
     * Why the call failed.
     *
     * @return 0, or a negative errno
     */
    public int error() {
        return error;
    }

    /**
     * How many devices there are.
     *
     * @return 0 or more
     */
    public int size() {
        return size;
    }

    /**
     * A device's name, as {@code ibv_devices} prints it.
     *
     * @param index below {@link #size}
     * @return its name
     */
    public String name(int index) {
        return ibv_device.name(device(index)).getString(0);
    }

    /**
     * Opens a device ({@code ibv_open_device}). It stays open when this list is closed.
     *
     * @param index below {@link #size}
     * @return the address of its {@code ibv_context}, or a negative errno
     */
    public long open(int index) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    (MemorySegment)
                            Calls.Devices.OPEN_DEVICE.invokeExact(scratch.state, device(index)));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    private MemorySegment device(int index) {
        return Native.at(devices.getAtIndex(ADDRESS, index).address(), ibv_device.sizeof());
    }

    @Override
    public void close() {
        if (devices.address() == 0) {
            return;
        }
        try (Scratch scratch = Scratch.borrow()) {
            Calls.Devices.FREE_DEVICE_LIST.invokeExact(scratch.state, devices);
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }
}
