package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;

/**
 * Every order of a few posts, refusals, failures, polls and a flush on a queue pair: each accepted
 * request ends as it must, in order, and the room of the send queue comes back.
 */
@Tag("trust")
@Timeout(3600)
class QueuePairExplorationTest {
    private static final int DEPTH = 4 + Explorer.MORE; // steps

    private static final int EINVAL = 22;
    private static final int ENOMEM = 12;
    private static final int ACCESS_ERROR = 10;
    private static final int MOST_POSTS = 3;
    private static final int MANY = 16;

    /** What the provider answers to one post, once. */
    private enum Refusal {
        NONE(0, 0, false),
        FIRST(EINVAL, 0, false),
        SECOND(EINVAL, 1, false),
        THIRD(EINVAL, 2, false),
        FULL_AT_FIRST(ENOMEM, 0, false),
        FULL_AT_SECOND(ENOMEM, 1, false),
        UNKNOWN_WHERE(EINVAL, -1, false),
        UNKNOWN_AND_KEPT(EINVAL, -1, true);

        final int errno;
        final int at;
        final boolean keeps;

        Refusal(int errno, int at, boolean keeps) {
            this.errno = errno;
            this.at = at;
            this.keeps = keeps;
        }
    }

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter = FakeAdapters.open(device);
    private final ProtectionDomain domain = adapter.createProtectionDomain();
    private final Arena arena = Arena.ofShared();
    private final MemoryRegion memory = domain.register(arena.allocate(64, 64), Access.LOCAL_WRITE);
    private final int objects = device.objects();

