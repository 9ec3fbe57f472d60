package dev.verbena.bench;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_wc;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.LongSupplier;

/**
 * What {@code c/post_poll.c} and {@code c/load.c} do, from Java without this library: fields
 * written at the offsets that jextract knows, and two functions called by the FFM API or by JNI. It
 * is what a request costs at least: nothing is checked but what the calls answer, nothing counted
 * or kept. Prints a line for each round, in ns of the thread's time on a processor.
 */
public final class RawLoop {
    private static final int BATCH = 1000;
    private static final int CHAIN = 16;
    private static final int WARM_UPS = 2;
    private static final int CACHE_LINE = 64;

    /** All of memory: fields are at addresses in it. */
    @SuppressWarnings("restricted")
    private static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private static final long REQUEST = ibv_send_wr.sizeof();
    private static final long COMPLETION = ibv_wc.sizeof();
    private static final long ID = ibv_send_wr.wr_id$offset();
    private static final long NEXT = ibv_send_wr.next$offset();
    private static final long LIST = ibv_send_wr.sg_list$offset();
    private static final long LISTED = ibv_send_wr.num_sge$offset();
    private static final long OPCODE = ibv_send_wr.opcode$offset();
    private static final long FLAGS = ibv_send_wr.send_flags$offset();
    private static final long ENDED_ID = ibv_wc.wr_id$offset();
    private static final long STATUS = ibv_wc.status$offset();

    private final RawCalls calls;
    private final int chain;
    private final long queue;
    private final long queuePair;
    private final long[] queuePairs;
    private final long buffers;
    private final long requests;
    private final long refused;
    private final long completions;

    private RawLoop(RawCalls calls, int pairs, int chain) {
        this.calls = calls;
        this.chain = chain;
        RawDevice device = new RawDevice();
        buffers = device.buffers().address();
        MemorySegment both = device.completionQueue(pairs == 1 ? 512 : 2 * pairs);
        queue = both.address();
        queuePairs = new long[pairs];
        for (int i = 0; i < pairs; i++) {
            queuePairs[i] = device.queuePair(both, pairs == 1 ? 192 : 2).address();
        }
        queuePair = queuePairs[0];
        requests = Arena.global().allocate(chain * REQUEST, CACHE_LINE).address();
        completions = Arena.global().allocate(CHAIN * COMPLETION, CACHE_LINE).address();
        refused = Arena.global().allocate(Verbs.C_POINTER).address();
    }

    /**
     * Measures.
     *
     * @param arguments {@code ffm}, or the path of libbare_jni.so; then how many queue pairs, and
     *     how many requests in a chain; then options
     */
    public static void main(String[] arguments) {
        Options options =
                new Options(
                        "RawLoop ffm|LIBRARY PAIRS CHAIN [--ms N] [--rounds N]",
                        3,
                        arguments,
                        "--ms",
                        "--rounds");
        RawCalls calls =
                options.argument(0).equals("ffm") ? new RawFfm() : new RawJni(options.argument(0));
        int pairs = Integer.parseInt(options.argument(1));
        int chain = Integer.parseInt(options.argument(2));
        long nanos = options.number("--ms", 150) * 1_000_000L;
        RawLoop loop = new RawLoop(calls, pairs, chain);
        int rounds = options.number("--rounds", 2);
        for (int round = -WARM_UPS; round < rounds; round++) {
            double each = loop.round(round < 0 ? 4 * nanos : nanos);
            if (round >= 0 && pairs == 1) {
                Results.print("post-poll", "chain=" + chain, each, "ns");
            } else if (round >= 0) {
                Results.print("load-queue-pairs", Integer.toString(pairs), each, "ns");
            }
        }
    }

    private double round(long nanos) {
        LongSupplier once =
                queuePairs.length > 1 ? this::many : chain > 1 ? this::chain : this::one;
        int batch = 1 + BATCH / queuePairs.length;
        long sum = 0;
        long times = 0;
        long start = ThreadClock.nanos();
        long end;
        do {
            for (int i = 0; i < batch; i++) {
                sum += once.getAsLong();
            }
            times += batch;
            end = ThreadClock.nanos();
        } while (end - start < nanos);
        if (sum == 0) {
            throw new IllegalStateException("no completion named a request");
        }
        return (double) (end - start) / (times * queuePairs.length * chain);
    }

    private long one() {
        fill(requests, 7, 0);
        post(queuePair);
        return poll(1);
    }

    private long chain() {
        long request = requests;
        for (int i = 1; i < chain; i++) {
            fill(request, i, request + REQUEST);
            request += REQUEST;
        }
        fill(request, chain, 0);
        post(queuePair);
        return poll(chain);
    }

    /** One on each queue pair. */
    private long many() {
        for (long each : queuePairs) {
            fill(requests, 7, 0);
            post(each);
        }
        long sum = 0;
        for (int left = queuePairs.length; left > 0; left -= CHAIN) {
            sum += poll(Math.min(left, CHAIN));
        }
        return sum;
    }

    /** All fields, as in a program whose messages differ. */
    private void fill(long request, long id, long next) {
        MEMORY.set(JAVA_LONG, request + ID, id);
        MEMORY.set(JAVA_LONG, request + NEXT, next);
        MEMORY.set(JAVA_LONG, request + LIST, buffers);
        MEMORY.set(JAVA_INT, request + LISTED, 1);
        MEMORY.set(JAVA_INT, request + OPCODE, Verbs.IBV_WR_SEND);
        MEMORY.set(JAVA_INT, request + FLAGS, Verbs.IBV_SEND_SIGNALED);
    }

    private void post(long on) {
        int error = calls.postSend(on, requests, refused);
        if (error != 0) {
            throw new IllegalStateException("ibv_post_send: errno " + error);
        }
    }

    private long poll(int expected) {
        int count = calls.pollCq(queue, expected, completions);
        if (count != expected) {
            throw new IllegalStateException("ibv_poll_cq: %d of %d".formatted(count, expected));
        }
        long sum = 0;
        long completion = completions;
        for (int i = 0; i < count; i++) {
            int status = MEMORY.get(JAVA_INT, completion + STATUS);
            if (status != Verbs.IBV_WC_SUCCESS) {
                throw new IllegalStateException("a request ended with status " + status);
            }
            sum += MEMORY.get(JAVA_LONG, completion + ENDED_ID);
            completion += COMPLETION;
        }
        return sum;
    }
}
