package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.BIND;
import static dev.verbena.messaging.OneThread.INVALIDATE;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.WRITE;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.Until;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;

/** How the exposure of memory ends on this side: revoked, by its deadline, or with its channel. */
@Timeout(120)
class ExposureEndTest {
    @Test
    void whatThePeerHasNotHeardOfIsInvalidatedAtOnce() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            int token = exposure.token;
            exposure.revoke();
            exposure.revoke();
            two.run();
            assertThat(two.log).containsExactly("CANCELLED");
            assertThat(two.posted(BIND)).isOne();
            assertThat(two.posted(INVALIDATE)).isOne();
            assertThat(two.device.sends).hasSize(2); // no frame
            RemoteMemory remote = new RemoteMemory(two.region.memory().address(), token, 1000);
            assertThat(two.b.peerMemory().tryWrite(two.bytes("x"), remote, 0, null, null))
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }
    }

    @Test
    void thePeerIsAskedBeforeAKeyIsInvalidatedHere() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            RemoteMemory remote = two.announce(exposure);
            // What it has posted by then is carried out.
            two.device.running = false;
            assertThat(two.b.peerMemory().tryWrite(two.bytes("late"), remote, 0, null, null))
                    .isEqualTo(Status.SUCCESS);
            exposure.revoke();
            two.run();
            assertThat(two.posted(INVALIDATE)).isZero();
            assertThat(two.log).isEmpty();
            two.device.resume();
            two.run();
            assertThat(two.log).containsExactly("CANCELLED");
            assertThat(two.region.memory().getString(0)).isEqualTo("late");
            assertThat(two.posted(INVALIDATE)).isOne();
            assertThat(two.b.peerMemory().trySendAndInvalidate(text("x"), 0, 1, remote, null, null))
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(two.a.isOpen()).isTrue();
            assertThat(two.b.isOpen()).isTrue();
        }
    }

    /** The deadline, and the peer's message: whichever is first, in every order that there is. */
    @ParameterizedTest
    @ValueSource(strings = {"deadline", "message", "message, not polled", "both at once"})
    void theDeadlineAndThePeersMessageMeet(String first) {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, Duration.ofSeconds(1));
            RemoteMemory remote = two.announce(exposure);
            two.a.tickSafely(two.poller.clock.tick()); // from here on, it has a second
            int late = two.poller.clock.tick() + 11;
            two.device.running = !first.equals("both at once");
            if (first.equals("deadline")) {
                two.a.tickSafely(late);
                two.run();
            }
            Status status =
                    two.b
                            .peerMemory()
                            .tryWriteAndInvalidate(
                                    two.bytes("value"),
                                    remote,
                                    0,
                                    text("answer"),
                                    0,
                                    6,
                                    null,
                                    null);
            switch (first) {
                case "deadline" -> assertThat(status).isEqualTo(Status.ACCESS_VIOLATION);
                case "message" -> {
                    two.run();
                    two.a.tickSafely(late);
                }
                case "message, not polled" -> {
                    two.device.run(); // the completion is there, and nobody has seen it
                    two.a.tickSafely(late);
                }
                default -> two.a.tickSafely(late);
            }
            two.device.resume();
            two.run();
            boolean revoked = first.equals("deadline");
            assertThat(two.log).containsExactly(revoked ? "IO_TIMEOUT" : "SUCCESS answer");
            assertThat(two.posted(INVALIDATE)).isEqualTo(revoked ? 1 : 0);
            assertThat(two.a.isOpen()).isTrue();
            assertThat(two.b.isOpen()).isTrue();
            // All windows are free again.
            for (int i = 0; i < 4; i++) {
                two.announce(two.expose(WRITE, LONG));
            }
            assertThat(two.device.windowCount()).isEqualTo(4);
        }
    }

    /** It has as many answers to give as there are windows. */
    @Test
    void aWindowIsNotFreeBeforeThePeerHasAnswered() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            RemoteMemory remote = two.announce(exposure);
            for (int i = 0; i < 3; i++) {
                two.announce(two.expose(WRITE, LONG));
            }
            two.b
                    .peerMemory()
                    .trySendAndInvalidate(text("answer"), 0, 6, remote, null, null)
                    .orThrow();
            two.hangs = true;
            exposure.revoke();
            two.run();
            assertThat(two.log).containsExactly("SUCCESS answer");
            assertThat(two.tryExpose(1, WRITE, (e, status, m) -> {}, null)).isNull();
            two.hangs = false;
            two.run();
            assertThat(two.tryExpose(1, WRITE, (e, status, m) -> {}, null)).isNotNull();
        }
    }

    @Test
    void answersThatWaitForRoomAreRefusedOnceAskedBack() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            RemoteMemory remote = two.announce(exposure);
            two.keeps = true;
            for (int i = 0; i < 4; i++) {
                assertThat(two.b.trySend(text("m")).isSuccess()).isTrue();
            }
            CompletableFuture<Void> answer =
                    two.b.peerMemory().writeAndInvalidateAsync(two.bytes("x"), remote, text("y"));
            CompletableFuture<Void> behind = two.b.sendAsync(text("z"));
            two.run();
            exposure.revoke();
            two.run();
            assertThat(answer).isNotDone();
            two.log.clear();
            two.keeps = false;
            two.kept.forEach(Message::release);
            two.run();
            assertThatThrownBy(answer::get)
                    .hasCauseInstanceOf(MessagingException.class)
                    .hasMessageContaining("ACCESS_VIOLATION");
            assertThat(behind).isCompleted();
            assertThat(two.log).containsExactly("a got z");
            assertThat(two.b.isOpen()).isTrue();
        }
    }

    @Test
    void aPeerThatDoesNotAnswerEndsTheChannel() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            two.announce(exposure);
            two.device.running = false;
            exposure.revoke();
            two.run();
            assertThat(two.log).isEmpty();
            two.pass(Duration.ofSeconds(9));
            assertThat(two.a.isOpen()).isTrue();
            two.pass(Duration.ofMillis(1400));
            assertThat(two.log).containsExactly("IO_TIMEOUT"); // and nobody can use the key
            assertThat(two.a.closeReason().status()).isEqualTo(Status.IO_TIMEOUT);
        }
    }

    /** Acknowledged by its device, but not answered by its program. */
    @Test
    void aPeerThatHangsEndsTheChannel() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            two.announce(exposure);
            two.hangs = true;
            exposure.revoke();
            two.run();
            two.pass(Duration.ofSeconds(9));
            assertThat(two.a.isOpen()).isTrue();
            two.a.tickSafely(two.poller.clock.tick() + 14);
            assertThat(two.a.closeReason())
                    .hasMessageContaining(
                            "the peer did not give back memory that was asked back within 10 s");
            assertThat(two.log).isEmpty(); // the peer can still write
            two.run();
            assertThat(two.log).containsExactly("IO_TIMEOUT");
        }
    }

    enum End {
        CLOSE,
        FAIL,
        CALLBACK_THROWS
    }

    @ParameterizedTest
    @EnumSource(End.class)
    void theEndOfTheChannelReachesEveryExposureOnce(End how) throws Exception {
        try (OneThread two = OneThread.open()) {
            Exposure announced = two.expose(WRITE, LONG);
            two.announce(announced);
            Exposure asked = two.expose(WRITE, LONG);
            two.announce(asked);
            Exposure waiting = two.a.ownMemory().expose(two.region, WRITE, LONG);
            CompletableFuture<Message> future = waiting.returned();
            two.device.running = false;
            asked.revoke();
            Exposure unannounced = two.expose(WRITE, LONG);
            unannounced.revoke(); // its invalidate is outstanding
            switch (how) {
                case CLOSE -> two.a.close();
                case FAIL -> two.a.fail(Status.CONNECTION_ABORTED, "of a test", null);
                default -> {
                    two.device.resume();
                    RuntimeException thrown = new IllegalStateException("of a test");
                    assertThat(
                                    two.a.trySend(
                                            text("x"),
                                            0,
                                            1,
                                            (channel, attachment, status) -> {
                                                throw thrown;
                                            },
                                            null))
                            .isEqualTo(Status.SUCCESS);
                }
            }
            two.run();
            assertThat(two.log).hasSize(3).noneMatch(line -> line.contains("in use"));
            assertThatThrownBy(future::get)
                    .hasCauseInstanceOf(MessagingException.class)
                    .hasMessageContaining("is closed");
            assertThatThrownBy(waiting::await)
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("is closed")
                    .doesNotMatch(why -> why.getCause() instanceof MessagingException);
            waiting.close();
            assertThat(two.a.closed()).isDone();
            assertThat(two.tryExpose(1, WRITE, (e, status, m) -> {}, null)).isNull();
            assertThatThrownBy(() -> two.a.ownMemory().expose(two.region, WRITE, LONG))
                    .isInstanceOf(MessagingException.class);
        }
    }

    /** A thread that waits gets the answer, although another thread closes the exposure. */
    @Test
    void aCloseLeavesTheMessageToTheThreadThatWaits() throws Exception {
        try (Two two = new Two(OneThread.SMALL, null, null);
                MemoryRegion region = two.poller.domain().allocate(64, Access.LOCAL_WRITE)) {
            for (int i = 0; i < 20; i++) {
                Exposure exposure = two.a.ownMemory().expose(region, WRITE, LONG);
                two.a.send(text("exposed"), LONG);
                two.b.receive(LONG).close();
                CountDownLatch polls = new CountDownLatch(1);
                MessageChannelEndTest.stopPolling(two.poller, polls);
                two.b
                        .peerMemory()
                        .trySendAndInvalidate(
                                text("answer"), 0, 6, exposure.remoteMemory(), null, null)
                        .orThrow();
                Pump.step(two.device);
                AtomicReference<Message> answer = new AtomicReference<>();
                Thread waiting =
                        Thread.ofPlatform()
                                .start(
                                        () -> {
                                            try {
                                                answer.set(exposure.await());
                                            } catch (InterruptedException e) {
                                                throw new IllegalStateException(e);
                                            }
                                        });
                Until.holds(() -> waiting.getState() == Thread.State.WAITING);
                Thread closing = Thread.ofPlatform().start(exposure::close);
                Until.holds(() -> closing.getState() == Thread.State.WAITING);
                polls.countDown();
                waiting.join();
                closing.join();
                Message message = answer.get();
                assertThat(message.frame().message()).isSameAs(message); // it is kept
                message.close();
            }
        }
    }

    /** The caller of returned() keeps the message when the wait of another is interrupted. */
    @Test
    void anInterruptedWaitLeavesTheMessageToOthers() throws Exception {
        try (Two two = new Two(OneThread.SMALL, null, null);
                MemoryRegion region = two.poller.domain().allocate(64, Access.LOCAL_WRITE)) {
            Exposure exposure = two.a.ownMemory().expose(region, WRITE, LONG);
            CompletableFuture<Message> returned = exposure.returned();
            two.a.send(text("exposed"), LONG);
            two.b.receive(LONG).close();
            AtomicReference<Throwable> end = new AtomicReference<>();
            Thread waiting =
                    Thread.ofPlatform()
                            .start(() -> end.set(catchThrowable(() -> exposure.await().close())));
            Until.holds(() -> waiting.getState() == Thread.State.WAITING);
            waiting.interrupt();
            waiting.join();
            assertThat(end.get()).isInstanceOf(InterruptedException.class);
            two.b
                    .peerMemory()
                    .trySendAndInvalidate(text("answer"), 0, 6, exposure.remoteMemory(), null, null)
                    .orThrow();
            Message message = returned.get(10, TimeUnit.SECONDS);
            exposure.close();
            assertThat(message.frame().message()).isSameAs(message); // it is kept
            message.close();
        }
    }

    /** The peer never gives it back. */
    @Test
    void theEndOfTheChannelEndsAThreadsClose() throws Exception {
        try (Two two = new Two(OneThread.SMALL, null, null);
                MemoryRegion region = two.poller.domain().allocate(64, Access.LOCAL_WRITE)) {
            Exposure exposure = two.a.ownMemory().expose(region, WRITE, LONG);
            two.a.send(text("exposed"), LONG);
            two.b.receive(LONG).close();
            two.stall();
            Thread closing = Thread.ofPlatform().daemon().start(exposure::close);
            Until.isIn(closing, Thread.State.WAITING);
            two.a.abandon();
            assertThat(closing.join(Duration.ofSeconds(10))).isTrue();
        }
    }

    /** Nobody waits for the message any more, so the close releases it. */
    @Test
    void anInterruptedWaitClaimsNoMessage() throws Exception {
        try (Two two = new Two(OneThread.SMALL, null, null);
                MemoryRegion region = two.poller.domain().allocate(64, Access.LOCAL_WRITE)) {
            Exposure exposure = two.a.ownMemory().expose(region, WRITE, LONG);
            two.a.send(text("exposed"), LONG);
            two.b.receive(LONG).close();
            Thread.currentThread().interrupt();
            assertThatThrownBy(exposure::await).isInstanceOf(InterruptedException.class);
            two.b
                    .peerMemory()
                    .trySendAndInvalidate(text("answer"), 0, 6, exposure.remoteMemory(), null, null)
                    .orThrow();
            Until.holds(exposure::hasEnded);
            exposure.close();
            two.b.send(text("next"), LONG);
            two.a.receive(LONG).close(); // half of the credit is reported
            Until.holds(() -> two.b.credit() == 4);
        }
    }

    /** A message that nobody gets would be one credit less for the peer. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFutureThatIsGivenUpLeavesTheMessageToOthers(boolean byAnotherThread) throws Exception {
        try (OneThread two = OneThread.open()) {
            for (int i = 0; i < 2 * OneThread.SMALL.receives; i++) {
                Exposure exposure = two.a.ownMemory().expose(two.region, WRITE, LONG);
                RemoteMemory remote = two.announce(exposure);
                CompletableFuture<Message> late = exposure.returned();
                CompletableFuture<Message> inTime = i % 2 == 0 ? exposure.returned() : null;
                if (byAnotherThread) { // as orTimeout does
                    Exception timeout = new TimeoutException();
                    CompletableFuture.runAsync(() -> late.completeExceptionally(timeout)).join();
                } else {
                    assertThat(late.cancel(true)).isTrue();
                }
                assertThat(
                                two.b
                                        .peerMemory()
                                        .trySendAndInvalidate(text("x"), 0, 1, remote, null, null))
                        .isEqualTo(Status.SUCCESS);
                two.run();
                exposure.close();
                if (inTime != null) {
                    assertThat(inTime.join().frame().message()).isSameAs(inTime.join()); // kept
                    inTime.join().close();
                }
                two.run();
            }
        }
    }
}
