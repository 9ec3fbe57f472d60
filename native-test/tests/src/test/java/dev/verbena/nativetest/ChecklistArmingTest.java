package dev.verbena.nativetest;

import static dev.verbena.nativetest.Checklist.LONG;
import static dev.verbena.nativetest.Checklist.SHORT;
import static dev.verbena.nativetest.Checklist.SILENT;
import static dev.verbena.nativetest.Checklist.limits;
import static dev.verbena.nativetest.Checklist.write;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.Status;
import dev.verbena.internal.verbs.Descriptors;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * NDK's promises, point by point, between two devices: arming. What needs no device (flag values,
 * credits and refusals at each index) is tested in core, on a device that does not exist.
 */
@NeedsDevices
@Timeout(300)
class ChecklistArmingTest {
    @Nested
    class Point09Arming {
        private final List<OpFlags> sent = new ArrayList<>();

        private void message(Pair pair, OpFlags flags) {
            pair.right.queuePair.receive(1, new BufferList(1)).orThrow();
            pair.left.queuePair.send(sent.size(), new BufferList(1), flags).orThrow();
            sent.add(flags);
            pair.left.ends(1); // it has been received then
        }

        @ParameterizedTest
        @CsvSource({"0,0", "0,1", "0,2", "1,0", "1,1", "1,2", "2,0", "2,1", "2,2"})
        void theNineCombinations(int first, int second) {
            try (Pair pair = new Pair(limits(16)).connect()) {
                pair.right.completionQueue.arm(NotifyType.values()[first]);
                pair.right.completionQueue.arm(NotifyType.values()[second]);
                boolean any = first == 1 || second == 1;
                boolean solicited = first == 2 || second == 2;
                message(pair, OpFlags.NONE);
                assertThat(pair.right.completionQueue.await(any ? LONG : SHORT))
                        .isEqualTo(any ? Status.SUCCESS : Status.IO_TIMEOUT);
                if (!any) {
                    message(pair, OpFlags.SEND_AND_SOLICIT_EVENT);
                    assertThat(pair.right.completionQueue.await(solicited ? LONG : SHORT))
                            .isEqualTo(solicited ? Status.SUCCESS : Status.IO_TIMEOUT);
                }
            }
        }

