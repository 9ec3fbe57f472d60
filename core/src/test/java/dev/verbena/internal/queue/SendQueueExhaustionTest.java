package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.internal.queue.Operation.Flags;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.QueuePairShape;
import dev.verbena.internal.verbs.SendChains;
import dev.verbena.internal.verbs.VerbsContext;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/**
 * Posts that throw: there is no memory for the chain of deferred requests when the first is
 * deferred, or what records a failed request has none.
 */
class SendQueueExhaustionTest {
    private static final int DEPTH = 14;

    private final FakeDevice device = new FakeDevice();
    private final VerbsContext verbs = device.open();
    private final Arena arena = Arena.ofShared();
    private final long completions = device.createCq(2 * DEPTH, 0, 0, 0);
    private final long queuePair =
            device.createQp(
                    0, completions, completions, 0, new QueuePairShape(2 * DEPTH, 1, 1, 1, 0));
    private final CompletionPoller poller =
            new CompletionPoller(
                    QueueDevices.of(device), completions, Thread.currentThread(), new Unheard());
    private final WindowTable windows = new WindowTable();
    private final Endpoint endpoint = new Records();
    private final RequestLedger ledger =
            new RequestLedger(endpoint, poller.reserve(false), DEPTH, 4, poller.lock());
    private final Domain domain = new Domain(1);
    private final SendLimits rules =
            new SendLimits(domain, 1, 1, 0, 1 << 20, 1 << 20, true, true, true);
    private boolean exhausted;
    private boolean recordsFail;
    private boolean recordsRunOut;
    private int notificationsToFail;
    private Runnable onFailure = () -> {}; // moves the queue pair to the error state

    private final SendChains chains =
            new SendChains(Provider.of(0, 0), 4, 1, 0, this::allocate, poller.sharedChain());
    private final SendQueue queue =
            new SendQueue(rules, ledger, chains, verbs, queuePair, poller, () -> onFailure.run());

    private final class Records extends Endpoint {
        Records() {
            super(windows);
        }

        @Override
        void requestFailed(OperationType type, long context, int status, int vendorError) {
            if (recordsFail) {
                throw new IllegalStateException("of " + context);
            }
            if (recordsRunOut) {
                throw new OutOfMemoryError("of " + context);
            }
        }

        @Override
        void connectionFailed() {
            if (notificationsToFail-- > 0) {
                throw new IllegalStateException("of a notification");
            }
        }
    }

    private MemorySegment allocate(long bytes, long alignment) {
        if (exhausted) {
            throw new OutOfMemoryError("calloc(" + bytes + ")");
        }
        return arena.allocate(bytes, alignment);
    }

    @AfterEach
    void free() {
        device.destroyQp(queuePair);
        device.destroyCq(completions);
        device.dispose();
        arena.close();
    }

    private PostResult post(long context, int flags) {
        Buffers buffers = new Buffers(1);
        MemorySegment memory = arena.allocate(8);
        buffers.add(
                new RegisteredMemory(domain, memory, memory.address(), 8, 7, 8, true, true), 0, 8);
        return queue.post(Operation.SEND, context, buffers, 0, 0, 0, 0, flags);
    }

