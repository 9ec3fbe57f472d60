package dev.verbena;

import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.QueuePairShape;

import java.util.function.IntPredicate;

/**
 * Finds out what a device can do by doing it: what {@code ibv_query_device} says holds for each
 * limit alone, seldom for all together, and of inline bytes it says nothing.
 */
final class AdapterProbe {
    // rxe says 1,048,576 requests of 32 buffers, and would take the kernel memory for it.
    private static final int DEEPEST = 8_192;
    private static final int MOST_INLINE = 4_096;
    private static final int INLINE_STEP = 4;
    private static final int SHALLOW = 128;

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

    static AdapterInfo probe(
            DeviceControl control, DeviceAttributes device, Provider provider, long maxTransfer) {
        long pd = VerbenaException.check(control.allocatePd(), "ibv_alloc_pd", "");
        try {
            long cq = VerbenaException.check(control.createCq(1, 0), "ibv_create_cq", "");
            try {
                return new AdapterProbe(control, device, pd, cq).probe(provider, maxTransfer);
            } finally {
                control.destroyCq(cq);
            }
        } finally {
            control.deallocatePd(pd);
        }
    }

    private AdapterInfo probe(Provider provider, long maxTransfer) {
        int buffers = halved(device.maxSge(), n -> works(new QueuePairShape(1, 1, n, n, 0)));
        int inline = mostInline(buffers);
        int completions = device.maxCompletions() / CompletionQueue.ROOM;
        // One completion queue is to do for both queues of a queue pair.
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
            // A deep queue is worth more than long inline messages, and those more than many
            // buffers.
            if (inline > 0) {
                inline /= 2;
            } else {
                buffers /= 2;
            }
            depth = deepest(deepest, buffers, inline);
        }
        boolean windows = device.windows() && windowsWork();
        int shared =
                halved(
                        Math.min(device.maxSharedReceives(), DEEPEST),
                        n -> sharedWorks(n, device.maxSharedSge()));
        return new AdapterInfo(
                device.maxRegistration(),
                windows ? Math.min(device.maxRegistration(), provider.maxWindowBytes()) : 0,
                buffers,
                buffers,
                device.maxReadSge() == 0 ? buffers : Math.min(device.maxReadSge(), buffers),
                maxTransfer,
                inline,
                Math.min(device.maxInboundReads(), 0xFF), // 8 bits in ibv_qp_attr
                Math.min(device.maxOutboundReads(), 0xFF),
                depth,
                depth,
                shared,
                shared == 0 ? 0 : device.maxSharedSge(),
                completions,
                control.resizeCq(cq, 2) == 0,
                device.sendsWithInvalidate(),
                windows,
                device.atomics(),
                !device.iwarp(), // iWARP has no immediate data
                device.iwarp());
    }

    private int deepest(int atMost, int buffers, int inline) {
        return halved(
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

    /** The first of a number, its half, its quarter… that works, or 0. */
    private static int halved(int from, IntPredicate works) {
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