        @Test
        void whatWasThereUnseenFiresAtOnceAndWhatWasSeenDoesNot() {
            try (Pair pair = new Pair(limits(16)).connect()) {
                message(pair, OpFlags.NONE);
                assertThat(pair.right.completionQueue.arm(NotifyType.ANY)).isTrue();
                assertThat(pair.right.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pair.right.completionQueue.arm(NotifyType.ANY)).isFalse();
                assertThat(pair.right.completionQueue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
                message(pair, OpFlags.NONE);
                assertThat(pair.right.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pair.right.endsNow()).hasSize(2);
            }
        }

        @Test
        void internalSignalsWakeNoThread() {
            try (Pair pair = new Pair(limits(2)).connect()) { // every silent request is signaled
                MemoryRegion source = pair.left.filled(8, 1);
                MemoryRegion target = pair.right.filled(8, 2);
                pair.left.completionQueue.arm(NotifyType.ANY);
                for (int i = 0; i < 20; i++) {
                    write(pair, i, source, target, SILENT);
                }
                assertThat(pair.left.completionQueue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
                write(pair, 99, source, target, OpFlags.NONE);
                assertThat(pair.left.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pair.left.endsNow()).containsExactly("WRITE 99 SUCCESS");
            }
        }

        @Test
        void aFailingSendWakesUnderSolicited() {
            try (Pair pair = new Pair(limits(4)).connect()) {
                MemoryRegion gone = pair.left.memory(8);
                BufferList list = whole(gone);
                gone.close(); // its token is bad from here on
                pair.left.completionQueue.arm(NotifyType.SOLICITED);
                pair.left.queuePair.send(1, list).orThrow();
                assertThat(pair.left.completionQueue.await(LONG)).isEqualTo(Status.SUCCESS);
                Completions failed = pair.left.completion();
                assertThat(failed.status(0))
                        // Soft-RoCE from Linux 6.4 on says that it was flushed.
                        .isIn(Status.ACCESS_VIOLATION, Status.CANCELLED);
                assertThat(failed.providerCode(0)).isNotZero();
            }
        }

        /** Its message is too long. */
        @ParameterizedTest
        @EnumSource(Wait.class)
        void aFailingReceiveWakesUnderSolicited(Wait wait) throws InterruptedException {
            LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
            try (Pair pair = armed(wait, called)) {
                pair.right.queuePair.receive(1, whole(pair.right.memory(4))).orThrow();
                pair.left.queuePair.send(2, whole(pair.left.filled(8, 1))).orThrow();
                assertThat(wait.forFiring(pair, called)).isEqualTo(Status.SUCCESS);
                assertThat(pair.right.ends(1)).containsExactly("RECEIVE 1 BUFFER_OVERFLOW");
            }
        }

        /** The peer's mistake flushes them, or this side itself. */
        @ParameterizedTest
        @EnumSource(Wait.class)
        void flushedReceivesWakeUnderSolicited(Wait wait) throws InterruptedException {
            for (boolean byThePeer : new boolean[] {true, false}) {
                LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
                try (Pair pair = armed(wait, called)) {
                    pair.right.queuePair.receive(1, whole(pair.right.memory(8))).orThrow();
                    pair.right.queuePair.receive(2, whole(pair.right.memory(8))).orThrow();
                    if (byThePeer) {
                        MemoryRegion target = pair.right.filled(8, 2);
                        long at = target.memory().address();
                        pair.left
                                .queuePair
                                .write(
                                        3,
                                        whole(pair.left.filled(8, 1)),
                                        at,
                                        target.remoteToken() ^ 0x5500,
                                        OpFlags.NONE)
                                .orThrow();
                    } else {
                        pair.right.queuePair.flush();
                    }
                    assertThat(wait.forFiring(pair, called)).isEqualTo(Status.SUCCESS);
                    assertThat(pair.right.ends(2))
                            .containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
                }
            }
        }

        /** How a consumer may wait. */
        private enum Wait {
            AWAIT,
            CALLBACK,
            OWN_LOOP;

            Status forFiring(Pair pair, LinkedBlockingQueue<Status> called)
                    throws InterruptedException {
                return switch (this) {
                    case AWAIT -> pair.right.completionQueue.await(LONG);
                    case CALLBACK -> called.poll(30, TimeUnit.SECONDS);
                    case OWN_LOOP -> {
                        CompletionQueue queue = pair.right.completionQueue;
                        Deadline deadline = Deadline.of("event at the descriptor");
                        Status taken = Status.PENDING;
                        while (taken == Status.PENDING) {
                            deadline.check();
                            if (Descriptors.await(1000, queue.eventDescriptor()) != 0) {
                                taken = queue.takeEvent(); // not before: it would look by itself
                            }
                        }
                        yield taken;
                    }
                };
            }
        }

        private static Pair armed(Wait wait, LinkedBlockingQueue<Status> called) {
            Pair pair = new Pair(limits(8), wait == Wait.CALLBACK ? called::add : null).connect();
            if (wait == Wait.OWN_LOOP) {
                assertThat(pair.right.completionQueue.eventDescriptor()).isNotNegative();
            }
            assertThat(pair.right.completionQueue.arm(NotifyType.SOLICITED)).isFalse();
            return pair;
        }

        @Test
        void aCallbackComesOncePerArm() throws InterruptedException {
            LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
            try (Pair pair = new Pair(limits(16), called::add).connect()) {
                for (int i = 0; i < 5; i++) {
                    pair.right.completionQueue.arm(NotifyType.ANY);
                    pair.right.completionQueue.arm(NotifyType.SOLICITED);
                    message(pair, i % 2 == 0 ? OpFlags.NONE : OpFlags.SEND_AND_SOLICIT_EVENT);
                    assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
                    message(pair, OpFlags.NONE);
                    assertThat(pair.right.endsNow()).hasSize(2);
                }
            }
            assertThat(called).isEmpty(); // none after the close, and none too many before
        }
    }
}
