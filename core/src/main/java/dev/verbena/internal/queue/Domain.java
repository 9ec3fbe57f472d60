package dev.verbena.internal.queue;

import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.verbs.DeviceControl;

import org.jspecify.annotations.Nullable;

import java.util.List;

/** A protection domain, as its queues and its memory know it: compared, never copied. */
public final class Domain {
    private final long address;
    private final WindowTable windows = new WindowTable();
    private volatile @Nullable SendLimits limits; // that were asked for last

    /**
     * Creates a domain without windows.
     *
     * @param address of the {@code ibv_pd}
     */
    public Domain(long address) {
        this.address = address;
    }

    /** The address of the {@code ibv_pd}. */
    public long address() {
        return address;
    }

    /**
     * Limits equal to these: the same object for each queue pair that is made as the one before, so
     * that it stays in the processor's cache however many there are.
     */
    SendLimits shared(SendLimits made) {
        SendLimits last = limits;
        if (last != null && last.equals(made)) {
            return last;
        }
        limits = made;
        return made;
    }

    public WindowTable windows() {
        return windows;
    }

    /**
     * Frees the native windows that are bound on a queue pair, before the queue pair is destroyed.
     * Other threads see these windows as free at once, and wait until they really are.
     */
    void freeWindows(Endpoint queuePair, DeviceControl control, Teardown end) {
        List<WindowTable.Lost> lost;
        synchronized (windows) {
            lost = windows.lost(queuePair);
            for (WindowTable.Lost one : lost) {
                end.check(control.freeWindow(one.address()), "ibv_dealloc_mw");
            }
        }
        for (WindowTable.Lost one : lost) {
            end.run(one.window()::freeFormer);
        }
    }
}
