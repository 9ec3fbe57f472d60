package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.NotifyType;
import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.Status;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.WorkCompletions;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.concurrent.TimeUnit;

/**
 * What the device, its channel and the kernel are asked for by a consumer that arms and waits: each
 * is a system call, or may be.
 */
@Timeout(60)
class CompletionArmingTest {
    private static final int LONG = 30_000; // milliseconds

    private final FakeDevice device = new FakeDevice();
    private final EventChannel<CompletionArming> channel = new EventChannel<>(device);
    private final EventChannel<CompletionArming>.Entry entry = channel.reserve();
    private final long queue = device.createCq(64, channel.address(), 0, entry.context());
    private final Thread[] owner = {null};
    private CompletionPoller poller;
    private CompletionArming events;
    private RequestLedger ledger;

    private void make(int vendor, boolean calledBack) {
        device.vendorId = vendor;
        events = new CompletionArming(QueueDevices.of(device), queue, owner[0], entry, calledBack);
        poller = events.poller();
        entry.enter(events);
        Endpoint endpoint = new Endpoint(new WindowTable());
        ledger = Ledgers.withRoom(endpoint, poller.reserve(true), 16, 1);
        poller.enter(ledger);
    }

    private void make(int vendor) {
        make(vendor, false);
    }

    /** Confined to this thread. */
    private void makeOwned() {
        owner[0] = Thread.currentThread();
        make(FakeDevice.PLAIN);
    }

    /** Another thread leaves something to the owner; how often that was done. */
    private int[] leaveTask() throws InterruptedException {
        int[] done = {0};
        Runnable task = () -> done[0]++;
        Thread.ofPlatform().start(() -> poller.ownerTasks().runByOwner(task)).join();
        return done;
    }

    @AfterEach
    void free() {
        entry.free();
        device.destroyCq(queue);
        channel.close();
        channel.free();
        device.destroyChannel(channel.address());
        device.dispose();
    }

    private long post() {
        return WorkId.of(ledger.queue(), ledger.add(7, OperationType.RECEIVE, false, true));
    }

    /** A receive completes. */
    private void come() {
        device.complete(post(), 1);
    }

    /** The same, with a failure. */
    private void fail() {
        device.complete(post(), 4, 0, 0); // IBV_WC_LOC_PROT_ERR
    }

    private int pollAll() {
        CompletionRecords records = new CompletionRecords(8);
        int all = 0;
        do {
            records.clear();
            assertThat(poller.poll(records)).isTrue();
            all += records.size();
        } while (records.size() > 0);
        return all;
    }

    /** What the next wait does instead of sleeping. */
    private void whileItSleeps(int ends, Runnable what) {
        device.waits.add(
                () -> {
                    what.run();
                    return ends;
                });
    }

    private Status await(int milliseconds) {
        CompletionArming fired = channel.await(TimeUnit.MILLISECONDS.toNanos(milliseconds));
        return fired == null ? null : fired.last();
    }

    private void awaits(int milliseconds, Status expected) {
        assertThat(await(milliseconds)).isEqualTo(expected);
    }

    private Status takeEvent() {
        CompletionArming fired = channel.takeEvent();
        return fired == null ? null : fired.last();
    }

    /** A wait of which the first sleep ends for nothing, and whose second is woken up. */
    private void nothingAfterTwoSleeps(int ends, Runnable meanwhile) {
        whileItSleeps(ends, meanwhile);
        whileItSleeps(0, channel::wakeUp);
        awaits(LONG, null);
    }

    /** Each arm has its callback, and each completion is the reason of one. */
    @Test
    void anArmBeforeACallbackFiresForWhatComesLater() {
        make(FakeDevice.PLAIN, true);
        come();
        assertThat(events.arm(NotifyType.ANY)).isTrue();
        assertThat(events.arm(NotifyType.ANY)).isFalse();
        awaits(LONG, Status.SUCCESS);
        come();
        assertThat(events.arm(NotifyType.ANY)).isTrue();
        awaits(LONG, Status.SUCCESS);
    }

