package dev.verbena.tools;

import dev.verbena.AdapterInfo;

import java.nio.ByteBuffer;

/**
 * What a server's device allows of a plan; the server's acceptance carries it as private data.
 *
 * @param largest the largest message that it has room for
 * @param receives how many messages it has receives for on each queue pair
 * @param windows how many tokens it hands out at once on each queue pair
 * @param port where it listens for channels, or 0
 */
record PerfTerms(int largest, int receives, int windows, int port) {
    private static final int BYTES = 16;

    /** As perftest's: enough that the sender hardly ever waits for the receiver. */
    private static final int USUAL_RECEIVES = 512;

    /** More than are ever outstanding. */
    static final int LATENCY_RECEIVES = 16;

    /** Windows are bound, and their tokens sent, in this many parts. */
    static final int PARTS = 4;

    /**
     * The terms of a server.
     *
     * @throws ToolFailure when the device cannot do what is planned
     */
    static PerfTerms of(PerfPlan plan, AdapterInfo info) {
        int largest = (int) Math.min(plan.largest(), info.maxTransferBytes());
        if (plan.operation() == PerfOperation.CHANNEL) {
            largest = (int) Math.min(largest, PerfMessages.largest(info));
            int usual = plan.latency() ? LATENCY_RECEIVES : USUAL_RECEIVES;
            return new PerfTerms(largest, PerfMessages.buffers(largest, usual), 0, 0);
        }
        if (!plan.operation().takesReceives()) {
            return new PerfTerms(largest, 1, 0, 0);
        }
        if (plan.latency()) {
            int windows = plan.operation() == PerfOperation.SEND_INV ? 1 : 0;
            return new PerfTerms(largest, LATENCY_RECEIVES, windows, 0);
        }
        // Of the completion queue, one half is for receives.
        int most =
                Math.min(
                        info.maxReceiveDepth(),
                        info.maxCompletionQueueDepth() / plan.queuePairs() / 2);
        if (plan.operation() == PerfOperation.SEND) {
            int receives = Math.min(Math.max(USUAL_RECEIVES, 2 * plan.chain()), most);
            int always = receives - creditEvery(receives);
            return new PerfTerms(largest, enough(receives, always, plan, info), 0, 0);
        }
        int wanted = Math.max(PARTS, 2 * plan.depth());
        int windows = Math.min(wanted, Math.min(most, info.maxInitiatorDepth() / 2));
        windows -= windows % PARTS;
        enough(windows, windows - windows / PARTS, plan, info);
        return new PerfTerms(largest, windows, windows, 0);
    }

    /** The same, with the port of channels. */
    PerfTerms withPort(int other) {
        return new PerfTerms(largest, receives, windows, other);
    }

    /** A chain is posted when there is room for all of it at the receiver. */
    private static int enough(int receives, int always, PerfPlan plan, AdapterInfo info) {
        if (receives < 3 || always < plan.chain()) {
            throw new ToolFailure(
                    "A completion queue of the server's device holds up to %s, too few for %s with"
                            + " chains of %d: take a lower --chain or fewer --qps",
                    Words.count(info.maxCompletionQueueDepth(), "completion"),
                    Words.count(plan.queuePairs(), "queue pair"),
                    plan.chain());
        }
        return receives;
    }

    /** After how many messages a receiver returns credits to the sender. */
    static int creditEvery(int receives) {
        return receives / 3;
    }

    /** How many windows are bound, and their tokens sent, at once. */
    int part() {
        return windows / PARTS;
    }

    /** As private data, with the address of the queue pair that is connected. */
    byte[] encode(PerfAddress address) {
        ByteBuffer bytes =
                ByteBuffer.allocate(BYTES + PerfAddress.BYTES)
                        .putInt(largest)
                        .putInt(receives)
                        .putInt(windows)
                        .putInt(port);
        address.encode(bytes);
        return bytes.array();
    }

    /**
     * From private data.
     *
     * @throws ToolFailure when they are none
     */
    static PerfTerms decode(byte[] data) {
        if (data.length != BYTES + PerfAddress.BYTES) {
            throw new ToolFailure("The peer that answered is not a server of perf");
        }
        ByteBuffer bytes = ByteBuffer.wrap(data);
        return new PerfTerms(bytes.getInt(), bytes.getInt(), bytes.getInt(), bytes.getInt());
    }

    /** The address that goes with the terms, once {@link #decode} has taken them. */
    static PerfAddress address(byte[] data) {
        return PerfAddress.decode(ByteBuffer.wrap(data, BYTES, PerfAddress.BYTES));
    }
}
