package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** How connections end: by this side, the peer, a failure or the device. */
class DisconnectTest extends ConnectorRig {
    @Test
    void eachSideIsNotifiedOnce() throws Exception {
        Connector[] both = connected();
        BlockingQueue<String> callbacks = new LinkedBlockingQueue<>();
        both[0].onDisconnect(status -> callbacks.add("near " + status.name()));
        both[1].onDisconnect(status -> callbacks.add("far " + status.name()));
        both[1].onDisconnect(status -> callbacks.add("far, too"));
        both[0].disconnect();
        both[1].disconnect();
        assertThat(Set.of(callbacks.take(), callbacks.take(), callbacks.take()))
                .isEqualTo(Set.of("near SUCCESS", "far CONNECTION_INVALID", "far, too"));
        both[0].close();
        both[1].close();
        assertThat(callbacks).isEmpty();
        both[0].onDisconnect(status -> callbacks.add("late " + status.name()));
        assertThat(callbacks.take()).isEqualTo("late SUCCESS");
    }

    /** It cancels what is outstanding, as a flush by the program does. */
    @ParameterizedTest
    @CsvSource({
        "COMPLETION_QUEUE_FAILED, true",
        "COMPLETION_QUEUE_FAILED, false",
        "DEVICE_FAILED, true"
    })
    void aBrokenQueueOrDeviceIsNotAClose(AdapterEvent.Type kind, boolean outstanding)
            throws Exception {
        Connector[] both = connected();
        CompletableFuture<Status> over = new CompletableFuture<>();
        both[0].onDisconnect(over::complete);
        if (outstanding) {
            near.receive(1, new BufferList(1)).orThrow();
        }
        device.raise(kind, queue.nativeHandle().address());
        if (outstanding) {
            Completions completions = new Completions(4);
            Until.holds(() -> near.state() == QueuePairState.FAILED);
            Until.holds(() -> queue.poll(completions) > 0);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
        }
        assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(near.state()).isEqualTo(QueuePairState.FAILED);
    }

    @Test
    void aFlushByTheProgramIsNoFailure() throws Exception {
        Connector[] both = connected();
        CompletableFuture<Status> over = new CompletableFuture<>();
        both[0].onDisconnect(over::complete);
        near.receive(1, new BufferList(1)).orThrow();
        near.flush();
        Completions completions = new Completions(4);
        Until.holds(() -> queue.poll(completions) > 0);
        assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
        assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
    }

    @Test
    void theProvidersReasonIsWhatTheConnectionManagerReported() throws Exception {
        Connector[] both = connected();
        CountDownLatch over = new CountDownLatch(1);
        both[1].onDisconnect(status -> over.countDown());
        assertThat(both[1].disconnectReason()).as("connected").isEmpty();
        both[0].disconnect();
        Until.reached(over);
        assertThat(both[1].disconnectReason()).isEqualTo("RDMA_CM_EVENT_DISCONNECTED, status 0");
        assertThat(both[0].disconnectReason()).as("the side that disconnected").isEmpty();
    }

