package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.WorkCompletions;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.LongStream;

/**
 * Completions that come before the consumer polls: none is lost or comes twice; the order stays.
 */
@Timeout(60)
class KeptCompletionsTest {
    private static final int DEPTH = 4096;

    private final FakeDevice device = new FakeDevice();
    private final long address = device.createCq(2 * DEPTH, 0, 0, 0);
    private final List<String> deaths = new ArrayList<>();
    private final List<String> thrown = new ArrayList<>();
    private Runnable onDeath = () -> deaths.add("dead");

    private final CompletionPoller poller =
            new CompletionPoller(QueueDevices.of(device), address, null, new Unheard());
    private final Endpoint endpoint =
            new Endpoint(new WindowTable()) {
                @Override
                void connectionFailed() {
                    onDeath.run();
                }
            };
    private RequestLedger ledger;
    private long context; // of the request added next

    @AfterEach
    void free() {
        device.destroyCq(address);
        device.dispose();
    }

    private void queue(boolean receive) {
        ledger = Ledgers.withRoom(endpoint, poller.reserve(receive), DEPTH, 1);
        poller.enter(ledger);
    }

    private int add(OperationType type) {
        return ledger.add(context++, type, false, true);
    }

    private void complete(int sequence) {
        device.complete(WorkId.of(ledger.queue(), sequence), 1);
    }

    /** JUnit gives up when it meets an OutOfMemoryError; completions have to be there after it. */
    private void survive(Runnable step) {
        try {
            step.run();
        } catch (OutOfMemoryError e) {
            thrown.add(e.getMessage());
        }
    }

    private void drain() {
        poller.drain();
    }

    private void synthesize(int first, int last) {
        poller.synthesize(ledger, first, last, WorkCompletions.GENERAL_ERROR);
    }

