package dev.verbena.child;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.RawReceives;

import java.util.Arrays;

/** Makes a pool of more receives than the heap has memory for. */
public final class HugePool {
    private static final int COUNT = 8192;
    private static final int BLOCK = 64 << 10;
    private static final int LEFT = 8; // blocks, of which the pool needs more

    private HugePool() {}

    public static void main(String[] arguments) {
        FakeDevice device = new FakeDevice();
        device.maxDepth = 2 * COUNT;
        Adapter adapter = FakeAdapters.open(device);
        Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
        RawReceives.shared(poller, COUNT, 1).close(); // loads classes, and fits
        device.receives.clear();
        int before = device.objects();
        byte[][] blocks = fillTheHeap();
        String thrown = "nothing thrown";
        try {
            RawReceives.shared(poller, COUNT, 1).close();
        } catch (OutOfMemoryError e) {
            thrown = "out of memory";
        }
        Arrays.fill(blocks, null);
        System.out.printf("%s, %d objects left%n", thrown, device.objects() - before);
    }

    private static byte[][] fillTheHeap() {
        byte[][] blocks = new byte[(int) (Runtime.getRuntime().maxMemory() / BLOCK)][];
        int count = 0;
        try {
            while (count < blocks.length) {
                blocks[count] = new byte[BLOCK];
                count++;
            }
        } catch (OutOfMemoryError e) {
            Arrays.fill(blocks, count - LEFT, count, null);
        }
        return blocks;
    }
}