    @AfterEach
    void close() {
        memory.close();
        domain.close();
        adapter.close();
        arena.close();
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    @Test
    void everyAcceptedRequestEndsOnceAndInOrder() {
        device.running = false;
        List<Supplier<? extends Explorer.World>> worlds = new ArrayList<>();
        for (int sendDepth : new int[] {2, 4}) {
            for (Refusal refusal : Refusal.values()) {
                boolean confined = refusal.ordinal() % 2 == 0;
                worlds.add(() -> new OneSide(sendDepth, confined, refusal));
            }
        }
        Explorer.report("queue pair, %d steps".formatted(DEPTH), worlds, DEPTH);
    }

    /** One of two connected queue pairs. */
    private final class OneSide implements Explorer.World {
        private final int sendDepth;
        private final Refusal refusal;
        private final CompletionQueue queue;
        private final QueuePair a;
        private final QueuePair b;
        private final int number; // of a
        private final RequestBatch batch;
        private final BufferList bytes = new BufferList(1).add(memory, 0, 8);
        private final Completions one = new Completions(1);
        private final Completions many = new Completions(MANY);

        // By context, which are numbered from 0 on.
        private final List<Boolean> silent = new ArrayList<>();
        private final List<Boolean> accepted = new ArrayList<>();
        private final List<Long> delivered = new ArrayList<>(); // contexts
        private final List<Status> how = new ArrayList<>();
        private final Set<Integer> carriedOut = new HashSet<>();
        private int begun; // requests that the device has carried out or failed
        private int failedAt = -1; // context
        private boolean refused;
        private boolean flushed;
        private boolean polled = true; // nothing has happened since
        private boolean settling;

        OneSide(int sendDepth, boolean confined, Refusal refusal) {
            this.sendDepth = sendDepth;
            this.refusal = refusal;
            QueuePairLimits limits =
                    QueuePairLimits.depths(sendDepth, 1).withBuffers(1, 1).withMaxDeferred(8);
            queue =
                    confined
                            ? adapter.createConfinedCompletionQueue(32)
                            : adapter.createCompletionQueue(32);
            a = domain.createQueuePair(queue, queue, limits);
            number = device.lastQueuePairNumber();
            b = domain.createQueuePair(queue, queue, limits);
            a.connect(b.address());
            b.connect(a.address());
            batch = new RequestBatch(a, 2);
            device.pollsToFlush = Integer.MAX_VALUE;
            device.sends.clear();
            device.changes.forEach(StateChange::close); // they have native memory
            device.changes.clear();
            device.chains.clear();
            device.destroys.clear();
        }

        @Override
        public List<Explorer.Step> steps() {
            List<Explorer.Step> steps = new ArrayList<>();
            if (accepted.size() < MOST_POSTS) {
                step(steps, "post", () -> post(OpFlags.NONE));
                step(steps, "post silent", () -> post(OpFlags.SILENT_SUCCESS));
                step(steps, "defer", () -> post(OpFlags.DEFER));
                step(steps, "defer silent", () -> post(OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER)));
                step(steps, "post a batch", this::postBatch);
            }
            if (!refused && refusal != Refusal.NONE) {
                step(steps, "the provider will refuse", this::refuseNext);
            }
            if (mayCarryOut()) {
                step(steps, "carry out", this::carryOut);
                if (failedAt < 0) {
                    step(steps, "fail", this::failNext);
                }
            }
            if (!polled) {
                step(steps, "poll one", () -> poll(one));
                step(steps, "poll", () -> poll(many));
            }
            if (!flushed) {
                step(steps, "flush", this::flush);
            }
            if (device.isFlushDue(number)) {
                step(steps, "the flush arrives", this::bringFlush);
            }
            return steps;
        }

        private void step(List<Explorer.Step> steps, String name, Runnable action) {
            steps.add(new Explorer.Step(name, action));
        }

        private void post(OpFlags flags) {
            polled = false;
            long context = accepted.size();
            silent.add(flags.contains(OpFlags.SILENT_SUCCESS));
            accepted.add(a.write(context, bytes, Rig.REMOTE + context, 1, flags).isAccepted());
        }

        private void postBatch() {
            polled = false;
            batch.clear();
            long context = accepted.size();
            batch.write(context, bytes, Rig.REMOTE + context, 1, OpFlags.SILENT_SUCCESS).orThrow();
            batch.write(context + 1, bytes, Rig.REMOTE + context + 1, 1, OpFlags.NONE).orThrow();
            boolean all = batch.post().isAccepted();
            silent.addAll(List.of(true, false));
            accepted.addAll(List.of(all, all));
        }

        private void refuseNext() {
            refused = true;
            device.answer = refusal.errno;
            device.refused = refusal.at;
            device.keepsRefused = refusal.keeps;
        }

        private boolean mayCarryOut() {
            return begun < device.sends.size() && device.state(number).equals("RTS");
        }

        private int contextOfNext() {
            return (int) (device.sends.get(begun++).remoteAddress() - Rig.REMOTE);
        }

        private void carryOut() {
            polled = false;
            carriedOut.add(contextOfNext());
            device.runOne();
        }

        private void failNext() {
            polled = false;
            failedAt = contextOfNext();
            device.failAt = 0;
            device.failStatus = ACCESS_ERROR;
            device.runOne();
        }

        private void flush() {
            polled = false;
            flushed = true;
            a.flush();
        }

        private void bringFlush() {
            polled = false;
            device.bringFlush(number);
        }

        private int poll(Completions into) {
            int count = queue.poll(into);
            polled = into == many;
            for (int i = 0; i < count; i++) {
                assertThat(into.queuePair(i)).isSameAs(a);
                delivered.add(into.context(i));
                how.add(into.status(i));
            }
            return count;
        }

        @Override
        public void check() {
            for (int i = 0; i < delivered.size(); i++) {
                int context = (int) (long) delivered.get(i);
                boolean success = how.get(i).isSuccess();
                if (!accepted.get(context)
                        || (i > 0 && delivered.get(i - 1) >= context)
                        || (success && silent.get(context))
                        || success != carriedOut.contains(context)
                        || (how.get(i) == Status.ACCESS_VIOLATION) != (context == failedAt)) {
                    fail("%d is wrong here", context);
                }
            }
        }

        private void fail(String what, int context) {
            throw new AssertionError(
                    "%s. Accepted: %s, silent: %s, carried out: %s, failed: %d, completions: %s %s"
                            .formatted(
                                    what.formatted(context),
                                    accepted,
                                    silent,
                                    carriedOut,
                                    failedAt,
                                    delivered,
                                    how));
        }

        @Override
        public void settle() {
            settling = true;
            device.answer = 0;
            if (!flushed) {
                post(OpFlags.NONE); // a program ends its chains
            }
            end();
            for (int context = 0; context < accepted.size(); context++) {
                boolean isDue =
                        accepted.get(context)
                                && !(silent.get(context) && carriedOut.contains(context));
                if (delivered.contains((long) context) != isDue) {
                    fail("%d was to be reported or not", context);
                }
            }
            if (!flushed && accepted.getLast() && how.stream().allMatch(Status::isSuccess)) {
                for (int i = 0; i < sendDepth; i++) {
                    post(OpFlags.NONE);
                    if (!accepted.getLast()) {
                        fail("There is no room for %d", accepted.size() - 1);
                    }
                }
                int due = delivered.size() + sendDepth;
                end();
                if (delivered.size() != due) {
                    fail("There were to be %d", due);
                }
                for (int i = 0; i < 2 * sendDepth; i++) {
                    post(OpFlags.SILENT_SUCCESS);
                    if (!accepted.getLast()) {
                        fail("There is no room for the silent request %d", accepted.size() - 1);
                    }
                    carryOut();
                }
            }
        }

        /** All that was posted ends. */
        private void end() {
            while (mayCarryOut()) {
                carryOut();
            }
            if (device.isFlushDue(number)) {
                bringFlush();
            }
            while (poll(many) > 0) {
                continue;
            }
            check();
        }

        @Override
        public void close() {
            device.answer = 0;
            device.pollsToFlush = 0;
            if (device.isFlushDue(number)) {
                device.bringFlush(number);
            }
            a.close();
            b.close();
            int left = poll(many);
            queue.close();
            if ((settling && left > 0) || device.objects() != objects) {
                throw new AssertionError(
                        "%d completions and %d native objects are left"
                                .formatted(left, device.objects() - objects));
            }
        }
    }
}
