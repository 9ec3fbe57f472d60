package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** What a channel asks its queues, the device and the kernel for. */
@Timeout(60)
class EventChannelTest {
    private static final long LONG = TimeUnit.SECONDS.toNanos(30);

    private final FakeDevice device = new FakeDevice();
    private final EventChannel<Member> channel = new EventChannel<>(device);
    private final List<Member> members = new ArrayList<>();

    private final class Member implements EventChannel.Member {
        final EventChannel<Member>.Entry entry = channel.reserve();
        final long queue = device.createCq(8, channel.address(), 0, entry.context());
        final List<Integer> collected = new ArrayList<>();
        final List<Integer> failures = new ArrayList<>();
        boolean armed = true;
        boolean expects;
        Error error;

        Member() {
            entry.enter(this);
            members.add(this);
        }

        @Override
        public boolean collect(int events) {
            collected.add(events);
            if (error != null) {
                throw error;
            }
            boolean fired = armed;
            armed = false;
            return fired;
        }

        @Override
        public boolean expectsEvent() {
            return expects;
        }

        @Override
        public void channelFailed(int errno) {
            failures.add(errno);
            if (armed) {
                entry.raise();
            }
        }
    }

    @AfterEach
    void free() {
        for (Member member : members) {
            member.entry.free();
            device.destroyCq(member.queue);
        }
        channel.close();
        channel.free();
        device.destroyChannel(channel.address());
        device.dispose();
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

    private void whileItSleeps(int ends, Runnable what) {
        device.waits.add(
                () -> {
                    what.run();
                    return ends;
                });
    }

    @Test
    void aQueueHearsHowManyOfItsEventsCame() {
        Member first = new Member();
        Member second = new Member();
        second.armed = false;
        device.bringEvent(first.queue);
        device.bringEvent(first.queue);
        device.bringEvent(second.queue);
        assertThat(channel.await(LONG)).isSameAs(first);
        assertThat(device.eventsAskedFor).isEqualTo(2); // as many as there are queues
        assertThat(channel.await(0)).isNull();
        assertThat(first.collected).containsExactly(2);
        assertThat(second.collected).containsExactly(1);
        assertThat(device.eventsAskedFor).isEqualTo(4); // the third, and then none
    }

    /** A system call each: where there can be no second event, nobody looks for one. */
    @Test
    void theOnlyQueueHasOneEvent() {
        Member only = new Member();
        device.bringEvent(only.queue);
        assertThat(channel.await(LONG)).isSameAs(only);
        assertThat(device.eventsAskedFor).isEqualTo(1);
        Member second = new Member();
        second.entry.free();
        only.armed = true;
        device.bringEvent(only.queue);
        assertThat(channel.await(LONG)).isSameAs(only);
        assertThat(device.eventsAskedFor).isEqualTo(2);
    }

    @Test
    void aWaitWithoutTimeLooksOnce() {
        Member member = new Member();
        assertThat(channel.await(0)).isNull();
        assertThat(device.sleeps).containsExactly(0);
        device.bringEvent(member.queue);
        assertThat(channel.await(0)).isSameAs(member); // which only the look finds
    }

    /** A system call is spent on a thread that sleeps, and on no other. */
    @Test
    void onlyASleepingThreadIsWoken() {
        Member member = new Member();
        member.armed = false;
        member.entry.raise();
        assertThat(channel.await(0)).isNull();
        assertThat(device.woken).containsExactly(0);
        member.entry.raise(); // after the wait
        assertThat(channel.await(0)).isNull();
        assertThat(device.woken).containsExactly(0, 0);
        member.armed = true;
        whileItSleeps(0, member.entry::raise); // nobody polls the eventfd meanwhile
        assertThat(channel.await(LONG)).isSameAs(member);
        assertThat(channel.await(0)).isNull();
        assertThat(channel.await(0)).isNull();
        assertThat(device.woken).containsExactly(0, 0, 0, EventWait.WAKE_UP, 0);
        member.armed = true;
        device.bringEvent(member.queue);
        assertThat(channel.await(LONG)).isSameAs(member);
        member.entry.raise();
        assertThat(channel.await(0)).isNull();
        assertThat(device.woken).endsWith(EventWait.EVENT, 0);
    }

    /** With the memory for waiting, as the removal of a device leaves it. */
    @Test
    void aChannelThatFailsNotifiesItsQueuesBeforeItSaysSo() {
        Member armed = new Member();
        Member other = new Member();
        other.armed = false;
        device.takingAnswer = -5;
        device.waits.add(() -> EventWait.EVENT);
        assertThat(channel.await(LONG)).isSameAs(armed);
        device.waits.add(() -> EventWait.EVENT);
        assertThat(channel.await(LONG)).isNull();
        assertThat(channel.failure()).isEqualTo(5);
        assertThat(armed.failures).containsExactly(5, 5);
        assertThat(other.failures).containsExactly(5, 5);
        assertThat(armed.collected).containsExactly(0);
        assertThat(other.collected).isEmpty();
    }

    @Test
    void aWaitThatFailsSaysWhy() {
        device.waits.add(() -> -9);
        assertThatThrownBy(() -> channel.await(LONG))
                .isInstanceOfSatisfying(
                        VerbenaException.class, e -> assertThat(e.errno()).isEqualTo(9));
        assertThat(channel.await(0)).isNull();
    }

    /** The kernel says that there is an event, and then there is none, or one after all. */
    @Test
    void anEventThatIsGoneOrLate() {
        Member member = new Member();
        device.bringEvent(member.queue);
        assertThat(channel.await(LONG)).isSameAs(member);
        device.waits.add(() -> EventWait.EVENT);
        assertThat(channel.await(0)).isNull();
        assertThat(member.collected).containsExactly(1);
        device.waits.add(() -> EventWait.EVENT);
        device.takingAnswer = 1; // with the context of the last
        assertThat(channel.await(0)).isNull();
        assertThat(member.collected).containsExactly(1, 1);
    }

    @Test
    void anErrorOfALookHasItDoneAgain() {
        Member member = new Member();
        member.error = new StackOverflowError("a test");
        member.entry.raise();
        assertThatThrownBy(() -> channel.await(LONG)).isSameAs(member.error);
        member.error = null;
        assertThat(channel.await(0)).isSameAs(member);
    }

    @Test
    void aSlotIsGivenToAnotherAndTakenBackFromNobody() {
        EventChannel<Member>.Entry first = channel.reserve();
        assertThat(channel.reserve().context()).isEqualTo(first.context() + 1);
        first.free();
        EventChannel<Member>.Entry second = channel.reserve();
        assertThat(second.context()).isEqualTo(first.context());
        first.free(); // once more, as a constructor that fails may
        assertThat(channel.reserve().context()).isEqualTo(first.context() + 2);
    }

    @Test
    void aCloseEndsTheWait() {
        assertThat(channel.closed()).isFalse();
        whileItSleeps(0, channel::close);
        assertThat(channel.await(LONG)).isNull();
        assertThat(channel.closed()).isTrue();
        assertThat(device.sleeps).hasSize(1);
    }

    @Test
    void aCloseWakesALoopOfTheConsumers() {
        int descriptor = channel.descriptor();
        assertThat(Descriptors.await(0, descriptor)).isZero();
        channel.close();
        assertThat(Descriptors.await(0, descriptor)).isNotZero();
    }

    /** A sleep may end for nothing, as for a queue that has not fired. */
    @Test
    void aSleepThatEndedForNothingIsFollowedByAnother() {
        Member member = new Member();
        whileItSleeps(0, () -> {});
        whileItSleeps(0, member.entry::raise);
        assertThat(channel.await(LONG)).isSameAs(member);
        assertThat(device.sleeps).hasSize(2).doesNotContain(0);
    }

    /** A completion is there already: its event most likely, too. */
    @Test
    void whatASingleQueueExpectsIsTakenWithoutASleep() {
        Member only = new Member();
        only.expects = true;
        device.bringEvent(only.queue);
        assertThat(channel.await(LONG)).isSameAs(only);
        assertThat(device.sleeps).isEmpty();
        assertThat(channel.await(0)).isNull(); // there is none: it sleeps as always
        assertThat(device.sleeps).containsExactly(0);
        new Member();
        only.armed = true;
        device.bringEvent(only.queue);
        assertThat(channel.await(LONG)).isSameAs(only);
        assertThat(device.sleeps).hasSize(2);
    }

    @Test
    void anEventThatALoopTakesLeavesNothingReadable() {
        Member only = new Member();
        int descriptor = channel.descriptor();
        device.bringEvent(only.queue);
        assertThat(Descriptors.await(0, descriptor)).isNotZero();
        assertThat(channel.takeEvent()).isSameAs(only);
        assertThat(Descriptors.await(0, descriptor)).isZero();
        assertThat(channel.takeEvent()).isNull();
        assertThat(only.collected).containsExactly(1);
    }

    @Test
    void anErrorWhileALoopTakesAnEventWakesItAgain() {
        Member only = new Member();
        int descriptor = channel.descriptor();
        device.takingCompletionEvent.set(new StackOverflowError("a test"));
        device.bringEvent(only.queue);
        assertThatThrownBy(channel::takeEvent).isInstanceOf(StackOverflowError.class);
        assertThat(Descriptors.await(0, descriptor)).isNotZero();
        assertThat(channel.takeEvent()).isSameAs(only);
        assertThat(Descriptors.await(0, descriptor)).isZero();
    }

    @Test
    void whatIsClearedDoesNotWakeALoop() {
        Member member = new Member();
        int descriptor = channel.descriptor();
        member.entry.raise();
        member.entry.clear();
        assertThat(Descriptors.await(0, descriptor)).isZero();
        channel.wakeUp();
        member.entry.raise();
        member.entry.clear();
        assertThat(Descriptors.await(0, descriptor)).isNotZero();
        assertThat(channel.await(LONG)).isNull();
        assertThat(member.collected).isEmpty();
    }

    @Test
    void anEventOfAClearedQueueThatAnotherTakesWakesALoop() {
        Member cleared = new Member();
        Member other = new Member();
        int descriptor = channel.descriptor();
        cleared.entry.raise();
        cleared.entry.clear();
        device.bringEvent(cleared.queue);
        assertThat(other.entry.takeUnread(1)).isZero();
        assertThat(Descriptors.await(0, descriptor)).isNotZero();
        assertThat(channel.await(LONG)).isSameAs(cleared);
        assertThat(cleared.collected).containsExactly(1);
    }

    @Test
    void aClearLeavesALoopAwakeForAnEventThatAnErrorHasLost() {
        Member member = new Member();
        Member other = new Member();
        int descriptor = channel.descriptor();
        device.takingCompletionEvent.set(new StackOverflowError("a test"));
        device.bringEvent(other.queue);
        assertThatThrownBy(() -> member.entry.takeUnread(1)).isInstanceOf(StackOverflowError.class);
        member.entry.raise();
        member.entry.clear();
        assertThat(Descriptors.await(0, descriptor)).isNotZero();
        assertThat(channel.await(LONG)).isNotNull();
    }

    @Test
    void itsDescriptorsAreClosedWithIt() {
        int next = Descriptors.newEventFd(); // the lowest that is free
        Descriptors.close(next);
        EventChannel<Member> other = new EventChannel<>(device);
        assertThat(isOpen(next)).isTrue();
        int joined = other.descriptor();
        assertThat(joined).isNotEqualTo(next).isEqualTo(other.descriptor());
        assertThat(isOpen(joined)).isTrue();
        other.free();
        device.destroyChannel(other.address());
        assertThat(isOpen(next)).isFalse();
        assertThat(isOpen(joined)).isFalse();
    }

    @Test
    void oneThatCannotBeWaitedForLeavesNoDescriptor() {
        int next = Descriptors.newEventFd();
        Descriptors.close(next);
        device.preparingWaits.set(new StackOverflowError("a test"));
        assertThatThrownBy(() -> new EventChannel<Member>(device))
                .isInstanceOf(StackOverflowError.class);
        assertThat(isOpen(next)).isFalse();
    }
}