    private List<Long> contexts() {
        CompletionRecords records = new CompletionRecords(DEPTH);
        assertThat(poller.poll(records)).isTrue();
        List<Long> contexts = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            contexts.add(records.context(i));
        }
        return contexts;
    }

    /** A queue pair in the error state takes requests, and flushes them. */
    private void connect() {
        poller.enter(ledger);
        device.toInit(queuePair, 1, 0);
        device.toError(queuePair);
        queue.connect(true, 1);
    }

    /** The next request must not leave the deferred one alone for lack of memory. */
    @Test
    void aDeferredRequestBringsMemoryForTheNextOne() {
        connect();
        for (int i = 1; i < DEPTH; i++) {
            assertThat(post(i, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
            assertThat(ledger.outstanding()).isEqualTo(i);
            assertThat(ledger.room()).isGreaterThan(i);
        }
    }

    /** The queue is full, so the post looks for completions, and finds one that has failed. */
    @Test
    void aPostThatThrowsPostsWhatWasDeferred() {
        connect();
        for (int i = 1; i < DEPTH; i++) {
            assertThat(post(i, 0)).isEqualTo(PostResult.ACCEPTED);
        }
        assertThat(post(DEPTH, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        assertThat(device.sends).hasSize(DEPTH - 1);
        recordsFail = true;
        assertThatThrownBy(() -> post(DEPTH + 1, 0)).hasMessage("of 1");
        assertThat(device.sends).hasSize(DEPTH);
        recordsFail = false;
        assertThat(contexts())
                .containsExactlyElementsOf(LongStream.rangeClosed(1, DEPTH).boxed().toList());
    }

    /** The provider is full, so the post looks for completions. */
    @Test
    void aRequestThatWasBegunWhenThePostThrowsIsPosted() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        recordsFail = true;
        device.answer = Errno.ENOMEM;
        device.refused = 0;
        assertThatThrownBy(() -> post(2, 0)).hasMessage("of 1");
        recordsFail = false;
        assertThat(contexts()).containsExactly(1L, 2L);
        assertThat(device.chains).containsExactly(1, 0, 1);
    }

    /** Else the part of a chain that the provider has taken would be posted once more. */
    @Test
    void anEventThatCannotBeRecordedCostsNoRequest() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(post(2, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        assertThat(post(3, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        recordsRunOut = true;
        device.answer = Errno.ENOMEM; // of the first try
        device.refused = 1;
        assertThat(post(4, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(device.chains).containsExactly(1, 1, 2);
        assertThat(contexts()).containsExactly(1L, 2L, 3L, 4L);
    }

    /** Whatever keeps it from posting what was deferred: what comes next frees its memory. */
    @Test
    void aCloseThatThrowsRefusesPostsAllTheSame() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(post(2, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        recordsFail = true;
        device.answer = Errno.ENOMEM;
        device.refused = 0;
        assertThatThrownBy(() -> queue.closeAndFinish(1_000_000)).hasMessage("of 2");
        recordsFail = false;
        assertThat(post(3, 0)).isEqualTo(PostResult.NOT_CONNECTED);
        assertThat(contexts()).as("all have ended").containsExactly(1L, 2L);
    }

    /** The provider has taken the first, and the first alone. */
    @Test
    void aRefusalThatThrowsPostsNothingTwice() {
        connect();
        assertThat(post(1, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        assertThat(post(2, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        onFailure =
                () -> {
                    onFailure = () -> {};
                    throw new OutOfMemoryError("of the state change");
                };
        device.answer = Errno.EINVAL;
        device.refused = 1;
        assertThatThrownBy(() -> post(3, 0)).hasMessage("of the state change");
        assertThat(device.chains).containsExactly(1);
        assertThat(contexts()).containsExactly(1L, 2L);
    }

    @Test
    void whatCannotBePostedThenEitherIsNotInTheNextChain() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(post(2, 0)).isEqualTo(PostResult.ACCEPTED);
        recordsFail = true;
        device.answer = Errno.ENOMEM;
        device.refused = 0;
        device.afterPost = () -> device.answer = Errno.ENOMEM; // of the next, too
        assertThatThrownBy(() -> post(3, 0)).hasMessage("of 2");
        recordsFail = false;
        assertThat(post(4, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(device.chains).containsExactly(1, 1, 0, 0, 1);
        assertThat(contexts()).as("the third is lost").containsExactly(1L, 2L, 3L, 4L);
    }

    @Test
    void aTaskThatThrowsCostsNeitherTheOthersNorCompletions() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        int[] done = {0};
        OwnerTasks tasks = poller.ownerTasks();
        tasks.add(
                () -> {
                    throw new IllegalStateException("of a task");
                });
        tasks.add(() -> done[0]++);
        assertThat(contexts()).containsExactly(1L);
        assertThat(done[0]).isOne();
        assertThatThrownBy(this::contexts).hasMessage("of a task");
        assertThat(contexts()).isEmpty();
    }

    @Test
    void aPollThatThrowsLosesNoCompletion() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(post(2, 0)).isEqualTo(PostResult.ACCEPTED);
        recordsFail = true;
        assertThatThrownBy(this::contexts).hasMessage("of 1");
        recordsFail = false;
        assertThat(contexts()).containsExactly(2L);
    }

    /** Nothing else has come: the next poll finds nothing. */
    @Test
    void aPollThatThrowsLosesNoNotification() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        recordsFail = true;
        assertThatThrownBy(this::contexts).hasMessage("of 1");
        recordsFail = false;
        assertThat(contexts()).isEmpty();
        assertThat(notificationsToFail).as("one has succeeded").isEqualTo(-1);
    }

    /** Nobody polls it any more. */
    @Test
    void aCloseNotifiesOfWhatHasFailed() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        poller.close();
        assertThat(notificationsToFail).as("one has succeeded").isEqualTo(-1);
    }

    /** The caller sees what it has polled, and then what was thrown. */
    @Test
    void aNotificationThatThrowsIsRepeatedByTheNextPolls() {
        connect();
        assertThat(post(1, 0)).isEqualTo(PostResult.ACCEPTED);
        notificationsToFail = 2;
        assertThat(contexts()).containsExactly(1L);
        assertThatThrownBy(this::contexts).hasMessage("of a notification");
        assertThat(contexts()).isEmpty();
        assertThat(notificationsToFail).as("the third has succeeded").isEqualTo(-1);
        assertThat(contexts()).isEmpty();
        assertThat(notificationsToFail).isEqualTo(-1);
    }

    @Test
    void thePostThrowsAndLeavesNothingBehind() {
        connect();
        exhausted = true;
        String thrown = "";
        try {
            post(1, Flags.DEFER);
        } catch (OutOfMemoryError e) { // JUnit would give up
            thrown = e.getMessage();
        }
        assertThat(thrown).startsWith("calloc(");
        assertThat(ledger.outstanding()).isZero();
        assertThat(post(2, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(contexts()).containsExactly(2L);
        exhausted = false;
        queue.connect(true, 1);
        assertThat(post(3, Flags.DEFER)).isEqualTo(PostResult.ACCEPTED);
        assertThat(contexts()).isEmpty();
        assertThat(post(4, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(device.chains).containsExactly(1, 2);
        assertThat(contexts()).containsExactly(3L, 4L);
        assertThat(post(5, 0)).isEqualTo(PostResult.ACCEPTED);
        assertThat(device.chains).containsExactly(1, 2, 1);
    }
}
