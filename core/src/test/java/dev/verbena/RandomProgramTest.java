package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.EdgeCasesMode;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.ShrinkingMode;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Programs that nobody thought of: deferral may change when requests reach the device, and nothing
 * else.
 */
class RandomProgramTest {
    /** One step of a program. */
    record Step(
            Kind kind, boolean silent, boolean defer, boolean inline, boolean fence, int size) {}

    enum Kind {
        SEND,
        SEND_AND_INVALIDATE,
        SEND_WITH_IMMEDIATE,
        WRITE,
        WRITE_WITH_IMMEDIATE,
        READ,
        ATOMIC,
        BIND,
        INVALIDATE,
        RECEIVE,
        POLL,
        TOO_LONG,
        UNKNOWN_FLAG,
        PROVIDER_REFUSES
    }

    @Provide
    Arbitrary<List<Step>> programs() {
        return programs(Arbitraries.of(Kind.class).filter(kind -> kind != Kind.PROVIDER_REFUSES));
    }

    @Provide
    Arbitrary<List<Step>> programsOnABadProvider() {
        return programs(Arbitraries.of(Kind.class));
    }

    private static Arbitrary<List<Step>> programs(Arbitrary<Kind> kinds) {
        Arbitrary<Boolean> coin = Arbitraries.of(true, false);
        return Combinators.combine(
                        kinds, coin, coin, coin, coin, Arbitraries.integers().between(0, 32))
                .as(Step::new)
                .list()
                .ofMaxSize(80);
    }

    @Provide
    Arbitrary<Integer> depths() {
        return Arbitraries.of(1, 2, 3, 4, 7, 16, 64);
    }

    @Provide
    Arbitrary<Integer> failures() {
        return Arbitraries.integers().between(0, 40).injectNull(0.4);
    }

    /** What a program saw: what each post answered, and what ended, per queue. */
    private record Outcome(List<Status> answers, List<String> initiator, List<String> receives) {}

    @Property(tries = 200, edgeCases = EdgeCasesMode.NONE, shrinking = ShrinkingMode.BOUNDED)
    void deferralChangesNothing(
            @ForAll("programs") List<Step> program, @ForAll("depths") int depth) {
        Outcome atOnce = run(program, depth, 0, null, false);
        // Whether a queue is full depends on which requests have ended, which is unknown for
        // deferred
        // ones: the queue is deep enough here, and its limit has tests of its own.
        assertThat(run(program, depth, 1, null, false)).isEqualTo(atOnce);
        assertThat(run(program, depth, 3, null, true)).isEqualTo(atOnce);
        assertThat(run(program, depth, 64, null, false)).isEqualTo(atOnce);
        // Nor does confinement, nor what is posted in batches.
        assertThat(run(program, depth, 64, null, true)).isEqualTo(atOnce);
        assertThat(run(program, depth, 3, null, false, 5)).isEqualTo(atOnce);
    }

    @Property(tries = 200, edgeCases = EdgeCasesMode.NONE, shrinking = ShrinkingMode.BOUNDED)
    void whateverFailsEveryAcceptedRequestEndsOnce(
            @ForAll("programsOnABadProvider") List<Step> program,
            @ForAll("depths") int depth,
            @ForAll("failures") Integer failAt,
            @ForAll boolean confined) {
        for (int maxDeferred : new int[] {0, 64}) {
            run(program, depth, maxDeferred, failAt == null ? -1 : failAt, confined);
        }
        run(program, depth, 64, failAt == null ? -1 : failAt, confined, Math.min(depth, 5));
    }

    /**
     * Runs a program on one side of a connection, and looks at the ledger: what was accepted and
     * signaled ends once, what was accepted and silent at most once, and only by failing; what was
     * refused never.
     */
    private static Outcome run(
            List<Step> program, int depth, int maxDeferred, Integer failAt, boolean confined) {
        return run(program, depth, maxDeferred, failAt, confined, 0);
    }