    /** An arm joins those that have not fired, and no others. */
    @Test
    void anArmAfterOneThatHasFiredAwaitsWhatItAsksFor() {
        make(FakeDevice.PLAIN, true);
        come();
        assertThat(events.arm(NotifyType.ANY)).isTrue();
        assertThat(events.arm(NotifyType.ERRORS)).isFalse();
        assertThat(events.armed()).isEqualTo(NotifyType.ERRORS);
        awaits(LONG, Status.SUCCESS);
    }

    /** Whatever those after it fire with. */
    @Test
    void aFailureReachesEachCallbackOfTheArmsBeforeIt() {
        make(FakeDevice.PLAIN, true);
        Status failure = PostResult.ofErrno(12).status();
        device.notifyAnswer = 12;
        assertThat(events.arm(NotifyType.ANY)).isTrue();
        device.notifyAnswer = 0;
        come();
        assertThat(events.arm(NotifyType.ANY)).isTrue();
        assertThat(events.arm(NotifyType.ANY)).isFalse();
        awaits(LONG, failure);
        awaits(LONG, failure);
    }

    @ParameterizedTest
    @CsvSource({
        ", ERRORS, ERRORS", ", ANY, ANY", ", SOLICITED, SOLICITED",
        "ERRORS, ERRORS, ERRORS", "ERRORS, ANY, ANY", "ERRORS, SOLICITED, SOLICITED",
        "ANY, ERRORS, ANY", "ANY, ANY, ANY", "ANY, SOLICITED, ANY",
        "SOLICITED, ERRORS, SOLICITED", "SOLICITED, ANY, ANY", "SOLICITED, SOLICITED, SOLICITED",
    })
    void joining(NotifyType armed, NotifyType asked, NotifyType joined) {
        assertThat(CompletionArming.join(armed, asked)).isEqualTo(joined);
    }

    /** One request for an event and one event for each message that is waited for. */
    @Test
    void aRoundAsksOnceAndTakesOneEvent() {
        make(FakeDevice.PLAIN);
        for (int i = 1; i <= 5; i++) {
            assertThat(events.arm(NotifyType.ANY)).isFalse();
            come();
            awaits(LONG, Status.SUCCESS);
            assertThat(pollAll()).isOne();
            assertThat(device.arms).hasSize(i);
            assertThat(device.eventsAskedFor).isEqualTo(i);
            assertThat(device.sleeps).isEmpty(); // what has come is taken at once
        }
    }

