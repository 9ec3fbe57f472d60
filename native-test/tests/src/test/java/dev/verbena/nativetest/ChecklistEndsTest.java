package dev.verbena.nativetest;

import static dev.verbena.nativetest.Checklist.DEFER;
import static dev.verbena.nativetest.Checklist.SILENT;
import static dev.verbena.nativetest.Checklist.limits;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.Status;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * NDK's promises, point by point, between two devices: flush and close. What needs no device (flag
 * values, credits and refusals at each index) is tested in core, on a device that does not exist.
 */
@NeedsDevices
@Timeout(300)
class ChecklistEndsTest {
    @Nested
    class Point10Flush {
        @Test
        void aQueuePairThatNeverConnected() {
            try (Pair pair = new Pair(limits(4))) {
                MemoryRegion memory = pair.left.memory(8);
                pair.left.queuePair.receive(1, whole(memory)).orThrow();
                pair.left.queuePair.receive(2, whole(memory)).orThrow();
                pair.left.queuePair.flush();
                assertThat(pair.left.ends(2))
                        .containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
                pair.left.queuePair.receive(3, whole(memory)).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("RECEIVE 3 CANCELLED");
            }
        }

        @Test
        void silentAndDeferredRequestsAppearToo() {
            try (Pair pair = new Pair(limits(16)).connect()) {
                MemoryRegion memory = pair.left.filled(8, 1);
                for (int i = 0; i < 4; i++) {
                    pair.left.queuePair.receive(i, whole(memory)).orThrow();
                }
                // Nobody has a receive for the first, so all of these are outstanding.
                pair.left.queuePair.send(10, whole(memory), SILENT).orThrow();
                pair.left.queuePair.send(11, whole(memory)).orThrow();
                pair.left.queuePair.send(12, whole(memory), SILENT).orThrow();
                pair.left.queuePair.send(13, whole(memory), DEFER).orThrow();
                pair.left.queuePair.send(14, whole(memory), DEFER.and(SILENT)).orThrow();
                pair.left.queuePair.flush();
                assertThat(pair.left.ends(9))
                        .containsExactlyInAnyOrder(
                                "RECEIVE 0 CANCELLED",
                                "RECEIVE 1 CANCELLED",
                                "RECEIVE 2 CANCELLED",
                                "RECEIVE 3 CANCELLED",
                                "SEND 10 CANCELLED",
                                "SEND 11 CANCELLED",
                                "SEND 12 CANCELLED",
                                "SEND 13 CANCELLED",
                                "SEND 14 CANCELLED");
                assertThat(pair.left.queuePair.send(15, whole(memory)).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
                pair.left.queuePair.close();
                assertThat(pair.left.endsNow()).isEmpty();
            }
        }

        @Test
        void besidePosts() throws InterruptedException {
            for (int round = 0; round < 5; round++) {
                try (Pair pair = new Pair(limits(16)).connect()) {
                    MemoryRegion source = pair.left.filled(8, 1);
                    MemoryRegion target = pair.right.filled(8, 2);
                    CountDownLatch started = new CountDownLatch(1);
                    AtomicReference<List<String>> accepted = new AtomicReference<>();
                    Thread poster =
                            Thread.ofPlatform()
                                    .start(
                                            () ->
                                                    accepted.set(
                                                            postUntilRefused(
                                                                    pair, source, target,
                                                                    started)));
                    started.await();
                    List<String> ends = new ArrayList<>(pair.left.endsNow());
                    pair.left.queuePair.flush();
                    Deadline deadline = Deadline.of("end of the poster");
                    while (poster.isAlive()) {
                        deadline.check();
                        ends.addAll(pair.left.endsNow());
                    }
                    poster.join();
                    pair.left.queuePair.close();
                    ends.addAll(pair.left.endsNow());
                    assertThat(ends.stream().map(e -> e.substring(0, e.lastIndexOf(' '))))
                            .containsExactlyElementsOf(accepted.get());
                }
            }
        }

        private static List<String> postUntilRefused(
                Pair pair, MemoryRegion source, MemoryRegion target, CountDownLatch started) {
            List<String> accepted = new ArrayList<>();
            BufferList list = whole(source);
            Deadline deadline = Deadline.of("end of posting after the flush");
            Status status;
            do {
                deadline.check();
                OpFlags flags = accepted.size() % 3 == 1 ? DEFER : OpFlags.NONE;
                status =
                        pair.left
                                .queuePair
                                .write(
                                        accepted.size(),
                                        list,
                                        target.memory().address(),
                                        target.remoteToken(),
                                        flags)
                                .status();
                if (status == Status.SUCCESS) {
                    accepted.add("WRITE " + accepted.size());
                }
                started.countDown();
            } while (status == Status.SUCCESS || status == Status.NO_MORE_ENTRIES);
            return accepted;
        }
    }

    @Nested
    class Point12Closing {
        @Test
        void insideACallback() throws InterruptedException {
            AtomicReference<Pair> all = new AtomicReference<>();
            LinkedBlockingQueue<String> done = new LinkedBlockingQueue<>();
            Pair pair =
                    new Pair(
                                    limits(4),
                                    status -> {
                                        all.get().right.close();
                                        done.add("closed");
                                    })
                            .connect();
            all.set(pair);
            MemoryRegion inbox = pair.right.memory(8, Access.LOCAL_WRITE);
            pair.right.queuePair.receive(1, whole(inbox)).orThrow();
            pair.right.completionQueue.arm(NotifyType.ANY);
            pair.left.queuePair.send(2, new BufferList(1)).orThrow();
            assertThat(done.poll(30, TimeUnit.SECONDS)).isEqualTo("closed");
            pair.left.close();
        }
    }
}
