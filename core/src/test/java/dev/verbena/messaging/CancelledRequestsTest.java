package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.READ;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.RemoteMemory;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;

/** Futures that are cancelled, or time out, while their requests wait for room. */
@Timeout(120)
class CancelledRequestsTest {
    private static final int READ_OPCODE = 4;

    /** How a future may end before its request does. */
    private enum By {
        THIS_THREAD {
            @Override
            void end(CompletableFuture<?> future) {
                assertThat(future.cancel(true)).isTrue();
            }
        },
        /** As orTimeout does. */
        ANOTHER_THREAD {
            @Override
            void end(CompletableFuture<?> future) {
                CompletableFuture.runAsync(
                                () -> future.completeExceptionally(new TimeoutException()))
                        .join();
            }
        };

        abstract void end(CompletableFuture<?> future);
    }

    private final List<String> got = new ArrayList<>();

    /** A sends to B, which logs its messages and has exposed nothing. */
    private OneThread two() {
        return new OneThread(
                OneThread.SMALL, (channel, message) -> got.add(OneThread.text(message)));
    }

    private static List<CompletableFuture<Void>> send(OneThread two, int count) {
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(two.a.sendAsync(text("" + i)));
        }
        return all;
    }

    @ParameterizedTest
    @EnumSource
    void aMessageThatWaitsIsNotSent(By by) {
        try (OneThread two = two()) {
            two.hangs = true;
            List<CompletableFuture<Void>> all = send(two, 7);
            two.run();
            by.end(all.get(5));
            two.hangs = false;
            two.run();
            assertThat(got).containsExactly("0", "1", "2", "3", "4", "6");
            assertThat(all.get(6)).isCompleted();
        }
    }

    /** The program may have given its memory to somebody else. */
    @ParameterizedTest
    @EnumSource
    void aReadThatWaitsIsNotPosted(By by) {
        try (OneThread two = two()) {
            RemoteMemory remote = two.announce(two.expose(READ, LONG));
            BufferList into = new BufferList(1).add(two.other, 0, 7);
            two.device.running = false;
            List<CompletableFuture<Void>> all = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                all.add(two.b.peerMemory().readAsync(into, remote));
            }
            by.end(all.get(4));
            two.device.running = true;
            two.run();
            assertThat(two.posted(READ_OPCODE)).isEqualTo(5);
            assertThat(all.get(5)).isCompleted();
        }
    }

    /** The polling thread learns of it only after it has found room for the request. */
    @Test
    void aFutureThatAnotherThreadEndsAtTheLastMomentIsNotPosted() {
        try (OneThread two = two()) {
            two.device.running = false;
            List<CompletableFuture<Void>> all = send(two, 7);
            var _ = all.getFirst().thenRun(() -> By.ANOTHER_THREAD.end(all.get(5)));
            two.device.running = true;
            two.run();
            assertThat(got).containsExactly("0", "1", "2", "3", "4", "6");
        }
    }

    @Test
    void theyMakeRoomForOthers() {
        try (OneThread two = two()) {
            two.hangs = true;
            send(two, OneThread.SMALL.receives);
            for (int round = 0; round < 3; round++) {
                List<CompletableFuture<Void>> all = send(two, 1024);
                two.run();
                assertThat(all).noneMatch(CompletableFuture::isDone);
                all.forEach(one -> one.cancel(true));
            }
            assertThat(two.a.outbox.waiting.isEmpty()).isTrue();
        }
    }
}