    @Test
    void anEventThatWakesASleepingThreadFiresWithoutAskingAgain() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.ANY);
        whileItSleeps(EventWait.EVENT, this::come);
        awaits(LONG, Status.SUCCESS);
        assertThat(device.arms).hasSize(1);
        assertThat(device.eventsAskedFor).isOne();

        pollAll();
        events.arm(NotifyType.ANY);
        whileItSleeps(
                EventWait.EVENT,
                () -> {
                    come();
                    device.pollAnswer = -1; // it overran
                });
        awaits(LONG, Status.BUFFER_OVERFLOW);
        assertThat(device.arms).hasSize(2);
        device.pollAnswer = 0;
    }

    /**
     * Polled instead of waited for: the next arm takes the event, and asks for no more than that.
     */
    @Test
    void anArmTakesTheEventsThatNobodyWaitedFor() {
        make(FakeDevice.PLAIN);
        for (int i = 0; i < 5; i++) {
            assertThat(events.arm(NotifyType.ANY)).isFalse();
            assertThat(device.eventsAskedFor).isEqualTo(i);
            come();
            assertThat(pollAll()).isOne();
        }
        assertThat(device.mostEventsNotTaken).isOne();
    }

    /** Of several that came while a thread slept, each. */
    @Test
    void anArmTakesAllEventsOfAWaitThatEndedBefore() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.ANY);
        nothingAfterTwoSleeps(
                0,
                () -> {
                    come();
                    assertThat(pollAll()).isOne();
                    events.arm(NotifyType.ANY); // the sleeping thread takes events itself
                    assertThat(device.eventsAskedFor).isZero();
                    come();
                    assertThat(pollAll()).isOne();
                });
        assertThat(device.mostEventsNotTaken).isEqualTo(2);
        events.arm(NotifyType.ANY);
        assertThat(device.eventsAskedFor).isEqualTo(2);
        device.sleeps.clear();
        awaits(0, null);
        assertThat(device.woken.getLast() & EventWait.EVENT).isZero(); // none is left
        events.arm(NotifyType.ANY);
        assertThat(device.eventsAskedFor).isEqualTo(3); // in vain, for the one of the arm before
    }

    /** Late events, two of which the device was asked for, and one of which is counted. */
    @Test
    void moreEventsThanAreCountedDoNotSpoilTheCount() {
        make(FakeDevice.PLAIN);
        device.eventsAreLate = true;
        for (int i = 0; i < 2; i++) {
            events.arm(NotifyType.ANY);
            come();
            if (i == 0) {
                assertThat(pollAll()).isOne();
            }
        }
        device.eventsAreLate = false;
        device.bringLateEvents();
        awaits(LONG, Status.SUCCESS);
        events.arm(NotifyType.ERRORS);
        awaits(0, null); // the second, which was not requested any more
        assertThat(pollAll()).isOne();
        int before = device.eventsAskedFor;
        for (int i = 0; i < 3; i++) {
            events.arm(NotifyType.ANY);
            assertThat(device.eventsAskedFor).isEqualTo(before + i);
            come();
            assertThat(pollAll()).isOne();
        }
    }

    @Test
    void aChannelIsNotAskedForWhatHasNotCome() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.ANY);
        awaits(0, null);
        assertThat(device.eventsAskedFor).isZero();
    }

    @Test
    void aChannelIsNotAskedForWhatIsNotWaitedFor() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.ERRORS);
        come();
        awaits(0, null);
        assertThat(device.eventsAskedFor).isZero();
        assertThat(device.arms).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {12, -12})
    void aRefusalToRaiseEventsFires(int answer) {
        make(FakeDevice.PLAIN);
        device.notifyAnswer = answer;
        assertThat(events.arm(NotifyType.ANY)).isTrue();
        awaits(LONG, PostResult.ofErrno(12).status());
        device.notifyAnswer = 0;
        assertThat(events.arm(NotifyType.ANY)).isFalse();
        assertThat(device.eventsAskedFor).isZero(); // none was on its way
    }

    @Test
    void anEventThatCannotBeTakenFiresWithItsErrno() {
        make(FakeDevice.PLAIN);
        device.takingAnswer = -5;
        events.arm(NotifyType.ERRORS);
        whileItSleeps(EventWait.EVENT, () -> {});
        awaits(LONG, PostResult.ofErrno(5).status());
        assertThat(channel.failure()).isEqualTo(5);
        assertThat(events.isAwaited()).isFalse();
        whileItSleeps(EventWait.EVENT, () -> {});
        awaits(LONG, null); // it is not armed: nothing would end the wait
        assertThat(channel.failure()).isEqualTo(5);
        device.takingAnswer = 0;
        events.arm(NotifyType.ERRORS);
        whileItSleeps(EventWait.EVENT, () -> {}); // of a channel where there is none after all
        awaits(0, null);
        assertThat(channel.failure()).isZero();
        assertThat(device.arms).isEmpty();
    }

    @Test
    void aRaisedThreadChecksOnceAndSleepsAgain() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.ANY);
        events.wakeOwner(); // nobody sleeps
        awaits(0, null);
        assertThat(device.woken).containsExactly(0);
        whileItSleeps(0, events::wakeOwner);
        whileItSleeps(0, channel::wakeUp);
        awaits(LONG, null); // woken for something else
        assertThat(device.sleeps).hasSize(3);
        assertThat(device.arms).hasSize(1); // the device is asked no more
    }

    @Test
    void aCloseEndsTheWait() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.ANY);
        whileItSleeps(EventWait.WAKE_UP, channel::close);
        awaits(LONG, null);
        assertThat(channel.closed()).isTrue();
        events.close();
        come();
        assertThat(events.collect(1)).isFalse();
        assertThat(device.arms).hasSize(1);
    }

    /** A task is left after the check before the wait: nobody sleeps yet who could be woken. */
    @Test
    void anOwnerDoesNotSleepBesideATaskThatWasLeftToIt() throws InterruptedException {
        makeOwned();
        events.arm(NotifyType.ANY);
        int[] done = leaveTask();
        assertThat(done[0]).isZero();
        whileItSleeps(
                0,
                () -> {
                    assertThat(done[0]).isOne();
                    channel.wakeUp();
                });
        awaits(LONG, null);
    }

    @Test
    void whatATaskBringsFires() throws InterruptedException {
        makeOwned();
        events.arm(NotifyType.SOLICITED); // no event comes for it
        Thread.ofPlatform().start(() -> poller.ownerTasks().runByOwner(this::come)).join();
        awaits(LONG, Status.SUCCESS);
        assertThat(device.sleeps).isEmpty();
    }

    /** They stand behind one that the device has completed, and raised no event for. */
    @Test
    void synthesizedCompletionsFireBehindOthers() {
        make(FakeDevice.PLAIN);
        events.arm(NotifyType.SOLICITED);
        come();
        int last = ledger.add(8, OperationType.RECEIVE, false, true);
        poller.synthesize(ledger, last, last, WorkCompletions.GENERAL_ERROR);
        poller.announce();
        awaits(0, Status.SUCCESS);
        assertThat(device.sleeps).isEmpty();
        assertThat(pollAll()).isEqualTo(2);
    }

    @Nested
    class HowLongToSleep {
        @Test
        void aWaitWithoutTimeLooksOnce() {
            make(FakeDevice.PLAIN);
            events.arm(NotifyType.ANY);
            awaits(0, null);
            assertThat(device.sleeps).containsExactly(0);
        }

        @Test
        void forTheTimeThatIsLeft() {
            make(FakeDevice.PLAIN);
            events.arm(NotifyType.ANY);
            device.waits.add(() -> 0);
            whileItSleeps(EventWait.EVENT, CompletionArmingTest.this::come);
            awaits(LONG, Status.SUCCESS);
            assertThat(device.sleeps)
                    .hasSize(2)
                    .allSatisfy(each -> assertThat(each).isBetween(1, LONG + 1));
            assertThat(device.sleeps.getFirst()).isEqualTo(LONG + 1); // rounded up
        }
    }

    @Nested
    class ALoopOfTheConsumers {
        private boolean wakes() {
            return Descriptors.await(0, channel.descriptor()) == 1;
        }

        @Test
        void isWokenForWhatHadFiredBeforeThereWasADescriptor() {
            make(FakeDevice.PLAIN);
            come();
            assertThat(events.arm(NotifyType.ANY)).isTrue();
            assertThat(wakes()).isTrue();
            assertThat(takeEvent()).isEqualTo(Status.SUCCESS);
            assertThat(wakes()).isFalse();
        }

        @Test
        void isWokenForATaskThatWasLeftBeforeThereWasADescriptor() throws Exception {
            makeOwned();
            leaveTask();
            assertThat(wakes()).isTrue();
        }

        @Test
        void isWokenForATaskThatWasLeftWhileItArmedAgain() throws Exception {
            makeOwned();
            assertThat(wakes()).isFalse();
            come();
            assertThat(events.arm(NotifyType.ANY)).isTrue();
            assertThat(pollAll()).isOne();
            leaveTask();
            assertThat(events.arm(NotifyType.ANY)).isFalse(); // which undoes the raise of the first
            assertThat(wakes()).isTrue();
        }

        @Test
        void takesAnEventAndRunsATaskThatWasLeft() throws Exception {
            makeOwned();
            assertThat(wakes()).isFalse();
            events.arm(NotifyType.ANY);
            int[] done = leaveTask();
            assertThat(wakes()).isTrue();
            assertThat(takeEvent()).isEqualTo(null);
            assertThat(done[0]).isOne();
            assertThat(wakes()).isFalse();
        }
    }
}