    /** The kernel begins one when a peer asks for a connection from the same queue pair again. */
    @Test
    void theKernelsOwnDisconnectCanBeToldFromThePeers() throws Exception {
        Connector[] both = connected();
        CompletableFuture<Status> first = new CompletableFuture<>();
        CompletableFuture<Status> second = new CompletableFuture<>();
        both[0].onDisconnect(first::complete);
        both[1].onDisconnect(second::complete);
        network.emit("ESTABLISHED", ConnectionEvent.Kind.DISCONNECTED, -Errno.ETIMEDOUT);
        assertThat(first.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(second.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(both[0].disconnectReason())
                .startsWith("RDMA_CM_EVENT_DISCONNECTED, status -110: ")
                .contains("ETIMEDOUT");
    }

    @Test
    void thePeersDisconnectCancelsNothing() throws Exception {
        Connector[] both = connected();
        CountDownLatch over = new CountDownLatch(1);
        both[1].onDisconnect(status -> over.countDown());
        MemoryRegion memory = keep(domain.register(arena.allocate(64), Access.LOCAL_WRITE));
        far.receive(7, new BufferList(1).add(memory, 0, 64)).orThrow();
        both[0].disconnect();
        Until.reached(over);
        Completions completions = new Completions(4);
        assertThat(queue.poll(completions)).isZero();
        assertThat(far.connected()).isFalse();
        assertThat(far.send(1, new BufferList(1)).status()).isEqualTo(Status.CONNECTION_INVALID);
        both[1].disconnect();
        assertThat(queue.poll(completions)).isEqualTo(1);
        assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
    }

    @Test
    void outstandingRequestsMayEnd() throws Exception {
        Connector[] both = connected();
        device.running = false;
        for (int i = 0; i < 3; i++) {
            near.write(i, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
        }
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        assertThat(near.send(1, new BufferList(1)).status()).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(ending).isNotDone();
        assertThat(network.calls).doesNotContain("disconnect");
        device.running = true;
        device.run();
        get(ending);
        assertThat(queue.poll(new Completions(4))).as("silent ones succeeded").isZero();
    }

    @Test
    void theSecondOfTwoDisconnectsHasItsOwnDeadlineAndEndsOnlyItsOwnWait() throws Exception {
        Connector[] both = connected();
        device.running = false;
        near.write(5, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
        CompletableFuture<Void> first = both[0].disconnectAsync(DEFAULTS);
        assertThat(failure(both[0].disconnectAsync(SOON)).status()).isEqualTo(Status.IO_TIMEOUT);
        CompletableFuture<Void> cancelled = both[0].disconnectAsync(DEFAULTS);
        cancelled.cancel(true);
        Thread.currentThread().interrupt();
        assertThat(failure(() -> both[0].disconnect()).status()).isEqualTo(Status.CANCELLED);
        assertThat(Thread.interrupted()).isTrue();
        assertThat(first).isNotDone();
        CompletableFuture<Void> last = both[0].disconnectAsync(DEFAULTS);
        device.running = true;
        device.run();
        get(first);
        get(last);
    }

    @Test
    void requestsThatDoNotEndAreCancelled() throws Exception {
        Connector[] both = connected();
        device.running = false;
        near.write(5, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
        get(both[0].disconnectAsync(DEFAULTS.withDeadline(Duration.ofSeconds(1))));
        Completions completions = new Completions(4);
        assertThat(queue.poll(completions)).isEqualTo(1);
        assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
        assertThat(completions.context(0)).isEqualTo(5);
    }

    @Test
    void aPeerThatDoesNotConfirm() throws Exception {
        Connector[] both = connected();
        network.silent.addAll(List.of("confirm", "disconnect"));
        assertThat(failure(both[0].disconnectAsync(SOON)).status()).isEqualTo(Status.IO_TIMEOUT);
        both[0].disconnect(); // it is over here all the same
    }

    @Test
    void bothAtOnce() throws Exception {
        for (int i = 0; i < 20; i++) {
            try (QueuePair one = queuePair();
                    QueuePair two = queuePair();
                    Listener listener =
                            adapter.listen(new InetSocketAddress(HERE, 0), 0, requests::add);
                    Connector connector = adapter.createConnector()) {
                CompletableFuture<Void> connecting =
                        connector.connectAsync(one, listener.localAddress(), DEFAULTS);
                try (Connector request = requests.take()) {
                    CompletableFuture<Void> accepting = request.acceptAsync(two, DEFAULTS);
                    get(connecting);
                    connector.completeConnect();
                    get(accepting);
                    AtomicInteger callbacks = new AtomicInteger();
                    CountDownLatch all = new CountDownLatch(2);
                    for (Connector side : List.of(connector, request)) {
                        side.onDisconnect(
                                s -> {
                                    callbacks.incrementAndGet();
                                    all.countDown();
                                });
                    }
                    CompletableFuture<Void> here = connector.disconnectAsync(DEFAULTS);
                    CompletableFuture<Void> there = request.disconnectAsync(DEFAULTS);
                    get(here);
                    get(there);
                    Until.reached(all);
                    assertThat(callbacks).hasValue(2);
                }
            }
        }
    }

    @Test
    void theDeviceGoes() throws Exception {
        Connector[] both = connected();
        BlockingQueue<Status> callbacks = new LinkedBlockingQueue<>();
        both[0].onDisconnect(callbacks::add);
        network.emit("ESTABLISHED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
        assertThat(callbacks.take()).isEqualTo(Status.DEVICE_REMOVED);
        Until.holds(() -> !far.connected());
    }

    @Test
    void theDeviceGoesWhileARequestOrAnAnswerWaits() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(near, listener().localAddress(), DEFAULTS);
        Connector request = request();
        network.emit("REQUESTED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
        Until.holds(() -> request.toString().contains("gone"));
        assertThat(failure(() -> request.accept(far)).status()).isEqualTo(Status.DEVICE_REMOVED);
        request.close();
        assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
    }

    @Test
    void theDeviceGoesDuringAStepOrAClose() throws Exception {
        Connector[] both = connected();
        network.silent.addAll(List.of("confirm", "disconnect"));
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        both[1].close();
        network.until(() -> network.calls.stream().filter("disconnect"::equals).count() == 2);
        network.emit("ESTABLISHED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
        assertThat(failure(ending).status()).isEqualTo(Status.DEVICE_REMOVED);
        network.until(() -> network.identifiers() == 1); // the listener's
    }

    @Test
    void thePeerDisconnectsFirstWhileThisSideDrains() throws Exception {
        Connector[] both = connected();
        device.running = false;
        near.send(1, new BufferList(1)).orThrow();
        CompletableFuture<Void> here = both[0].disconnectAsync(DEFAULTS);
        CompletableFuture<Void> there = both[1].disconnectAsync(DEFAULTS);
        get(here);
        get(there);
        assertThat(cancelled()).containsExactly(1L);
    }

    /** The contexts of all completions that are there: each was cancelled. */
    private List<Long> cancelled() {
        Completions completions = new Completions(8);
        List<Long> contexts = new ArrayList<>();
        while (queue.poll(completions) > 0) {
            for (int i = 0; i < completions.size(); i++) {
                assertThat(completions.status(i)).isEqualTo(Status.CANCELLED);
                contexts.add(completions.context(i));
            }
        }
        return contexts;
    }

    @Test
    void aCloseCancelsOutstandingRequestsAtOnce() throws Exception {
        Connector[] both = connected();
        device.running = false;
        near.send(1, new BufferList(1)).orThrow();
        near.receive(2, new BufferList(1)).orThrow();
        both[0].close();
        assertThat(cancelled()).containsExactlyInAnyOrder(1L, 2L);
    }

    @Test
    void aCloseAfterThePeerLeftCancelsWhatItsLeavingDidNot() throws Exception {
        Connector[] both = connected();
        near.receive(2, new BufferList(1)).orThrow();
        both[1].disconnect();
        Until.holds(() -> !near.connected());
        assertThat(cancelled()).isEmpty();
        both[0].close();
        assertThat(cancelled()).containsExactly(2L);
    }

    @Test
    void aCloseWhileAcceptingCancelsWhatWasPosted() throws Exception {
        network.silent.add("accept");
        connecting(connector());
        far.receive(2, new BufferList(1)).orThrow();
        Connector request = request();
        request.acceptAsync(far, DEFAULTS);
        request.close();
        assertThat(cancelled()).containsExactly(2L);
    }

    @Test
    void aDisconnectPostsAWriteOfNothingBehindSilentRequests() throws Exception {
        Connector[] both = connected();
        device.running = false;
        near.write(1, new BufferList(1), 0x1000, 7, OpFlags.SILENT_SUCCESS).orThrow();
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        device.until(() -> device.chains.size() == 2);
        PostedRequest last = device.sends.getLast();
        assertThat(last.opcode()).isZero(); // IBV_WR_RDMA_WRITE
        assertThat(last.flags()).isEqualTo(2); // IBV_SEND_SIGNALED
        assertThat(last.sges()).isEmpty();
        assertThat(Arrays.copyOfRange(last.request(), 40, 52)).containsOnly(0); // remote
        device.running = true;
        device.run();
        get(ending);
        near.close();
        assertThat(device.chains).containsExactly(1, 1);
    }

    @Test
    void aDisconnectPostsNothingBehindOneThatReportsItsEnd() throws Exception {
        Connector[] both = connected();
        device.running = false;
        near.write(1, new BufferList(1), 0x1000, 7, OpFlags.NONE).orThrow();
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        device.running = true;
        device.run();
        get(ending);
        near.close();
        assertThat(device.chains).containsExactly(1);
    }

    @Test
    void aCloseEndsADisconnectThatWaitsAndNotifiesThePeer() throws Exception {
        Connector[] both = connected();
        BlockingQueue<Status> peer = new LinkedBlockingQueue<>();
        both[1].onDisconnect(peer::add);
        device.running = false;
        near.send(1, new BufferList(1)).orThrow();
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        both[0].close();
        assertThat(failure(ending).status()).isEqualTo(Status.CANCELLED);
        assertThat(peer.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(cancelled()).containsExactly(1L);
    }

    @Test
    void aCloseAfterADisconnectNotifiesThePeerOnce() throws Exception {
        Connector[] both = connected();
        network.silent.addAll(List.of("confirm", "disconnect"));
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        network.until(() -> network.calls.contains("disconnect"));
        both[0].close();
        assertThat(failure(ending).status()).isEqualTo(Status.CANCELLED);
        assertThat(network.calls).containsOnlyOnce("disconnect");
        // The last event that an identifier has reports its end, if no other does.
        network.emit("ESTABLISHED", ConnectionEvent.Kind.TIMEWAIT_EXIT, 0);
        network.until(() -> network.identifiers() == 2); // the listener's, and the peer's
    }

    @Test
    void theLastEventOfAnIdentifierEndsAConnectionThatMissedTheOthers() throws Exception {
        Connector[] both = connected();
        BlockingQueue<Status> here = new LinkedBlockingQueue<>();
        both[0].onDisconnect(here::add);
        network.emit("ESTABLISHED", ConnectionEvent.Kind.TIMEWAIT_EXIT, 0);
        assertThat(here.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(near.connected()).isFalse();
    }

    @Test
    void aDisconnectThatTheKernelRefusesIsOver() throws Exception {
        Connector[] both = connected();
        network.errors.put("disconnect", Errno.EINVAL);
        both[0].disconnect();
        network.errors.put("disconnect", Errno.EINVAL);
        both[1].close();
        network.until(() -> network.identifiers() == 1); // the listener's
    }

    @Test
    void aRejectThatTheKernelRefusesWasTooLate() throws Exception {
        connecting(connector());
        Connector request = request();
        network.errors.put("reject", Errno.EINVAL);
        assertThat(failure(() -> request.reject(HELLO)).status())
                .isEqualTo(Status.CONNECTION_ABORTED);
    }

    /** Only a peer whose program has rejected the connection closed it. */
    @ParameterizedTest
    @CsvSource({
        "REJECTED, 28, CONNECTION_INVALID",
        "REJECTED, 10, CONNECTION_ABORTED",
        "UNREACHABLE, 4, CONNECTION_ABORTED",
        "TIMEWAIT_EXIT, 0, CONNECTION_ABORTED"
    })
    void theConnectionManagerReportsTheEndByAnotherEvent(
            ConnectionEvent.Kind kind, int status, Status end) throws Exception {
        Connector[] both = connected();
        BlockingQueue<Status> callbacks = new LinkedBlockingQueue<>();
        both[0].onDisconnect(callbacks::add);
        network.emit("ESTABLISHED", kind, status);
        assertThat(callbacks.take()).isEqualTo(end);
        assertThat(near.connected()).isFalse();
        assertThat(both[0].disconnectReason())
                .isEqualTo("RDMA_CM_EVENT_%s, status %d", kind, status);
        both[0].disconnect();
        assertThat(callbacks).isEmpty();
        assertThat(both[0].disconnectReason()).as("kept").contains(kind.name());
    }

    @Test
    void aRequestThatFailsIsTheEnd() throws Exception {
        Connector[] both = connected();
        BlockingQueue<Status> callbacks = new LinkedBlockingQueue<>();
        both[0].onDisconnect(callbacks::add);
        device.failAt = device.sends.size();
        device.failStatus = 12; // IBV_WC_RETRY_EXC_ERR
        near.send(1, new BufferList(1)).orThrow();
        Completions completions = new Completions(1);
        Until.holds(() -> queue.poll(completions) == 1);
        assertThat(completions.status(0)).isEqualTo(Status.IO_TIMEOUT);
        assertThat(callbacks.take()).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(near.connected()).isFalse();
        both[0].disconnect();
        assertThat(callbacks).isEmpty();
    }

    /** Only a disconnect notifies the peer: its own queue pair may be as it was. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void thePeerIsDisconnectedWhenARequestFails(boolean ofTheConnectingSide) throws Exception {
        Connector[] both = connected();
        int failing = ofTheConnectingSide ? 0 : 1;
        QueuePair here = ofTheConnectingSide ? near : far;
        QueuePair there = ofTheConnectingSide ? far : near;
        BlockingQueue<String> callbacks = new LinkedBlockingQueue<>();
        both[failing].onDisconnect(status -> callbacks.add("here " + status.name()));
        both[1 - failing].onDisconnect(status -> callbacks.add("there " + status.name()));
        there.receive(7, new BufferList(1)).orThrow();
        device.failAt = 0;
        device.failStatus = 10; // IBV_WC_REM_ACCESS_ERR
        here.write(1, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
        Completions completions = new Completions(1);
        Until.holds(() -> queue.poll(completions) == 1);
        assertThat(completions.status(0)).isEqualTo(Status.ACCESS_VIOLATION);
        assertThat(Set.of(next(callbacks), next(callbacks)))
                .isEqualTo(Set.of("here CONNECTION_ABORTED", "there CONNECTION_INVALID"));
        assertThat(there.connected()).isFalse();
        assertThat(there.send(2, new BufferList(1)).status()).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(queue.poll(completions)).as("nothing is flushed there").isZero();
        both[1 - failing].disconnect();
        assertThat(queue.poll(completions)).isEqualTo(1);
        assertThat(completions.context(0)).isEqualTo(7);
        assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
        both[failing].disconnect();
        assertThat(callbacks).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"here", "by the peer", "by a close", "by a request", "by the device"})
    void aCallbackOfTheEndHoldsNoLockOfTheConnection(String how) throws Exception {
        Connector[] both = connected();
        CompletableFuture<String> seen = new CompletableFuture<>();
        both[0].onDisconnect(
                status ->
                        CompletableFuture.supplyAsync(both[0]::disconnectReason)
                                .orTimeout(10, TimeUnit.SECONDS)
                                .whenComplete(
                                        (reason, thrown) -> {
                                            if (thrown == null) {
                                                seen.complete(reason);
                                            } else {
                                                seen.completeExceptionally(thrown);
                                            }
                                        })
                                .join());
        switch (how) {
            case "here" -> get(both[0].disconnectAsync(DEFAULTS));
            case "by the peer" -> get(both[1].disconnectAsync(DEFAULTS));
            case "by a close" -> both[0].close();
            case "by a request" -> {
                device.failAt = device.sends.size();
                device.failStatus = 12; // IBV_WC_RETRY_EXC_ERR
                near.send(1, new BufferList(1)).orThrow();
                Completions completions = new Completions(1);
                Until.holds(() -> queue.poll(completions) == 1);
            }
            default -> network.emit("ESTABLISHED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
        }
        assertThat(seen.get(20, TimeUnit.SECONDS)).isNotNull();
    }

    private static String next(BlockingQueue<String> callbacks) throws InterruptedException {
        String next = callbacks.poll(20, TimeUnit.SECONDS);
        assertThat(next).as("a callback within 20 s").isNotNull();
        return next;
    }

    @Test
    void aPeerThatTheKernelGivesUpDidNotConfirm() throws Exception {
        Connector[] both = connected();
        network.silent.addAll(List.of("confirm", "disconnect"));
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        CompletableFuture<Void> again = both[0].disconnectAsync(DEFAULTS);
        network.until(() -> network.calls.contains("disconnect"));
        network.emit("ESTABLISHED", ConnectionEvent.Kind.DISCONNECTED, -Errno.ETIMEDOUT);
        assertThat(failure(ending).status()).isEqualTo(Status.IO_TIMEOUT);
        assertThat(failure(again).status()).isEqualTo(Status.IO_TIMEOUT);
    }

    @Test
    void whatWasNeverConnectedCannotBeDisconnected() throws Exception {
        connecting(connector());
        Connector request = request();
        request.reject(HELLO);
        assertThat(failure(() -> request.disconnect()).status())
                .isEqualTo(Status.CONNECTION_INVALID);
    }
}
