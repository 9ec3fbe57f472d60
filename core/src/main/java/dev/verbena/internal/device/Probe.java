package dev.verbena.internal.device;

import dev.verbena.AdapterInfo;
import dev.verbena.Port;
import dev.verbena.internal.queue.CompletionPoller;
import dev.verbena.internal.queue.SendLimits;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.QueuePairShape;

import java.util.List;
import java.util.function.IntPredicate;

/**
 * Finds the limits of a device by creating objects. Each limit of {@code ibv_query_device} holds
 * alone, but seldom together with the others, and the inline limit is not reported at all.
 */
final class Probe {
    // Caps the search: rxe reports 1,048,576 requests of 32 buffers, and would allocate kernel
    // memory for them.
    private static final int DEEPEST = 8_192;
    private static final int MOST_INLINE = 4_096;
    private static final int INLINE_STEP = 4;
    private static final int SHALLOW = 128;

    private final DeviceControl control;
    private final AdapterInfo device;
    private final long pd;
    private final long cq;

    private Probe(DeviceControl control, AdapterInfo device, long pd, long cq) {
        this.control = control;
        this.device = device;
        this.pd = pd;
        this.cq = cq;
    }

    /**
     * Probes a device: limits of queue pairs that hold together, and abilities that were tried out.
     */
    static AdapterInfo probe(DeviceControl control, AdapterInfo reported, List<Port> ports) {
        long pd = Errno.check(control.allocatePd(), "ibv_alloc_pd", "");
        try {
            long cq = Errno.check(control.createCq(1, 0, 0, 0), "ibv_create_cq", "");
            try {
                return new Probe(control, reported, pd, cq).probe(ports);
            } finally {
                control.destroyCq(cq);
            }
        } finally {
            control.deallocatePd(pd);
        }
    }

    private AdapterInfo probe(List<Port> ports) {
        // A shortage, or whatever keeps the device from its smallest queue pair, is no limit.
        long smallest = control.createQp(pd, cq, cq, 0, new QueuePairShape(1, 1, 1, 1, 0));
        control.destroyQp(Errno.check(smallest, "ibv_create_qp", ""));
        int buffers =
                largestByHalving(
                        device.maxInitiatorBuffers(),
                        n -> works(new QueuePairShape(1, 1, n, n, 0)));
        int inline = mostInline(buffers);
        int completions = device.maxCompletionQueueDepth() / CompletionPoller.DEPTH_FACTOR;
        int reported = device.maxInitiatorDepth();
        // One completion queue must be able to serve both queues of a queue pair.
        int deepest =
                Math.min(
                        Math.min(
                                reported - SendLimits.interval(Math.min(reported, DEEPEST)),
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
        boolean windows = device.invalidatableWindows() && windowsWork();
        int shared =
                largestByHalving(
                        Math.min(device.maxSharedReceiveDepth(), DEEPEST),
                        n -> sharedWorks(n, device.maxSharedReceiveBuffers()));
        return new AdapterInfo(
                device.name(),
                device.vendorId(),
                device.vendorPartId(),
                device.hardwareVersion(),
                device.firmwareVersion(),
                device.nodeGuid(),
                technology(ports),
                device.providerName(),
                device.portCount(),
                device.maxRegistrationBytes(),
                windows ? device.maxWindowBytes() : 0,
                buffers,
                device.maxReadBuffers() == 0 ? buffers : Math.min(device.maxReadBuffers(), buffers),
                longestMessage(ports),
                inline,
                device.maxInboundReads(),
                device.maxOutboundReads(),
                depth,
                shared,
                shared == 0 ? 0 : device.maxSharedReceiveBuffers(),
                completions,
                device.maxQueuePairs(),
                device.maxCompletionQueues(),
                device.maxMemoryRegions(),
                device.maxProtectionDomains(),
                windows ? device.maxMemoryWindows() : 0,
                shared == 0 ? 0 : device.maxSharedReceiveQueues(),
                control.resizeCq(cq, 2) == 0,
                device.sharedReceiveResize(),
                device.sendsWithInvalidate(),
                windows,
                device.atomicsLevel(),
                device.onDemandPaging(),
                device.maxModerationCount(),
                device.maxModerationInterval());
    }

    /** RoCE and InfiniBand differ in the link layer of a port: the one that queue pairs use. */
    private AdapterInfo.Technology technology(List<Port> ports) {
        if (device.technology() != AdapterInfo.Technology.INFINIBAND || ports.isEmpty()) {
            return device.technology();
        }
        Port used = ports.getFirst();
        for (Port port : ports) {
            if (port.active()) {
                used = port;
                break;
            }
        }
        return used.linkLayer() == Port.LinkLayer.ETHERNET
                ? AdapterInfo.Technology.ROCE
                : AdapterInfo.Technology.INFINIBAND;
    }

    private static long longestMessage(List<Port> ports) {
        long longest = 0;
        for (Port port : ports) {
            longest = Math.max(longest, port.maxMessageBytes());
        }
        return longest;
    }

    private int deepest(int atMost, int buffers, int inline) {
        return largestByHalving(
                atMost,
                n ->
                        works(
                                new QueuePairShape(
                                        n + SendLimits.interval(n), n, buffers, buffers, inline)));
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
        if (depth == 1 && srq == -Errno.ENOMEM) {
            long smallest = control.createSrq(pd, 1, 1); // some say so of too many buffers
            Errno.check(smallest, "ibv_create_srq", "");
            control.destroySrq(smallest);
        }
        return srq > 0 && control.destroySrq(srq) == 0;
    }

    private boolean windowsWork() {
        long window = control.allocateWindow(pd);
        return window > 0 && control.freeWindow(window) == 0;
    }
}