    private List<Long> poll(int room) {
        CompletionRecords records = new CompletionRecords(room);
        survive(() -> assertThat(poller.poll(records)).isTrue());
        List<Long> contexts = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            contexts.add(records.context(i));
            // In its place, but with this status: the completion was dropped.
            assertThat(records.status(i)).isNotEqualTo(CompletionStatus.LOST);
        }
        return contexts;
    }

    private List<Long> pollAll(int room) {
        List<Long> all = new ArrayList<>();
        List<Long> some = poll(room);
        while (!some.isEmpty()) {
            all.addAll(some);
            some = poll(room);
        }
        return all;
    }

    private static List<Long> upTo(long end) {
        return LongStream.range(0, end).boxed().toList();
    }

    @Nested
    class WhileThisLayerPollsOnItsOwn {
        @ParameterizedTest
        @ValueSource(ints = {1, 7, 64, 100})
        void allAreKept(int room) {
            queue(true);
            for (int i = 0; i < 4000; i++) {
                complete(add(OperationType.RECEIVE));
            }
            assertThat(poller.drain()).isTrue();
            assertThat(poller.drain()).as("has taken all").isFalse();
            assertThat(poller.waiting(0)).isTrue();
            assertThat(poller.counts().keptEver()).isEqualTo(4000);
            assertThat(ledger.outstanding()).isZero();
            assertThat(pollAll(room)).isEqualTo(upTo(4000));
        }
    }

    @Nested
    class WhileTheConsumerPolls {
        /** Completions synthesized before a request are delivered before it. */
        @ParameterizedTest
        @ValueSource(ints = {1, 2, 3, 64, 200})
        void andMoreIsSynthesizedThanItHasRoomFor(int room) {
            queue(false);
            int first = add(OperationType.WRITE);
            for (int i = 0; i < 150; i++) {
                add(OperationType.WRITE);
            }
            synthesize(first + 1, ledger.last());
            int last = add(OperationType.WRITE);
            complete(first);
            complete(last);
            assertThat(pollAll(room)).isEqualTo(upTo(152));
            assertThat(ledger.outstanding()).isZero();
            assertThat(thrown).isEmpty();
            assertThat(deaths).containsExactly("dead");
        }

        @Test
        void andOnlySynthesizedCompletionsAreThere() {
            queue(false);
            for (int i = 0; i < 200; i++) {
                add(OperationType.WRITE);
            }
            synthesize(ledger.last() - 199, ledger.last());
            assertThat(pollAll(3)).isEqualTo(upTo(200));
        }
    }

    @Test
    void whileAQueuePairCloses() {
        queue(false);
        for (int i = 0; i < 200; i++) {
            int sequence = add(OperationType.WRITE);
            if (i < 100) {
                complete(sequence);
            }
        }
        poller.finish(ledger, Duration.ofMillis(1).toNanos(), WorkCompletions.FLUSHED);
        poller.release(ledger.queue());
        queue(false); // in the same slot
        assertThat(pollAll(3)).isEqualTo(upTo(200));
        complete(add(OperationType.WRITE));
        assertThat(pollAll(3)).containsExactly(200L);
        assertThat(thrown).isEmpty();
    }

    @Test
    void aClosedQueueIsNotWaitedFor() {
        queue(false);
        add(OperationType.WRITE);
        poller.close();
        long start = System.nanoTime();
        poller.finish(ledger, Duration.ofMinutes(1).toNanos(), WorkCompletions.FLUSHED);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(30));
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void inARandomProgram(long seed) {
        Random random = new Random(seed);
        queue(false);
        List<Long> delivered = new ArrayList<>();
        List<Integer> posted = new ArrayList<>(); // to the device, not completed
        for (int i = 0; i < 2000; i++) {
            switch (random.nextInt(5)) {
                case 0, 1 -> {
                    for (int n = random.nextInt(150); n > 0 && !ledger.full(); n--) {
                        posted.add(add(OperationType.WRITE));
                    }
                }
                case 2 -> {
                    for (int n = random.nextInt(200); n > 0 && !posted.isEmpty(); n--) {
                        complete(posted.removeFirst());
                    }
                }
                case 3 -> {
                    int count = random.nextInt(80);
                    if (count > 0 && ledger.hasRoom(count)) {
                        for (int n = 0; n < count; n++) {
                            add(OperationType.WRITE);
                        }
                        int last = ledger.last();
                        synthesize(last - count + 1, last);
                    }
                    drain();
                }
                default -> delivered.addAll(poll(1 + random.nextInt(100)));
            }
        }
        posted.forEach(this::complete);
        delivered.addAll(pollAll(10));
        assertThat(delivered).isEqualTo(upTo(context));
        assertThat(ledger.outstanding()).isZero();
        assertThat(thrown).isEmpty();
    }

    @Test
    void whatAClosedQueuePairLeftBehindIsDropped() {
        queue(false);
        long stale = WorkId.of(ledger.queue(), add(OperationType.WRITE));
        context = 0;
        poller.release(ledger.queue());
        queue(false); // in the same slot
        for (int i = 0; i < 3; i++) {
            device.complete(stale, 1);
            complete(add(OperationType.WRITE));
        }
        assertThat(pollAll(2)).isEqualTo(upTo(3));
        device.complete(stale, 1);
        complete(add(OperationType.WRITE));
        drain();
        assertThat(pollAll(2)).containsExactly(3L);
    }

    /** What is to be done for a queue pair that failed may fail, too. */
    @Test
    void whatWasPolledIsThereThoughTellingOfADeathFails() {
        queue(false);
        onDeath =
                () -> {
                    throw new OutOfMemoryError("unable to create native thread, for a test");
                };
        int first = add(OperationType.WRITE);
        synthesize(first, first);
        assertThat(poll(4)).containsExactly(0L);
        assertThat(thrown).isEmpty();
        assertThat(poll(4)).isEmpty();
        assertThat(thrown).hasSize(1); // nothing is lost by it
        onDeath = () -> deaths.add("dead");
        assertThat(poll(4)).isEmpty();
        assertThat(deaths).containsExactly("dead");
        assertThat(poll(4)).isEmpty();
        assertThat(deaths).hasSize(1);
    }
}
