package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/**
 * Calls at the end of the stack: each has its whole effect or throws without any. Nothing stays
 * locked, and each request that was accepted completes once.
 */
@Timeout(120)
class StackExhaustionTest {
    private static final int DEPTH = 2000;
    private static final int THREADS = 8;
    private static final int FRAMES = 250; // from the end of the stack up
    private static final long STACK = 512 << 10;

    private final Rig rig =
            new Rig(QueuePairLimits.depths(DEPTH, DEPTH), FakeDevice::acceptInNativeCode, null)
                    .connect();
    private final BufferList bytes = rig.bytes(8);
    private final List<String> accepted = new ArrayList<>();
    private int context;
    private int errors;
    private int successes;

    /** Calls it at each depth near the end of a thread's stack, of several shapes. */
    private void callEverywhere(IntFunction<Status> call) throws InterruptedException {
        var _ = call.apply(context++); // loads classes
        for (int i = 0; i < THREADS; i++) {
            int shape = i;
            Thread thread = new Thread(null, () -> descend(shape, call, new int[1]), "deep", STACK);
            thread.start();
            thread.join(30_000);
            assertThat(thread.isAlive()).as("hangs").isFalse();
        }
        assertThat(errors).as("errors").isPositive();
        assertThat(successes).as("successes").isPositive();
    }

    /** Frames of different sizes, so that the stack ends at different places of what is called. */
    private int descend(int shape, IntFunction<Status> call, int[] up) {
        try {
            return shape > 0 ? descend(shape - 1, call, up) : descend(call, up, 1L);
        } catch (StackOverflowError e) {
            return 0;
        }
    }

    @SuppressWarnings("InfiniteRecursion") // until the stack ends
    private int descend(IntFunction<Status> call, int[] up, long of) {
        int below;
        try {
            below = descend(call, up, of + 1);
        } catch (StackOverflowError e) {
            below = 1;
        }
        if (up[0]++ < FRAMES) {
            try {
                var _ = call.apply(context++);
                successes++;
            } catch (StackOverflowError e) {
                errors++;
            }
        }
        return below + 1;
    }

    private Status note(String type, int of, Status status) {
        if (status.isSuccess()) {
            accepted.add(type + " " + of + " CANCELLED");
        }
        return status;
    }

    @AfterEach
    void nothingIsLockedAndEachAcceptedRequestCompletesOnce() {
        assertThat(rig.poll()).isEmpty();
        rig.a.flush();
        assertThat(rig.a.write(1, bytes, 0, 0, OpFlags.NONE).status())
                .isEqualTo(Status.CONNECTION_INVALID);
        rig.a.close();
        assertThat(rig.poll()).containsExactlyInAnyOrderElementsOf(accepted);
        rig.close();
    }

    @Test
    void ofAWrite() throws Exception {
        callEverywhere(
                of ->
                        note(
                                "WRITE",
                                of,
                                rig.a.write(of, bytes, Rig.REMOTE, 1, OpFlags.NONE).status()));
    }

    /** Every third is posted, with those before it. */
    @Test
    void ofADeferredSend() throws Exception {
        callEverywhere(
                of ->
                        note(
                                "SEND",
                                of,
                                rig.a
                                        .send(of, bytes, of % 3 == 0 ? OpFlags.NONE : OpFlags.DEFER)
                                        .status()));
    }

    @Test
    void ofAReceive() throws Exception {
        callEverywhere(of -> note("RECEIVE", of, rig.a.receive(of, bytes).status()));
    }

    /** They are not flushed with a queue pair. */
    @Test
    void ofASharedReceive() throws Exception {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(DEPTH, 1, status -> {});
        callEverywhere(of -> shared.receive(of, bytes).status());
        assertThat(shared.outstanding()).isEqualTo(Math.min(DEPTH, successes + 1));
        shared.close();
    }

    @Test
    void ofABatch() throws Exception {
        RequestBatch batch = new RequestBatch(rig.a, 2);
        batch.send(0, bytes).orThrow();
        batch.send(0, bytes).orThrow();
        callEverywhere(
                of -> {
                    batch.context(0, of);
                    batch.context(1, of);
                    Status status = batch.post().status();
                    note("SEND", of, status);
                    return note("SEND", of, status);
                });
    }

    @Test
    void ofABindAndAnInvalidate() throws Exception {
        MemoryWindow window = rig.domain.createMemoryWindow();
        callEverywhere(
                of ->
                        window.bound()
                                ? note(
                                        "INVALIDATE",
                                        of,
                                        rig.a.invalidate(of, window, OpFlags.NONE).status())
                                : note(
                                        "BIND",
                                        of,
                                        rig.a
                                                .bind(
                                                        of,
                                                        window,
                                                        rig.memory,
                                                        0,
                                                        8,
                                                        OpFlags.ALLOW_REMOTE_READ)
                                                .status()));
        window.close();
    }

    @Test
    void ofAPollAndAnArm() throws Exception {
        note("SEND", 1, rig.a.send(1, bytes, OpFlags.NONE).status()).orThrow();
        Completions completions = new Completions(4);
        callEverywhere(
                of -> {
                    int count = rig.queue.poll(completions);
                    boolean fired = rig.queue.arm(NotifyType.ANY);
                    return count > 0 || fired ? Status.INTERNAL_ERROR : Status.SUCCESS;
                });
    }

    /** Whatever it did not come to, it leaves no queue open whose memory is freed. */
    @Test
    void ofAClose() throws Exception {
        List<QueuePair> pairs = connectedPairs();
        callEverywhere(
                of -> {
                    pairs.get(of).close();
                    return Status.SUCCESS;
                });
        for (QueuePair pair : pairs) {
            if (pair.toString().endsWith(", closed")) {
                assertThat(pair.write(1, bytes, Rig.REMOTE, 1, OpFlags.NONE).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
                assertThat(pair.receive(1, bytes).isAccepted()).isFalse();
            }
            pair.close();
        }
    }

    private List<QueuePair> connectedPairs() {
        QueuePairLimits few = QueuePairLimits.depths(1, 1);
        List<QueuePair> pairs = new ArrayList<>();
        for (int i = 0; i < THREADS * FRAMES + 1; i++) {
            QueuePair pair = rig.domain.createQueuePair(rig.queue, rig.queue, few);
            pair.connect(rig.b.address());
            pairs.add(pair);
        }
        return pairs;
    }

    @Test
    void ofAFlush() throws Exception {
        List<QueuePair> pairs = connectedPairs();
        callEverywhere(
                of -> {
                    pairs.get(of).flush();
                    return Status.SUCCESS;
                });
        for (QueuePair pair : pairs) {
            if (pair.state() == QueuePairState.FLUSHED) {
                assertThat(pair.write(1, bytes, Rig.REMOTE, 1, OpFlags.NONE).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
            }
            pair.close();
        }
    }

    private static PooledBuffer takeOne(BufferPool pool) {
        try {
            return pool.take(Duration.ZERO);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void ofATakeAndAReturn() throws Exception {
        BufferPool pool = rig.domain.createBufferPool(BufferPoolOptions.of(1, 8));
        PooledBuffer[] taken = new PooledBuffer[1];
        callEverywhere(
                of -> {
                    if (taken[0] == null) {
                        taken[0] = of % 4 == 0 ? pool.tryTake() : takeOne(pool);
                        assertThat(taken[0]).isNotNull();
                    } else {
                        taken[0].close();
                        taken[0] = null;
                    }
                    return Status.SUCCESS;
                });
        if (taken[0] != null) {
            taken[0].close();
        }
        pool.close();
        pool.awaitClosed(Duration.ZERO);
    }
}
