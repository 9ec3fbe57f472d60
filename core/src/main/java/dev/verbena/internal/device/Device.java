package dev.verbena.internal.device;

import dev.verbena.AdapterInfo;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionEvents;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.util.Log;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * An opened device, and what its adapter creates once, when it is first needed: the event thread,
 * the connection manager, the data path, and the probed limits. Any thread may call it, with a
 * reference to the adapter.
 */
public final class Device {
    private final String name;
    private final DeviceControl control;
    private final Supplier<ConnectionControl> connections;
    private final AdapterInfo reported;
    private final Provider provider;
    private final Ports ports;

    private final AtomicBoolean pagingWarned = new AtomicBoolean();

    // Does not begin at 0: otherwise the first queues of many processes would share one processor.
    private final AtomicInteger nextVector = new AtomicInteger((int) (System.nanoTime() >>> 10));

    // Guarded by the lock of this object.
    private @Nullable AdapterEvents events;
    private @Nullable AdapterInfo info;
    private @Nullable VerbsContext context;

    private final Object connectionLock = new Object();
    private volatile @Nullable ConnectionEvents connectionEvents; // written under that lock

    /**
     * Takes ownership of an opened device, and closes it if it cannot be queried.
     *
     * @param connections opens the connection manager
     */
    public Device(String name, DeviceControl control, Supplier<ConnectionControl> connections) {
        this.name = name;
        this.control = control;
        this.connections = connections;
        try {
            this.reported = control.queryDevice(name);
        } catch (Throwable t) {
            control.close();
            throw t;
        }
        this.provider = Provider.of(reported.vendorId(), reported.vendorPartId());
        this.ports = new Ports(name, control, reported.portCount());
    }

    /** Its name, as {@code ibv_devices} prints it. */
    public String name() {
        return name;
    }

    public DeviceControl control() {
        return control;
    }

    /** What the device reports; each limit holds on its own. See {@link #info}. */
    public AdapterInfo reported() {
        return reported;
    }

    public Provider provider() {
        return provider;
    }

    /** Its ports, and the choice of a GID. */
    public Ports ports() {
        return ports;
    }

    /**
     * Throws if memory cannot be registered on demand. Warns once if the provider's on-demand
     * paging has a defect.
     */
    void checkPaging() {
        if (!reported.onDemandPaging().supported()) {
            throw new VerbenaException(
                    Status.NOT_SUPPORTED,
                    "Memory cannot be registered ON_DEMAND with %s: the device, or its driver in this kernel, has no on-demand paging (AdapterInfo.onDemandPaging; Soft-RoCE has it from Linux 6.15 on). Register it without ON_DEMAND"
                            .formatted(name));
        }
        String defect = provider.pagingDefect();
        if (defect != null && !pagingWarned.getAndSet(true)) {
            Log.warn(defect, null);
        }
    }

    /**
     * Chooses a completion vector: the one that the program names, or the next for -1. So the
     * completion queues of an adapter are spread over the vectors.
     */
    public int vector(int asked) {
        int count = control.completionVectors();
        if (asked < 0) {
            return Math.floorMod(nextVector.getAndIncrement(), count);
        }
        if (asked >= count) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "%s has the completion vectors 0 to %d, and %d was asked for"
                            .formatted(name, count - 1, asked));
        }
        return asked;
    }

    /** The event loop, with its thread; the first call starts it. */
    public synchronized AdapterEvents events() {
        if (events == null) {
            events = new AdapterEvents(name, control);
        }
        return events;
    }

    /** The events of rdma_cm, which the event thread handles. */
    public ConnectionEvents connectionEvents() {
        AdapterEvents loop = events();
        synchronized (connectionLock) {
            ConnectionEvents opened = connectionEvents;
            if (opened == null) {
                opened = new ConnectionEvents(connections.get(), loop.timers());
                connectionEvents = opened;
                loop.attach(opened);
            }
            return opened;
        }
    }

    public synchronized VerbsContext context() {
        if (context == null) {
            context = control.dataPath(provider);
        }
        return context;
    }

    /** The limits that hold together. The first call probes them. */
    public synchronized AdapterInfo info() {
        if (info == null) {
            info = Probe.probe(control, reported, ports.query());
        }
        return info;
    }

    /** As {@link #connectionEvents}, or null if no object has needed them. */
    public @Nullable ConnectionEvents usedConnectionEvents() {
        return connectionEvents;
    }

    private synchronized @Nullable AdapterEvents runningEvents() {
        return events;
    }

    /** Whether the device reported that it failed or was removed. */
    public boolean failed() {
        AdapterEvents running = runningEvents();
        return running != null && running.deviceFailed();
    }

    /**
     * Whether the device is gone: it reported that, or a query fails with EIO. The kernel has then
     * destroyed all of its objects, and destroying them again fails with EIO.
     */
    public boolean gone() {
        if (failed()) {
            return true;
        }
        try {
            control.queryDevice(name);
            return false;
        } catch (VerbenaException e) {
            return e.errno() == Errno.EIO;
        }
    }

    /**
     * Ends the event thread, when no object of the adapter is left. False if it is still running
     * after {@link AdapterEvents#TIMEOUT}.
     */
    public boolean stop() {
        AdapterEvents running = runningEvents();
        return running == null || running.stop();
    }
}
