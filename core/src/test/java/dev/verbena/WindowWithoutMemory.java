package dev.verbena;

import dev.verbena.child.FullHeap;
import dev.verbena.internal.verbs.FakeDevice;

/** Binds a window to another region while the heap is full. */
final class WindowWithoutMemory {
    private static boolean failed; // for lack of memory

    private WindowWithoutMemory() {}

    private static void bind(Rig rig, MemoryWindow window, MemoryRegion region) {
        try {
            rig.a.bind(1, window, region, 0, 8, OpFlags.ALLOW_REMOTE_READ).orThrow();
        } catch (OutOfMemoryError e) {
            failed = true;
        }
    }

    public static void main(String[] arguments) {
        // Java code of a device would have no memory either.
        Rig rig =
                new Rig(QueuePairLimits.depths(200, 1), FakeDevice::acceptInNativeCode, null)
                        .connect();
        MemoryRegion other = rig.domain.register(rig.arena.allocate(8));
        MemoryWindow window = rig.domain.createMemoryWindow();
        for (int i = 0; i < 20; i++) { // loads classes
            bind(rig, window, i % 2 == 0 ? other : rig.memory);
            rig.a.invalidate(1, window, OpFlags.NONE).orThrow();
        }
        FullHeap.during(() -> bind(rig, window, other));
        System.out.printf("out of memory: %s, bound: %s%n", failed, window.bound());
        failed = false;
        bind(rig, window, other);
        System.out.printf("out of memory: %s, bound: %s%n", failed, window.bound());
    }
}