    /** Where there are batches, some requests are recorded in one, which is posted later. */
    private static Outcome run(
            List<Step> program,
            int depth,
            int maxDeferred,
            Integer failAt,
            boolean confined,
            int batchSize) {
        QueuePairLimits limits =
                QueuePairLimits.depths(256, 256)
                        .withBuffers(2, 2)
                        .withInlineBytes(64)
                        .withMaxDeferred(maxDeferred);
        if (failAt != null) {
            limits =
                    QueuePairLimits.depths(depth, 256)
                            .withBuffers(2, 2)
                            .withInlineBytes(64)
                            .withMaxDeferred(maxDeferred);
        }
        List<Status> answers = new ArrayList<>();
        List<String> initiator = new ArrayList<>();
        List<String> receives = new ArrayList<>();
        Set<Long> signaled = new HashSet<>();
        Set<Long> silent = new HashSet<>();
        try (Rig rig = confined ? Rig.confined(limits) : Rig.connected(limits);
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            if (failAt != null && failAt >= 0) {
                rig.device.failAt = failAt;
                rig.device.failStatus = 10;
            }
            for (int i = 0; i < 200; i++) {
                rig.b.receive(-1, rig.bytes(64)).orThrow();
            }
            RequestBatch batch = batchSize == 0 ? null : new RequestBatch(rig.a, batchSize);
            Set<Long> signaledInBatch = new HashSet<>();
            Set<Long> silentInBatch = new HashSet<>();
            long context = 0;
            for (Step step : program) {
                boolean recorded = batch != null && step.defer() && isBatched(step.kind());
                // Order is that of the program: what is not recorded comes after what is.
                if (batch != null && (!recorded || batch.size() == batchSize)) {
                    if (batch.post().status() == Status.SUCCESS) {
                        signaled.addAll(signaledInBatch);
                        silent.addAll(silentInBatch);
                    }
                    batch.clear();
                    signaledInBatch.clear();
                    silentInBatch.clear();
                }
                Status answer =
                        recorded
                                ? record(rig, batch, step, context)
                                : perform(rig, window, step, context);
                if (step.kind() != Kind.POLL) {
                    answers.add(answer);
                    if (answer == Status.SUCCESS) {
                        if (step.silent() && step.kind() != Kind.RECEIVE) {
                            (recorded ? silentInBatch : silent).add(context);
                        } else {
                            (recorded ? signaledInBatch : signaled).add(context);
                        }
                    }
                } else {
                    sort(rig.poll(), initiator, receives);
                }
                context++;
            }
            if (batch != null && batch.post().status() == Status.SUCCESS) {
                signaled.addAll(signaledInBatch);
                silent.addAll(silentInBatch);
            }
            // A program ends its chains.
            var _ = rig.a.write(context, rig.bytes(1), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS);
            silent.add(context);
            sort(rig.poll(), initiator, receives);
            rig.a.flush();
            sort(rig.poll(), initiator, receives);
            rig.device.answer = 0; // or the last word at the close is refused, and waited for
            long start = System.nanoTime();
            rig.a.close();
            assertThat(System.nanoTime() - start).as("no waiting for ends").isLessThan(900_000_000);
            assertThat(rig.poll()).isEmpty();
        }
        Set<Long> ended = new HashSet<>();
        for (String end : initiator) {
            long context = Long.parseLong(end.split(" ")[1]);
            assertThat(ended.add(context)).as("%s ends once", end).isTrue();
            assertThat(signaled.contains(context) || silent.contains(context))
                    .as("%s was accepted", end)
                    .isTrue();
            assertThat(silent.contains(context) && end.endsWith("SUCCESS"))
                    .as("%s was silent", end)
                    .isFalse();
        }
        receives.stream().map(end -> Long.parseLong(end.split(" ")[1])).forEach(ended::add);
        assertThat(ended).as("everything signaled that was accepted ended").containsAll(signaled);
        return new Outcome(answers, initiator, receives);
    }

    private static void sort(List<String> ends, List<String> initiator, List<String> receives) {
        for (String end : ends) {
            if (end.startsWith("RECEIVE")) {
                if (!end.contains(" -1 ")) {
                    receives.add(end);
                }
            } else {
                initiator.add(end);
            }
        }
    }

    private static boolean isBatched(Kind kind) {
        return switch (kind) {
            case SEND,
                    SEND_AND_INVALIDATE,
                    SEND_WITH_IMMEDIATE,
                    WRITE,
                    WRITE_WITH_IMMEDIATE,
                    READ,
                    ATOMIC,
                    TOO_LONG,
                    UNKNOWN_FLAG ->
                    true;
            default -> false;
        };
    }

