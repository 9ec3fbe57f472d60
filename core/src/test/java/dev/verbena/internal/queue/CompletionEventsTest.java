package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Provider;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * What the device, its channel and the kernel are asked for by a consumer that arms and waits: each
 * is a system call, or may be.
 */
@Timeout(60)
class CompletionEventsTest {
    private static final int LONG = 30_000; // milliseconds
    private static final int SOON = 20; // how long to sleep before a look for failures

    private final FakeDevice device = new FakeDevice();
    private final long channel = device.createChannel();
    private final long queue = device.createCq(64, channel, 0, 0);
    private final Thread[] owner = {null};
    private CompletionPoller poller;
    private CompletionEvents events;
    private RequestLedger ledger;
    private int looks;

    private void make(int vendor, boolean calledBack) {
        device.vendorId = vendor;
        Provider provider = Provider.of(vendor, 0);
        poller =
                new CompletionPoller(
                        device.open(),
                        provider,
                        new SharedQueues(),
                        queue,
                        owner[0],
                        new CompletionPoller.Listener() {
                            @Override
                            public void synthesized() {
                                events.synthesized();
                            }

                            @Override
                            public void wakeOwner() {
                                events.wakeOwner();
                            }
                        });
        events =
                CompletionEvents.ofOwnChannel(
                        device,
                        device.open(),
                        provider,
                        poller,
                        queue,
                        channel,
                        calledBack,
                        () -> looks++);
        Endpoint endpoint = new Endpoint("owner", new WindowTable(), () -> {});
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
        if (events != null) {
            events.close();
            events.free();
        }
        device.destroyCq(queue);
        device.destroyChannel(channel);
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

    private void waitOnce(int milliseconds, int expected) {
        assertThat(events.waitOnce(milliseconds)).isEqualTo(expected);
    }

    private void nothingAfter(int milliseconds) {
        waitOnce(milliseconds, CompletionEvents.NOTHING);
    }

    /** Whether it is an eventfd or an epoll instance: other threads may open files meanwhile. */
    private static boolean isOpen(int descriptor) {
        Path link = Path.of("/proc/self/fd/" + descriptor);
        try {
            return Files.readSymbolicLink(link).toString().startsWith("anon_inode:");
        } catch (IOException e) {
            return false;
        }
    }

    /** One request for an event and one event for each message that is waited for. */
    @Test
    void aRoundAsksOnceAndTakesOneEvent() {
        make(FakeDevice.PLAIN);
        for (int i = 1; i <= 5; i++) {
            assertThat(events.arm(ArmState.ANY)).isFalse();
            come();
            waitOnce(LONG, CompletionEvents.SUCCESS);
            assertThat(pollAll()).isOne();
            assertThat(device.arms).hasSize(i);
            assertThat(device.eventsAskedFor).isEqualTo(i);
            assertThat(device.sleeps).isEmpty(); // what has come is taken at once
        }
    }

    @Test
    void anEventThatWakesASleepingThreadFiresWithoutAskingAgain() {
        make(FakeDevice.PLAIN);
        events.arm(ArmState.ANY);
        whileItSleeps(EventWait.EVENT, this::come);
        waitOnce(LONG, CompletionEvents.SUCCESS);
        assertThat(device.arms).hasSize(1);
        assertThat(device.eventsAskedFor).isOne();

        pollAll();
        events.arm(ArmState.ANY);
        whileItSleeps(
                EventWait.EVENT,
                () -> {
                    come();
                    device.pollAnswer = -1; // it overran
                });
        waitOnce(LONG, CompletionEvents.OVERRUN);
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
            assertThat(events.arm(ArmState.ANY)).isFalse();
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
        events.arm(ArmState.ANY);
        whileItSleeps(
                0,
                () -> {
                    come();
                    assertThat(pollAll()).isOne();
                    events.arm(ArmState.ANY); // the sleeping thread takes events itself
                    assertThat(device.eventsAskedFor).isZero();
                    come();
                    assertThat(pollAll()).isOne();
                });
        nothingAfter(LONG);
        assertThat(device.mostEventsNotTaken).isEqualTo(2);
        events.arm(ArmState.ANY);
        assertThat(device.eventsAskedFor).isEqualTo(2);
        nothingAfter(0);
        assertThat(device.woken).endsWith(0); // none is left in the channel
        events.arm(ArmState.ANY);
        assertThat(device.eventsAskedFor).isEqualTo(3); // in vain, for the one of the arm before
    }

    /** Late events, two of which the device was asked for, and one of which is counted. */
    @Test
    void moreEventsThanAreCountedDoNotSpoilTheCount() {
        make(FakeDevice.PLAIN);
        device.eventsAreLate = true;
        for (int i = 0; i < 2; i++) {
            events.arm(ArmState.ANY);
            come();
            if (i == 0) {
                assertThat(pollAll()).isOne();
            }
        }
        device.eventsAreLate = false;
        device.bringLateEvents();
        waitOnce(LONG, CompletionEvents.SUCCESS);
        events.arm(ArmState.ERRORS);
        nothingAfter(LONG); // the second, for which nothing was requested any more
        assertThat(pollAll()).isOne();
        int before = device.eventsAskedFor;
        for (int i = 0; i < 3; i++) {
            events.arm(ArmState.ANY);
            assertThat(device.eventsAskedFor).isEqualTo(before + i);
            come();
            assertThat(pollAll()).isOne();
        }
    }

    @Test
    void aChannelIsNotAskedForWhatHasNotCome() {
        make(FakeDevice.PLAIN);
        events.arm(ArmState.ANY);
        nothingAfter(0);
        assertThat(device.eventsAskedFor).isZero();
    }

    @Test
    void aChannelIsNotAskedForWhatIsNotWaitedFor() {
        make(FakeDevice.PLAIN);
        events.arm(ArmState.ERRORS);
        come();
        nothingAfter(0);
        assertThat(device.eventsAskedFor).isZero();
        assertThat(device.arms).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {12, -12})
    void aRefusalToRaiseEventsFires(int answer) {
        make(FakeDevice.PLAIN);
        device.notifyAnswer = answer;
        assertThat(events.arm(ArmState.ANY)).isTrue();
        waitOnce(LONG, 12);
        device.notifyAnswer = 0;
        assertThat(events.arm(ArmState.ANY)).isFalse();
        assertThat(device.eventsAskedFor).isZero(); // none was on its way
    }

    @Test
    void anEventThatCannotBeTakenFiresWithItsErrno() {
        make(FakeDevice.PLAIN);
        device.takingAnswer = -5;
        events.arm(ArmState.ERRORS);
        whileItSleeps(EventWait.EVENT, () -> {});
        waitOnce(LONG, 5);
        assertThat(events.failedToTake()).isTrue();
        assertThatThrownBy(() -> events.waitOnce(0)).isInstanceOf(IllegalStateException.class);
        device.takingAnswer = 0;
        events.arm(ArmState.ERRORS);
        whileItSleeps(EventWait.EVENT, () -> {}); // of a channel where there is none after all
        nothingAfter(LONG);
        assertThat(events.failedToTake()).isFalse();
        assertThat(device.arms).isEmpty();
    }

    @Test
    void aRaisedThreadLooksOnceAndSleepsAgain() {
        make(FakeDevice.PLAIN);
        events.arm(ArmState.ANY);
        events.wakeOwner(); // nobody sleeps
        nothingAfter(0);
        whileItSleeps(0, events::wakeOwner);
        nothingAfter(LONG); // woken for something else
        nothingAfter(LONG);
        nothingAfter(0);
        assertThat(device.woken).containsExactly(0, 0, EventWait.WAKE_UP, 0);
    }

    @Test
    void aCloseEndsTheWait() {
        make(FakeDevice.PLAIN);
        events.arm(ArmState.ANY);
        whileItSleeps(EventWait.WAKE_UP, events::close);
        nothingAfter(LONG);
        assertThat(events.closed()).isTrue();
        come();
        assertThat(events.collect(1)).isEqualTo(CompletionEvents.NOTHING);
    }

    /** A task is left after the look before the wait: nobody sleeps yet who could be woken. */
    @Test
    void anOwnerDoesNotSleepBesideATaskThatWasLeftToIt() throws InterruptedException {
        makeOwned();
        events.arm(ArmState.ANY);
        int[] done = leaveTask();
        nothingAfter(10 * SOON);
        assertThat(device.sleeps).isEmpty();
        assertThat(done[0]).isZero();
        assertThat(events.await(0)).isEqualTo(CompletionEvents.NOTHING);
        assertThat(done[0]).isOne();
        assertThat(device.sleeps).containsExactly(0); // after it, there may be something to poll
    }

    /** They stand behind one that the device has completed, and raised no event for. */
    @Test
    void synthesizedCompletionsFireBehindOthers() {
        make(FakeDevice.PLAIN);
        events.arm(ArmState.SOLICITED);
        come();
        int last = ledger.add(8, OperationType.RECEIVE, false, true);
        poller.synthesize(ledger, last, last, SynthesizedStatus.NOT_POSTED);
        poller.announce();
        waitOnce(0, CompletionEvents.SUCCESS);
        assertThat(device.sleeps).isEmpty();
        assertThat(pollAll()).isEqualTo(2);
    }

    @Nested
    class HowLongToSleep {
        @Test
        void asLongAsTheCallerSays() {
            make(FakeDevice.PLAIN);
            events.arm(ArmState.SOLICITED);
            device.waits.add(() -> 0);
            device.waits.add(() -> 0);
            nothingAfter(LONG);
            nothingAfter(-1);
            nothingAfter(0);
            assertThat(device.sleeps).containsExactly(LONG, -1, 0);
        }

        @Test
        void aWaitWithoutTimeLooksOnce() {
            make(FakeDevice.PLAIN);
            events.arm(ArmState.ANY);
            assertThat(events.await(0)).isEqualTo(CompletionEvents.NOTHING);
            assertThat(device.sleeps).containsExactly(0);
        }

        @Test
        void forTheTimeThatIsLeft() {
            make(FakeDevice.PLAIN);
            events.arm(ArmState.ANY);
            device.waits.add(() -> 0);
            whileItSleeps(EventWait.EVENT, CompletionEventsTest.this::come);
            assertThat(events.await(TimeUnit.MILLISECONDS.toNanos(LONG)))
                    .isEqualTo(CompletionEvents.SUCCESS);
            assertThat(device.sleeps)
                    .hasSize(2)
                    .allSatisfy(each -> assertThat(each).isBetween(1, LONG + 1));
            assertThat(device.sleeps.getFirst()).isEqualTo(LONG + 1); // rounded up
        }

        /** Receives that were posted to a failed queue pair: looked for ever less often. */
        @Test
        void untilTheNextLookWhereTheDeviceForgetsReceives() {
            make(FakeDevice.RXE);
            events.arm(ArmState.ANY);
            for (int i = 0; i < 3; i++) {
                int gap = SOON << looks; // a slow machine may be late, and look before
                nothingAfter(i == 0 ? -1 : LONG);
                assertThat(device.sleeps).endsWith(gap);
                nothingAfter(0);
                assertThat(device.sleeps).endsWith(0);
            }
            assertThat(looks).isGreaterThanOrEqualTo(3);
            whileItSleeps(EventWait.EVENT, CompletionEventsTest.this::come);
            waitOnce(LONG, CompletionEvents.SUCCESS);
            pollAll();
            events.arm(ArmState.ANY);
            device.waits.add(() -> 0);
            nothingAfter(LONG); // an event came: the connection works, and may fail soon
            assertThat(device.sleeps).endsWith(SOON);
        }

        @Test
        void otherDevicesAreNotLookedAt() {
            make(FakeDevice.PLAIN);
            events.arm(ArmState.SOLICITED);
            nothingAfter(SOON + 5);
            assertThat(looks).isZero();
        }

        @Test
        void nothingIsLookedForAfterTheClose() {
            make(FakeDevice.RXE);
            events.arm(ArmState.ANY);
            events.close();
            nothingAfter(LONG);
            assertThat(looks).isZero();
            assertThat(device.sleeps).isEmpty();
        }

        /** Where failures give no event under SOLICITED: always for as short. */
        @Test
        void shortlyUnderSolicitedWhereFailuresGiveNoEvent() {
            make(FakeDevice.RXE);
            events.arm(ArmState.SOLICITED);
            for (int i = 0; i < 3; i++) {
                nothingAfter(LONG);
            }
            fail();
            pollAll();
            nothingAfter(LONG); // it was polled
            assertThat(device.sleeps).containsExactly(SOON, SOON, SOON, SOON);
            whileItSleeps(0, CompletionEventsTest.this::fail);
            waitOnce(LONG, CompletionEvents.SUCCESS);
        }

        /** The thread of a callback sleeps already when the queue is armed. */
        @Test
        void aSleepingThreadIsWokenToLookFromThenOn() {
            make(FakeDevice.RXE, true);
            whileItSleeps(0, () -> events.arm(ArmState.SOLICITED));
            nothingAfter(-1);
            nothingAfter(-1);
            assertThat(device.woken).containsExactly(0, EventWait.WAKE_UP);
        }

        @Test
        void itIsNotWokenWhereThereIsNothingToLookFor() {
            make(FakeDevice.PLAIN, true);
            whileItSleeps(0, () -> events.arm(ArmState.SOLICITED));
            nothingAfter(-1);
            nothingAfter(0);
            assertThat(device.woken).containsExactly(0, 0);
        }

        @Test
        void nobodyIsWokenWhereNobodySleeps() {
            make(FakeDevice.RXE);
            events.arm(ArmState.SOLICITED);
            nothingAfter(0);
            assertThat(device.woken).containsExactly(0);
        }
    }

    @Nested
    class ALoopOfTheConsumers {
        @Test
        void isKnownFromTheMomentThatItAsksForTheDescriptor() {
            make(FakeDevice.PLAIN);
            assertThat(events.isWatchedElsewhere()).isFalse();
            int descriptor = events.descriptor();
            assertThat(events.descriptor()).isEqualTo(descriptor);
            assertThat(events.isWatchedElsewhere()).isTrue();
        }

        /** Under SOLICITED failures give no event there, and no thread looks for them. */
        @Test
        void isWokenForEverythingAlsoWhereItWasArmedBefore() {
            make(FakeDevice.RXE);
            events.arm(ArmState.SOLICITED);
            int descriptor = events.descriptor();
            assertThat(events.descriptor()).isEqualTo(descriptor); // asks the device no more
            assertThat(device.arms).containsExactly(true, false);
            fail();
            assertThat(Descriptors.await(0, descriptor)).isOne();
            assertThat(events.takeEvent()).isEqualTo(CompletionEvents.SUCCESS);
        }

        private boolean wakes() {
            return Descriptors.await(0, events.descriptor()) == 1;
        }

        @Test
        void isWokenForWhatHadFiredBeforeThereWasADescriptor() {
            make(FakeDevice.PLAIN);
            come();
            assertThat(events.arm(ArmState.ANY)).isTrue();
            assertThat(wakes()).isTrue();
            assertThat(events.takeEvent()).isEqualTo(CompletionEvents.SUCCESS);
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
            assertThat(events.arm(ArmState.ANY)).isTrue();
            assertThat(pollAll()).isOne();
            leaveTask();
            assertThat(events.arm(ArmState.ANY)).isFalse(); // which undoes the raise of the first
            assertThat(wakes()).isTrue();
        }

        @Test
        void isWokenForATaskThatWasLeftWhileItTookAnEvent() throws Exception {
            makeOwned();
            assertThat(wakes()).isFalse();
            events.arm(ArmState.ANY);
            int[] done = leaveTask(); // after the caller has looked for tasks
            assertThat(events.takeEvent()).isEqualTo(CompletionEvents.NOTHING);
            assertThat(wakes()).isTrue();
            assertThat(poller.ownerTasks().runAll()).isTrue();
            assertThat(done[0]).isOne();
            assertThat(events.takeEvent()).isEqualTo(CompletionEvents.NOTHING);
            assertThat(wakes()).isFalse();
        }

        @Test
        void itsDescriptorIsClosedWithTheQueue() {
            make(FakeDevice.PLAIN);
            int descriptor = events.descriptor();
            assertThat(isOpen(descriptor)).isTrue();
            events.close();
            events.free();
            events = null;
            assertThat(isOpen(descriptor)).isFalse();
        }
    }

    /** Nothing is left open where the memory for waiting is not to be had. */
    @Test
    void aChannelThatCannotBeWaitedForLeavesNoDescriptor() {
        int next = Descriptors.newEventFd(); // the lowest that is free
        Descriptors.close(next);
        device.preparingWaits.set(new StackOverflowError("a test"));
        assertThatThrownBy(() -> new PrivateChannel(device, channel))
                .isInstanceOf(StackOverflowError.class);
        assertThat(isOpen(next)).isFalse();
    }
}
