package dev.verbena;

import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.QueuePairShape;

import java.util.function.IntPredicate;

/**
 * Finds the limits of a device by creating objects. Each limit of {@code ibv_query_device} holds
 * alone, but seldom together with the others, and the inline limit is not reported at all.
 */
final class AdapterProbe {
    // Caps the search: rxe reports 1,048,576 requests of 32 buffers, and would allocate kernel
    // memory for them.
    private static final int DEEPEST = 8_192;
    private static final int MOST_INLINE = 4_096;
    private static final int INLINE_STEP = 4;
    private static final int SHALLOW = 128;

    /**
     * The result. The limits of queue pairs hold together.
     *
     * @param windows whether a window of type 2 could be created
     * @param maxBuffers the most buffers of a request
     * @param maxInlineBytes the most bytes inline
     * @param maxDepth the deepest queue of a queue pair
     * @param maxSharedReceives the deepest shared receive queue, or 0
     * @param maxCompletions the deepest completion queue, with space left for internal signals
     * @param resizes whether a completion queue could be resized
     */
    record Found(
            boolean windows,
            int maxBuffers,
            int maxInlineBytes,
            int maxDepth,
            int maxSharedReceives,
            int maxCompletions,
            boolean resizes) {}

    private final DeviceControl control;
    private final DeviceAttributes device;
    private final long pd;
    private final long cq;

    private AdapterProbe(DeviceControl control, DeviceAttributes device, long pd, long cq) {
        this.control = control;
        this.device = device;
        this.pd = pd;
        this.cq = cq;
    }

    static Found probe(DeviceControl control, DeviceAttributes device) {
        long pd = VerbenaException.check(control.allocatePd(), "ibv_alloc_pd", "");
        try {
            long cq = VerbenaException.check(control.createCq(1, 0, 0, 0), "ibv_create_cq", "");
            try {
                return new AdapterProbe(control, device, pd, cq).probe();
            } finally {
                control.destroyCq(cq);
            }
        } finally {
            control.deallocatePd(pd);
        }
    }

    private Found probe() {
        int buffers =
                largestByHalving(device.maxSge(), n -> works(new QueuePairShape(1, 1, n, n, 0)));
        int inline = mostInline(buffers);
        int completions = device.maxCompletions() / CompletionQueue.DEPTH_FACTOR;
        // One completion queue must be able to serve both queues of a queue pair.
        int deepest =
                Math.min(
                        Math.min(
                                device.maxWorkRequests()
                                        - SendQueue.interval(
                                                Math.min(device.maxWorkRequests(), DEEPEST)),
                                DEEPEST),
                        completions / 2);
        int depth = deepest(deepest, buffers, inline);
        while (depth < Math.min(SHALLOW, deepest) && buffers > 1) {
            // Reduce the inline size first, then the number of buffers: depth is worth more than
            // inline bytes, and those more than buffers.
            if (inline > 0) {
                inline /= 2;
            } else {
                buffers /= 2;
            }
            depth = deepest(deepest, buffers, inline);
        }
        boolean windows = device.windows() && windowsWork();
        int shared =
                largestByHalving(
                        Math.min(device.maxSharedReceives(), DEEPEST),
                        n -> sharedWorks(n, device.maxSharedSge()));
        return new Found(
                windows, buffers, inline, depth, shared, completions, control.resizeCq(cq, 2) == 0);
    }

    private int deepest(int atMost, int buffers, int inline) {
        return largestByHalving(
                atMost,
                n ->
                        works(
                                new QueuePairShape(
                                        n + SendQueue.interval(n), n, buffers, buffers, inline)));
    }

    private int mostInline(int buffers) {
        int works = 0;
        int fails = MOST_INLINE + INLINE_STEP;
        while (fails - works > INLINE_STEP) {
            int middle = (works + fails) / 2 / INLINE_STEP * INLINE_STEP;
            if (works(new QueuePairShape(1, 1, buffers, buffers, middle))) {
                works = middle;
            } else {
                fails = middle;
            }
        }
        return works;
    }

    /** Returns the first of {@code from}, its half, its quarter… that works, or 0. */
    private static int largestByHalving(int from, IntPredicate works) {
        int n = from;
        while (n > 0 && !works.test(n)) {
            n /= 2;
        }
        return Math.max(n, 0);
    }

    private boolean works(QueuePairShape shape) {
        long qp = control.createQp(pd, cq, cq, 0, shape);
        return qp > 0 && control.destroyQp(qp) == 0;
    }

    private boolean sharedWorks(int depth, int buffers) {
        long srq = control.createSrq(pd, depth, buffers);
        return srq > 0 && control.destroySrq(srq) == 0;
    }

    private boolean windowsWork() {
        long window = control.allocateWindow(pd);
        return window > 0 && control.freeWindow(window) == 0;
    }
}