    private static Status record(Rig rig, RequestBatch batch, Step step, long context) {
        OpFlags flags = flags(step);
        OpFlags inline = step.inline() ? OpFlags.INLINE : OpFlags.NONE;
        BufferList bytes = bytes(rig, step);
        return switch (step.kind()) {
            case SEND -> batch.send(context, bytes, flags.and(inline)).status();
            case SEND_AND_INVALIDATE ->
                    batch.sendAndInvalidate(context, bytes, 0xFFFF_0001, flags.and(inline))
                            .status();
            case SEND_WITH_IMMEDIATE ->
                    batch.sendWithImmediate(context, bytes, 7, flags.and(inline)).status();
            case WRITE -> batch.write(context, bytes, Rig.REMOTE, 1, flags.and(inline)).status();
            case WRITE_WITH_IMMEDIATE ->
                    batch.writeWithImmediate(context, bytes, Rig.REMOTE, 1, 7, flags.and(inline))
                            .status();
            case READ -> batch.read(context, bytes, Rig.REMOTE, 1, flags).status();
            case ATOMIC ->
                    batch.fetchAndAdd(context, rig.bytes(8), Rig.REMOTE, 1, 1, flags).status();
            case TOO_LONG -> batch.send(context, rig.bytes(65), flags.and(OpFlags.INLINE)).status();
            default -> batch.send(context, bytes, flags.and(OpFlags.ALLOW_REMOTE_READ)).status();
        };
    }

    private static OpFlags flags(Step step) {
        return (step.silent() ? OpFlags.SILENT_SUCCESS : OpFlags.NONE)
                .and(step.defer() ? OpFlags.DEFER : OpFlags.NONE)
                .and(step.fence() ? OpFlags.READ_FENCE : OpFlags.NONE);
    }

    private static BufferList bytes(Rig rig, Step step) {
        return new BufferList(2).add(rig.memory, 0, step.size()).add(rig.memory, 64, step.size());
    }

    private static Status perform(Rig rig, MemoryWindow window, Step step, long context) {
        OpFlags flags = flags(step);
        OpFlags inline = step.inline() ? OpFlags.INLINE : OpFlags.NONE;
        BufferList bytes = bytes(rig, step);
        return switch (step.kind()) {
            case SEND -> rig.a.send(context, bytes, flags.and(inline)).status();
            case SEND_AND_INVALIDATE ->
                    rig.a
                            .sendAndInvalidate(context, bytes, 0xFFFF_0001, flags.and(inline))
                            .status();
            case SEND_WITH_IMMEDIATE ->
                    rig.a.sendWithImmediate(context, bytes, 7, flags.and(inline)).status();
            case WRITE -> rig.a.write(context, bytes, Rig.REMOTE, 1, flags.and(inline)).status();
            case WRITE_WITH_IMMEDIATE ->
                    rig.a
                            .writeWithImmediate(context, bytes, Rig.REMOTE, 1, 7, flags.and(inline))
                            .status();
            case READ -> rig.a.read(context, bytes, Rig.REMOTE, 1, flags).status();
            case ATOMIC ->
                    rig.a.fetchAndAdd(context, rig.bytes(8), Rig.REMOTE, 1, 1, flags).status();
            case BIND ->
                    rig.a
                            .bind(
                                    context,
                                    window,
                                    rig.memory,
                                    0,
                                    64,
                                    flags.and(OpFlags.ALLOW_REMOTE_READ))
                            .status();
            case INVALIDATE -> rig.a.invalidate(context, window, flags).status();
            case RECEIVE -> rig.a.receive(context, rig.bytes(64)).status();
            case POLL -> Status.SUCCESS;
            case PROVIDER_REFUSES -> {
                // The next post: at one of the first requests of its chain, or without saying
                // where.
                rig.device.answer = step.silent() ? 22 : -12;
                rig.device.refused = step.inline() ? -1 : step.size() % 4;
                rig.device.keepsRefused = step.fence();
                yield Status.PENDING;
            }
            case TOO_LONG -> rig.a.send(context, rig.bytes(65), flags.and(OpFlags.INLINE)).status();
            case UNKNOWN_FLAG ->
                    rig.a.send(context, bytes, flags.and(OpFlags.ALLOW_REMOTE_READ)).status();
        };
    }
}
