package dev.verbena.internal.queue;

import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.verbs.DeviceControl;

import java.util.List;

/** A protection domain, as its queues and its memory know it: compared, never copied. */
public final class Domain {
    private final long address;
    private final WindowTable windows = new WindowTable();

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
            end.run(one.window(), Window::freeFormer);
        }
    }
}
